/* Senders that fill rings of a mailbox, and what must be received of what they have sent. */
#ifndef ACP_TESTS_RINGING_H
#define ACP_TESTS_RINGING_H

#include "support/mail_stage.h"

#include "core/engine_state.h"
#include "core/state/peer.h"
#include "messages/deliver.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/pair_ring.h"
#include "messages/pair_ring_deliver.h"
#include "messages/request.h"

#define LONGEST (ACP_SHORT_MOST + 104u)

/* Another process that reaches the mailbox of the stage. */
struct sender {
    struct actor actor;
    struct peer to, own;
};

static inline void sender_start(struct sender *s, int fd, uint32_t rank)
{
    memset(s, 0, sizeof *s);
    actor_start(&s->actor, fd);
    acp_engine *e = s->actor.engine;
    e->rank = e->self = rank;
    e->procs = SOURCES;
    e->doors = &doors;
    e->job.own = &s->own;
    e->progress.door_fd = e->progress.epoll_fd = -1;
    e->fence.fenced = true;
    pthread_mutex_init(&e->progress.bell, NULL);
    s->to.shm.control = e->control;
    s->to.memory.heap = &s->actor.heap;
    s->to.relation = RELATION_NODE;
    s->to.shm.door_fd = -1;
    s->to.shm.doors = &doors;
}

/* A mailbox that has entries, without which no ring is used. */
static inline int open_mailbox(struct stage *s)
{
    int fd = mail_memory(CRASH_SPAN);
    acp_request *r;
    stage_start(s, fd);
    CHECK(acp_receive(s->actor.lane, &(acp_envelope){.size = 8}, NULL, &r) == ACP_OK);
    CHECK(acp_request_cancel(s->actor.lane, r) == ACP_OK);
    CHECK(acp_request_end(s->actor.lane, r, NULL) == ACP_E_CANCELLED);
    return fd;
}

static inline void sender_end(struct sender *s)
{
    actor_end(&s->actor);
}

static inline void close_mailbox(struct stage *s, int fd)
{
    requests_close(s->actor.engine);
    actor_end(&s->actor);
    close(fd);
}

/* A few are too long for a ring; those of the next numbers fit into entries. */
static inline uint64_t size_of(uint64_t number)
{
    switch (number % 5) {
    case 0: return ACP_SHORT_MOST + 1 + number % 100;
    case 1: return number % 161;
    default: return number * 31 % (ACP_SHORT_MOST + 1);
    }
}

static inline void paint_it(unsigned char *p, uint64_t number)
{
    for (uint64_t i = 0; i < size_of(number); i++)
        p[i] = (unsigned char)(number * 13 + i);
}

static inline bool is_it(const void *data, uint64_t number)
{
    unsigned char right[LONGEST] = {0};
    paint_it(right, number);
    return size_of(number) == 0 || memcmp(data, right, size_of(number)) == 0;
}

static inline bool by_ring(struct sender *s, acp_envelope m, uint64_t number)
{
    unsigned char data[LONGEST] = {0};
    paint_it(data, number);
    m.size = size_of(number);
    m.note = number;
    return m.size <= ACP_SHORT_MOST && pair_ring_put(s->actor.lane, &s->to, &m, data);
}

/* Those that fill a ring, of which some need blocks in the mailbox. */
static inline uint64_t nth_of_ring(uint64_t n)
{
    return n * 5 + (n % 4 == 3 ? 2 : 1);
}

static inline uint64_t ring_holds(void)
{
    uint64_t n = 0, lines = 0;
    while ((lines += pair_ring_count(size_of(nth_of_ring(n + 1)))) <= RING_LINES)
        n++;
    return n;
}

static inline void fill_ring(struct sender *s, acp_envelope m)
{
    for (uint64_t n = 1; n <= ring_holds(); n++)
        CHECK(by_ring(s, m, nth_of_ring(n)));
    CHECK(!by_ring(s, m, nth_of_ring(ring_holds() + 1)));
}

/* As send.c does it. */
static inline bool send_it(struct sender *s, acp_envelope m, uint64_t number)
{
    unsigned char data[LONGEST] = {0};
    struct landing l;
    if (by_ring(s, m, number))
        return true;
    paint_it(data, number);
    m.size = size_of(number);
    m.note = number;
    if (pair_ring_before(s->actor.engine, &s->to, MAIL_USERS))
        CHECK(pair_ring_deliver_own(s->actor.lane, &s->to, MAIL_USERS) == ACP_OK);
    CHECK(match_arrive(s->actor.lane, &s->to, &m, data, true, s->actor.engine->self, &l) == ACP_OK);
    if (l.open) {
        CHECK(deliver_open(s->actor.lane, &l) == ACP_OK);
        CHECK(deliver_fill(s->actor.lane, &l, 0, data, l.size) == ACP_OK);
        deliver_complete(s->actor.lane, &l);
    }
    return false;
}

struct said {
    acp_envelope envelope;
    uint64_t number;
};

/* What has been sent and not received, in that order. */
struct said_all {
    struct said list[MOST];
    uint32_t count;
};

static inline bool fits(const acp_envelope *want, const acp_envelope *is)
{
    return want->context == is->context && (want->source == ACP_ANY || want->source == is->source) &&
           (want->tag == ACP_ANY || want->tag == is->tag);
}

/* It is the first one of its source that fits. */
static inline void must_be(struct said_all *all, const acp_envelope *want, const acp_envelope *got)
{
    for (uint32_t i = 0; i < all->count; i++) {
        if (!fits(want, &all->list[i].envelope) || all->list[i].envelope.source != got->source)
            continue;
        CHECK(all->list[i].number == got->note && all->list[i].envelope.tag == got->tag);
        memmove(&all->list[i], &all->list[i + 1], (--all->count - i) * sizeof *all->list);
        return;
    }
    CHECK(!"a message that was not sent");
}

static inline bool any_fits(const struct said_all *all, const acp_envelope *want)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (fits(want, &all->list[i].envelope))
            return true;
    return false;
}

static inline bool take_from_ring(struct stage *s, struct said_all *all, const acp_envelope *want)
{
    acp_short m;
    unsigned char data[ACP_SHORT_MOST];
    if (!acp_short_look(s->actor.engine, want, &m))
        return false;
    CHECK(acp_short_take(&m, data) && !acp_short_take(&m, NULL));
    CHECK(is_it(data, m.envelope.note));
    must_be(all, want, &m.envelope);
    return true;
}

static inline void receive_it(struct stage *s, struct said_all *all, acp_envelope want)
{
    acp_request *r;
    acp_envelope got;
    bool is = any_fits(all, &want);
    want.size = UINT64_MAX;
    CHECK(acp_receive(s->actor.lane, &want, NULL, &r) == ACP_OK);
    CHECK(acp_request_done(r) == is && !pair_ring_any(&s->actor.heap, MAIL_USERS));
    if (!is) {
        CHECK(acp_request_cancel(s->actor.lane, r) == ACP_OK);
        CHECK(acp_request_end(s->actor.lane, r, NULL) == ACP_E_CANCELLED);
        return;
    }
    CHECK(acp_request_look(r, &got) == ACP_OK && is_it(acp_request_data(s->actor.lane, r), got.note));
    CHECK(acp_request_end(s->actor.lane, r, NULL) == ACP_OK);
    must_be(all, &want, &got);
}

#endif
