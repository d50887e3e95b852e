/* Sealed frames: what goes in at one side of a connection comes out at the other, in pieces of any size, from queues that
 * are sent again on other connections; what is changed, left out, repeated or moved on the way is refused. */
#include "fuzz.h"
#include "base/libcrypto.h"
#include "core/state/transport.h"
#include "transport/seal.h"
#include "transport/tcp_send_queue.h"

#define STREAM ((size_t)1 << 20)
#define FRAMES 64u
#define PIECES 5

static struct libcrypto crypto;

struct sent {
    size_t at;        /* of the frame in the stream */
    uint64_t id;      /* what its message says */
    uint32_t size;    /* of its payload */
};

struct connection {
    struct seal *here, *there;
    unsigned char *stream;
    size_t size, count;
    struct sent sent[FRAMES];
};

static void connection_begin(struct connection *c)
{
    uint8_t keys[64];
    uint8_t mode = crypto.handle && fuzz_below(2) ? ACP_LINKS_ENCRYPT : ACP_LINKS_MAC;
    for (size_t i = 0; i < sizeof keys; i++)
        keys[i] = (uint8_t)fuzz_draw();
    c->here = seal_new(&crypto, mode, keys, keys + 32);
    c->there = seal_new(&crypto, mode, keys + 32, keys);
    CHECK(c->here && c->there);
    c->size = c->count = 0;
}

static void connection_end(struct connection *c)
{
    seal_free(c->here);
    seal_free(c->there);
}

static struct message message_of(uint64_t id, uint8_t kind)
{
    return (struct message){.kind = kind, .id = id, .a = ~id, .dst = id * 3};
}

/* What a payload holds follows from its frame. */
static void fill(unsigned char *payload, uint32_t size, uint64_t id)
{
    for (uint32_t i = 0; i < size; i++)
        payload[i] = (unsigned char)(id * 7 + i);
}

static void add(struct outbox *o, uint64_t id, uint32_t size, unsigned char *lent)
{
    struct message m = message_of(id, ACP_PUT);
    unsigned char *frame = tcp_send_queue_add(o, frame_sealed_bytes(size), false);
    CHECK(frame);
    frame_compose(frame, &m, 0, size);
    if (lent) {
        fill(lent, size, id);
        tcp_send_queue_lend(o, frame, FRAME_HEAD, lent, size);
    } else {
        fill(frame + FRAME_HEAD, size, id);
    }
}

static void note(struct connection *c, size_t at, uint64_t id, uint32_t size)
{
    CHECK(c->count < FRAMES);
    c->sent[c->count++] = (struct sent){at, id, size};
}

/* Sends what is in the queue from frame `first` on, in pieces, with frames of no queue in between. */
static void send_all(struct connection *c, struct outbox *o, const uint32_t *sizes, uint64_t first)
{
    size_t at = c->size;
    while (o->unsent) {
        struct iovec pieces[PIECES];
        if (seal_between(c->here) && c->size == at && fuzz_below(4) == 0) {
            struct message m = message_of(1000, ACP_PROBE);
            unsigned char payload[64];
            uint32_t size = fuzz_below(2) * fuzz_below(sizeof payload);
            fill(payload, size, m.id);
            size_t n = seal_write(c->here, c->stream + c->size, &m, 5, payload, size);
            if (fuzz_below(3) == 0) {
                seal_unsent(c->here); /* the system took nothing */
                continue;
            }
            note(c, c->size, 1000, size);
            c->size = at = c->size + n;
        }
        size_t turn = fuzz_below(2) ? FRAME_MOST / 2 : SIZE_MAX;
        int count = seal_pieces(c->here, o, pieces, 1 + (int)fuzz_below(PIECES), turn);
        size_t whole = 0, take;
        CHECK(count > 0);
        for (int i = 0; i < count; i++)
            whole += pieces[i].iov_len;
        take = fuzz_below(3) ? whole : 1 + fuzz_below(whole);
        for (int i = 0, left = (int)take; i < count && left; i++) {
            int part = (int)pieces[i].iov_len < left ? (int)pieces[i].iov_len : left;
            CHECK(c->size + (size_t)part <= STREAM);
            memcpy(c->stream + c->size, pieces[i].iov_base, (size_t)part);
            c->size += (size_t)part;
            left -= part;
        }
        tcp_send_queue_sent(o, take);
        seal_sent(c->here, take);
        for (; c->size - at >= FRAME_HEAD && c->size - at >= frame_sealed_bytes(sizes[first]); first++) {
            note(c, at, first, sizes[first]);
            at += frame_sealed_bytes(sizes[first]);
        }
    }
    CHECK(at == c->size);
}

static void check_frame(const struct frame *f, const struct sent *s)
{
    struct message m = message_of(s->id, s->id == 1000 ? ACP_PROBE : ACP_PUT);
    CHECK(f->message.id == m.id && f->message.a == m.a && f->message.dst == m.dst && f->message.kind == m.kind);
    CHECK(f->size == s->size && f->total == frame_sealed_bytes(s->size));
    for (uint32_t i = 0; i < f->size; i++)
        CHECK(f->payload[i] == (unsigned char)(s->id * 7 + i));
}

/* Reads up to frame `end`; what it finds there. A frame that has come in part, or is not taken at once, is the same later. */
static enum frame_result receive(struct connection *c, size_t end)
{
    struct frame f;
    for (size_t i = 0; i < end; i++) {
        unsigned char *at = c->stream + c->sent[i].at;
        size_t whole = frame_sealed_bytes(c->sent[i].size);
        CHECK(seal_read(c->there, at, fuzz_below(whole), &f) == FRAME_MORE);
        CHECK(seal_read(c->there, at, c->size - c->sent[i].at, &f) == FRAME_WHOLE);
        if (fuzz_below(4) == 0)
            CHECK(seal_read(c->there, at, c->size - c->sent[i].at, &f) == FRAME_WHOLE);
        check_frame(&f, &c->sent[i]);
        seal_taken(c->there);
    }
    if (end == c->count)
        return FRAME_MORE;
    return seal_read(c->there, c->stream + c->sent[end].at, c->size - c->sent[end].at, &f);
}

/* Somebody changes a frame, or has another one in its place. He can make the head's sum. */
static void is_refused(struct connection *c)
{
    size_t which = fuzz_below(c->count), other = fuzz_below(c->count), bit;
    unsigned char *at = c->stream + c->sent[which].at;
    uint32_t size = c->sent[which].size;
    switch (fuzz_below(3)) {
    case 0: /* a bit */
        bit = fuzz_below(8 * frame_sealed_bytes(size));
        at[bit / 8] ^= (unsigned char)(1u << bit % 8);
        break;
    case 1: /* a bit, and the sum is right; a longer frame is waited for */
        bit = 8 * FRAME_AT_SIZE + fuzz_below(8 * (frame_sealed_bytes(size) - FRAME_AT_SIZE));
        at[bit / 8] ^= (unsigned char)(1u << bit % 8);
        frame_head_close(at, which);
        break;
    default: /* another frame of the connection, which has the same size */
        if (other == which || c->sent[other].size != size)
            return;
        memcpy(at, c->stream + c->sent[other].at, frame_sealed_bytes(size));
        frame_head_close(at, which);
    }
    CHECK(receive(c, which) != FRAME_WHOLE);
}

int main(void)
{
    static unsigned char lent[FRAME_PAYLOAD_MOST];
    static const uint32_t some[] = {0, 1, 8, 15, 16, 17, 63, 64, 200, 5000};
    struct connection c = {.stream = malloc(STREAM)};
    libcrypto_open(&crypto);
    fuzz_begin("seal", 1500);
    while (fuzz_more()) {
        struct outbox_spares spares = {.count = 0};
        struct outbox o = {.spares = &spares};
        uint32_t sizes[8], count = 1 + (uint32_t)fuzz_below(8);
        for (uint32_t i = 0; i < count; i++) {
            bool whole = fuzz_below(20) == 0 && i == 0;
            sizes[i] = whole ? FRAME_PAYLOAD_MOST : some[fuzz_below(sizeof some / sizeof *some)];
            add(&o, i, sizes[i], whole ? lent : NULL);
        }
        connection_begin(&c);
        send_all(&c, &o, sizes, 0);
        if (fuzz_below(2)) {
            CHECK(receive(&c, c.count) == FRAME_MORE);
        } else {
            is_refused(&c);
        }
        connection_end(&c);
        uint64_t acked = fuzz_below(count + 1); /* a new connection: the rest is sent again */
        CHECK(tcp_send_queue_ack(&o, acked));
        tcp_send_queue_rewind(&o, frame_sealed_size);
        connection_begin(&c);
        send_all(&c, &o, sizes, acked);
        CHECK(receive(&c, c.count) == FRAME_MORE);
        connection_end(&c);
        tcp_send_queue_free(&o);
        tcp_send_queue_spares_free(&spares);
    }
    libcrypto_close(&crypto);
    free(c.stream);
    return fuzz_end();
}
