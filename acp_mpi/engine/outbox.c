/* A list of blocks; a block goes when all its frames are acknowledged. */
#include "outbox.h"

#include <stdlib.h>

#define BLOCK_BYTES ((size_t)4096 - sizeof(struct outbox_block))
#define LARGE_BYTES ((size_t)68 << 10) /* the largest frame, and some */
#define SPARES 32u

struct outbox_block {
    struct outbox_block *next;
    size_t size, room;
    uint64_t frames;
    unsigned char data[];
};

/* Large blocks are used again: the system would take their pages back, and each message would have
 * to fault them in. */
static struct outbox_block *block_take(struct outbox *o, size_t size)
{
    size_t room = size <= BLOCK_BYTES ? BLOCK_BYTES : size <= LARGE_BYTES ? LARGE_BYTES : size;
    struct outbox_block *b = room == LARGE_BYTES ? o->spares->first : NULL;
    if (b) {
        o->spares->first = b->next;
        o->spares->count--;
    } else if (!(b = malloc(sizeof *b + room))) {
        return NULL;
    }
    *b = (struct outbox_block){.room = room};
    return b;
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

void outbox_spares_free(struct outbox_spares *spares)
{
    while (spares->first) {
        struct outbox_block *b = spares->first;
        spares->first = b->next;
        free(b);
    }
    spares->count = 0;
}

unsigned char *outbox_add(struct outbox *o, size_t size)
{
    struct outbox_block *b = o->tail;
    if (!b || b->room - b->size < size) {
        if (!(b = block_take(o, size)))
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

void outbox_drop(struct outbox *o, size_t size)
{
    o->tail->size -= size;
    o->tail->frames--;
    o->next--;
    o->held -= size;
    o->unsent -= size;
}

int outbox_pieces(const struct outbox *o, struct iovec *pieces, int most)
{
    size_t offset = o->offset;
    int count = 0;
    for (struct outbox_block *b = o->at; b && count < most; b = b->next, offset = 0)
        if (b->size > offset)
            pieces[count++] = (struct iovec){b->data + offset, b->size - offset};
    return count;
}

void outbox_sent(struct outbox *o, size_t size)
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

bool outbox_ack(struct outbox *o, uint64_t count)
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

void outbox_rewind(struct outbox *o, size_t (*size_of)(const unsigned char *frame))
{
    o->at = o->head;
    o->offset = 0;
    for (uint64_t skip = o->acked - o->first; skip; skip--)
        o->offset += size_of(o->at->data + o->offset);
    o->unsent = o->held - o->offset;
}

void outbox_free(struct outbox *o)
{
    while (o->head) {
        struct outbox_block *b = o->head;
        o->head = b->next;
        free(b);
    }
    *o = (struct outbox){.spares = o->spares};
}
