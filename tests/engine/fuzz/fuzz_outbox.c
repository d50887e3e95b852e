/* The outbox against a model: a receiver at the other end of one stream after another checks
 * that every frame comes once and in order, whatever is cut, and a liar's word does no harm. */
#include "fuzz.h"
#include "core/state/transport.h"
#include "transport/tcp_send_queue.h"

#define HEAD 16 /* of a test's frame: its size and number */
#define BLOCK ((size_t)68 << 10) /* the largest: it goes when all of it has arrived */
#define MEMORY ((size_t)4 << 20)
#define LENT ((size_t)65 << 10) /* of a frame that fills its block */

struct receiver {
    uint64_t received;
    unsigned char part[1 << 17]; /* the begin of a frame */
    size_t size;
};

struct model {
    struct outbox out;
    uint64_t added;
    uint64_t sizes[4096]; /* of the frames, by number */
    unsigned char lent[MEMORY]; /* where the largest frames have their middle */
    struct receiver r;
};

static size_t size_of(const unsigned char *frame)
{
    uint64_t size;
    memcpy(&size, frame, sizeof size);
    return size;
}

static void sealed(unsigned char *frame)
{
    uint64_t number;
    memcpy(&number, frame + 8, sizeof number);
    for (size_t i = 0; i < LENT; i++)
        CHECK(frame[HEAD + i] == (unsigned char)number);
}

/* What lay there may change now. */
static void take_in(struct model *m, unsigned char *low, unsigned char *high)
{
    tcp_send_queue_take_in(&m->out, low, high, sealed);
    memset(low, 0xee, (size_t)(high - low));
}

static void add(struct model *m)
{
    uint64_t size = HEAD + (fuzz_below(20)  ? fuzz_below(200)
                            : fuzz_below(2) ? fuzz_below(70000)
                                            : LENT + fuzz_below(3000));
    if (m->added == sizeof m->sizes / sizeof *m->sizes)
        return;
    unsigned char *frame = tcp_send_queue_add(&m->out, size, false);
    CHECK(frame);
    memset(frame, (int)m->added & 0xff, size);
    if (size >= LENT + HEAD) {
        unsigned char *body = m->lent + m->added % (MEMORY / LENT) * LENT;
        take_in(m, body, body + LENT); /* another frame's, or a part of one */
        memset(body, (int)m->added & 0xff, LENT);
        memset(frame + HEAD, 0, LENT);
        tcp_send_queue_lend(&m->out, frame, HEAD, body, LENT);
    }
    memcpy(frame, &size, sizeof size);
    memcpy(frame + 8, &m->added, sizeof m->added);
    m->sizes[m->added++] = size;
}

/* The receiver takes what has come whole: each time the next frame and no other. */
static void receive(struct model *m, const unsigned char *bytes, size_t size)
{
    struct receiver *r = &m->r;
    CHECK(r->size + size <= sizeof r->part);
    memcpy(r->part + r->size, bytes, size);
    r->size += size;
    while (r->size >= HEAD && r->size >= size_of(r->part)) {
        uint64_t number, whole = size_of(r->part);
        memcpy(&number, r->part + 8, sizeof number);
        CHECK(number == r->received && whole == m->sizes[number]);
        for (size_t i = HEAD; i < whole; i++)
            CHECK(r->part[i] == (unsigned char)number);
        r->received++;
        r->size -= whole;
        memmove(r->part, r->part + whole, r->size);
    }
}

static void send_some(struct model *m, size_t most)
{
    struct iovec pieces[8];
    size_t left = 0, before = m->out.unsent;
    int n = tcp_send_queue_pieces(&m->out, pieces, (int)(1 + fuzz_below(8)));
    for (int i = 0; i < n; i++)
        left += pieces[i].iov_len;
    CHECK(left <= before && (left || !before));
    left = left < most ? left : most;
    size_t sent = left ? 1 + fuzz_below(left) : 0, rest = sent;
    for (int i = 0; i < n && rest; i++) {
        size_t part = pieces[i].iov_len < rest ? pieces[i].iov_len : rest;
        receive(m, pieces[i].iov_base, part);
        rest -= part;
    }
    tcp_send_queue_sent(&m->out, sent);
    CHECK(m->out.unsent == before - sent);
}

/* A new stream: what was half received is lost, and the receiver says what it has. */
static void resume(struct model *m)
{
    m->r.size = 0;
    CHECK(tcp_send_queue_ack(&m->out, m->r.received));
    tcp_send_queue_rewind(&m->out, size_of);
}

/* Held: what is not acknowledged, and at most one block's worth of what is. */
static void check_bounds(const struct model *m)
{
    size_t owed = 0;
    for (uint64_t i = m->out.acked; i < m->added; i++)
        owed += m->sizes[i];
    CHECK(m->out.next == m->added && m->out.held >= owed && m->out.held - owed < BLOCK);
    CHECK(m->out.unsent <= m->out.held);
}

/* What no receiver can know. The stream that follows may lack what it has claimed, but nothing
 * outside the outbox is touched, and what it says it holds is there. */
static void lie(struct model *m)
{
    struct iovec piece;
    uint64_t claim = fuzz_below(4) ? m->r.received + fuzz_below(m->added - m->r.received + 2)
                                   : fuzz_interesting();
    bool believed = tcp_send_queue_ack(&m->out, claim);
    CHECK(!believed || claim <= m->added);
    for (int i = 0; i < 3; i++) {
        check_bounds(m);
        tcp_send_queue_ack(&m->out, fuzz_below(m->added + 1));
        tcp_send_queue_rewind(&m->out, size_of);
        while (fuzz_below(4) && tcp_send_queue_pieces(&m->out, &piece, 1)) {
            size_t n = 1 + fuzz_below(piece.iov_len);
            unsigned char sum = 0;
            for (size_t k = 0; k < n; k++)
                sum ^= ((unsigned char *)piece.iov_base)[k];
            (void)sum;
            tcp_send_queue_sent(&m->out, n);
        }
    }
    CHECK(!tcp_send_queue_ack(&m->out, m->added + 1));
}

int main(void)
{
    struct outbox_spares spares = {0};
    struct model *m = malloc(sizeof *m);
    CHECK(m);
    fuzz_begin("outbox", 3000);
    while (fuzz_more()) {
        m->out = (struct outbox){.spares = &spares};
        m->added = m->r.received = 0;
        m->r.size = 0;
        for (uint64_t steps = fuzz_below(300); steps; steps--) {
            uint64_t what = fuzz_below(16);
            if (what < 7)
                add(m);
            else if (what < 12)
                send_some(m, fuzz_below(4) ? 300 : sizeof m->r.part / 2);
            else if (what < 14)
                CHECK(tcp_send_queue_ack(&m->out, fuzz_below(m->r.received + 1)));
            else if (what < 15)
                CHECK(tcp_send_queue_ack(&m->out, m->r.received));
            else if (fuzz_below(2))
                take_in(m, m->lent + fuzz_below(MEMORY / 2),
                        m->lent + MEMORY / 2 + fuzz_below(MEMORY / 2));
            else
                resume(m);
            check_bounds(m);
        }
        if (fuzz_below(2)) {
            lie(m);
        } else {
            while (m->out.unsent)
                send_some(m, sizeof m->r.part / 2);
            CHECK(m->r.received == m->added);
        }
        tcp_send_queue_free(&m->out);
    }
    tcp_send_queue_spares_free(&spares);
    free(m);
    return fuzz_end();
}
