/* A list of blocks; a block goes when all its frames are acknowledged. */
#include "transport/tcp_send_queue.h"
#include "core/state/transport.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)4096 - sizeof(struct outbox_block))
#define LARGE_BYTES ((size_t)68 << 10) /* the largest frame, and some */
#define SPARES 64u
#define RESERVE 2u /* large blocks that are kept for answers */

struct outbox_block {
    struct outbox_block *next;
    size_t size, room;
    uint64_t frames;
    unsigned char *borrower;   /* the frame of which a part is elsewhere; NULL: none */
    const unsigned char *lent; /* that part: bytes from data + lent_at on */
    size_t lent_at, lent_size;
    unsigned char data[];
};

/* Large blocks are used again: the system would take their pages back, and each message would have
 * to fault them in. */
static struct outbox_block *block_take(struct outbox *o, size_t size, bool answer)
{
    struct outbox_spares *spares = o->spares;
    size_t room = size <= BLOCK_BYTES ? BLOCK_BYTES : size <= LARGE_BYTES ? LARGE_BYTES : size;
    bool spare = room == LARGE_BYTES && spares->count > RESERVE;
    struct outbox_block *b = spare ? NULL : malloc(sizeof *b + room);
    if (!b && (spare || (answer && room <= LARGE_BYTES)) && (b = spares->first)) {
        spares->first = b->next;
        spares->count--;
        room = LARGE_BYTES;
    }
    if (b)
        *b = (struct outbox_block){.room = room};
    return b;
}

bool tcp_send_queue_provide(struct outbox_spares *spares)
{
    while (spares->count < RESERVE) {
        struct outbox_block *b = malloc(sizeof *b + LARGE_BYTES);
        if (!b)
            return false;
        b->next = spares->first;
        spares->first = b;
        spares->count++;
    }
    return true;
}

static void block_give(struct outbox *o, struct outbox_block *b)
{
    if (b->room != LARGE_BYTES || o->spares->count == SPARES) {
        free(b);
        return;
    }
    b->next = o->spares->first;
    o->spares->first = b;
    o->spares->count++;
}

void tcp_send_queue_spares_free(struct outbox_spares *spares)
{
    while (spares->first) {
        struct outbox_block *b = spares->first;
        spares->first = b->next;
        free(b);
    }
    spares->count = 0;
}

unsigned char *tcp_send_queue_add(struct outbox *o, size_t size, bool answer)
{
    struct outbox_block *b = o->tail;
    if (!b || b->room - b->size < size) {
        if (!(b = block_take(o, size, answer)))
            return NULL;
        if (o->tail)
            o->tail->next = b;
        else
            o->head = b;
        o->tail = b;
        if (!o->at) {
            o->at = b;
            o->offset = 0;
        }
    }
    unsigned char *at = b->data + b->size;
    b->size += size;
    b->frames++;
    o->next++;
    o->held += size;
    o->unsent += size;
    return at;
}

void tcp_send_queue_lend(struct outbox *o, unsigned char *frame, size_t at, const unsigned char *body,
                         size_t size)
{
    struct outbox_block *b = o->tail;
    b->borrower = frame;
    b->lent = body;
    b->lent_at = (size_t)(frame - b->data) + at;
    b->lent_size = size;
}

void tcp_send_queue_take_in(struct outbox *o, const unsigned char *low, const unsigned char *high,
                            void (*seal)(unsigned char *frame))
{
    for (struct outbox_block *b = o->head; b; b = b->next) {
        if (!b->borrower || b->lent >= high || b->lent + b->lent_size <= low)
            continue;
        memcpy(b->data + b->lent_at, b->lent, b->lent_size);
        if (seal)
            seal(b->borrower);
        b->borrower = NULL;
    }
}

void tcp_send_queue_drop(struct outbox *o, size_t size)
{
    o->tail->size -= size;
    o->tail->frames--;
    o->next--;
    o->held -= size;
    o->unsent -= size;
}

/* The bytes of a block from `offset` on that lie in one piece. */
static struct iovec piece_at(struct outbox_block *b, size_t offset)
{
    size_t lent_end = b->lent_at + b->lent_size;
    if (!b->borrower || offset >= lent_end)
        return (struct iovec){b->data + offset, b->size - offset};
    if (offset < b->lent_at)
        return (struct iovec){b->data + offset, b->lent_at - offset};
    return (struct iovec){(unsigned char *)(uintptr_t)b->lent + (offset - b->lent_at),
                          lent_end - offset};
}

int tcp_send_queue_pieces(const struct outbox *o, struct iovec *pieces, int most)
{
    size_t offset = o->offset;
    int count = 0;
    for (struct outbox_block *b = o->at; b && count < most; b = b->next, offset = 0)
        for (; offset < b->size && count < most; offset += pieces[count++].iov_len)
            pieces[count] = piece_at(b, offset);
    return count;
}

void tcp_send_queue_sent(struct outbox *o, size_t size)
{
    o->unsent -= size;
    while (size) {
        size_t left = o->at->size - o->offset, part = size < left ? size : left;
        o->offset += part;
        size -= part;
        if (o->offset == o->at->size && o->at->next) {
            o->at = o->at->next;
            o->offset = 0;
        }
    }
}

size_t tcp_send_queue_ahead(const struct outbox *o, size_t most, size_t (*size_of)(const unsigned char *frame),
                            bool (*take)(void *context, unsigned char *frame, const unsigned char *lent),
                            void *context)
{
    size_t total = 0, offset = o->offset;
    for (struct outbox_block *b = o->at; b && total < most; b = b->next, offset = 0) {
        while (offset < b->size && total < most) {
            unsigned char *frame = b->data + offset;
            size_t size = size_of(frame);
            if (take && !take(context, frame, frame == b->borrower ? b->lent : NULL))
                return total;
            total += size;
            offset += size;
        }
    }
    return total;
}

bool tcp_send_queue_ack(struct outbox *o, uint64_t count)
{
    if (count > o->next)
        return false;
    if (count <= o->acked)
        return true; /* an old one, overtaken on another stream */
    for (struct outbox_block *b; (b = o->head) && o->first + b->frames <= count;) {
        if (b == o->at && o->offset < b->size)
            return false; /* acknowledged before it was sent */
        o->first += b->frames;
        o->acked = o->first;
        o->held -= b->size;
        if (!b->next && b->room == BLOCK_BYTES) { /* kept for the next frame */
            b->size = b->frames = 0;
            o->offset = 0;
            break;
        }
        o->head = b->next;
        if (o->at == b) {
            o->at = b->next;
            o->offset = 0;
        }
        if (!o->head)
            o->tail = NULL;
        block_give(o, b);
    }
    o->acked = count;
    return true;
}

void tcp_send_queue_rewind(struct outbox *o, size_t (*size_of)(const unsigned char *frame))
{
    o->at = o->head;
    o->offset = 0;
    for (uint64_t skip = o->acked - o->first; skip; skip--)
        o->offset += size_of(o->at->data + o->offset);
    o->unsent = o->held - o->offset;
}

void tcp_send_queue_free(struct outbox *o)
{
    while (o->head) {
        struct outbox_block *b = o->head;
        o->head = b->next;
        free(b);
    }
    *o = (struct outbox){.spares = o->spares};
}
