/* Scripts of collectives, as tests write them: steps of one rank, and its buffers. */
#ifndef ACP_TESTS_COLLECTING_H
#define ACP_TESTS_COLLECTING_H

#include "cluster/mailing.h"
#include "core/messages.h"

enum { IN, OUT, TMP, SUM, PART };

#define MOST_STEPS 64u

struct script {
    acp_plan plan;
    acp_step steps[MOST_STEPS];
    uint8_t eager[MOST_STEPS];
    uint32_t ranks[CLUSTER_MOST];
    void *buffers[ACP_BUFFERS];
};

static inline void script_begin(struct script *s, uint32_t ranks, int32_t fold, int32_t type)
{
    memset(s, 0, sizeof *s);
    for (uint32_t i = 0; i < ranks; i++)
        s->ranks[i] = i;
    s->plan = (acp_plan){.steps = s->steps, .messages = 2 * CLUSTER_MOST, .fold = fold,
                         .type = type, .ranks = s->ranks, .members = ranks, .eager = s->eager};
}

static inline void script_add(struct script *s, acp_step step)
{
    CHECK(s->plan.count < MOST_STEPS);
    s->steps[s->plan.count++] = step;
    CHECK(acp_plan_mark(&s->plan, s->eager));
}

static inline void script_send(struct script *s, uint32_t to, uint8_t left, uint64_t at,
                               uint64_t size)
{
    script_add(s, (acp_step){.kind = ACP_STEP_SEND, .rank = to, .left = left, .left_at = at,
                             .size = size});
}

static inline void script_receive(struct script *s, uint32_t from, uint8_t where, uint64_t at,
                                  uint64_t size)
{
    script_add(s, (acp_step){.kind = ACP_STEP_RECEIVE, .rank = from, .where = where,
                             .where_at = at, .size = size});
}

static inline void script_copy(struct script *s, uint8_t where, uint64_t at, uint8_t left,
                               uint64_t size)
{
    script_add(s, (acp_step){.kind = ACP_STEP_COPY, .where = where, .where_at = at, .left = left,
                             .size = size});
}

static inline void script_fold(struct script *s, uint8_t where, uint8_t left, uint8_t right,
                               uint64_t size)
{
    script_add(s, (acp_step){.kind = ACP_STEP_FOLD, .where = where, .left = left, .right = right,
                             .size = size});
}

static inline void script_await(struct script *s)
{
    script_add(s, (acp_step){.kind = ACP_STEP_AWAIT});
}

/* Each to all others, one piece each way: IN's piece i to rank i, OUT's from it. */
static inline void script_exchange(struct script *s, uint32_t rank, uint64_t size)
{
    for (uint32_t i = 0; i < s->plan.members; i++)
        if (i != rank)
            script_receive(s, i, OUT, i * size, size);
    for (uint32_t i = 0; i < s->plan.members; i++)
        if (i != rank)
            script_send(s, i, IN, i * size, size);
    script_await(s);
}

/* IN of all goes around in as many rounds as there are others: to each, piece i of OUT is rank i's. */
static inline void script_ring(struct script *s, uint32_t rank, uint64_t size)
{
    uint32_t n = s->plan.members, right = (rank + 1) % n, left = (rank + n - 1) % n;
    script_copy(s, OUT, rank * size, IN, size);
    for (uint32_t i = 0; i + 1 < n; i++) {
        script_receive(s, left, OUT, (rank + 2 * n - i - 1) % n * size, size);
        script_send(s, right, OUT, (rank + n - i) % n * size, size);
        script_await(s);
    }
}

/* IN of all, folded in the order of the ranks along a chain, then given to all from the last. */
static inline void script_chain(struct script *s, uint32_t rank, uint64_t size)
{
    uint32_t last = s->plan.members - 1;
    if (rank) {
        script_receive(s, rank - 1, TMP, 0, size);
        script_await(s);
        script_fold(s, OUT, TMP, IN, size);
    } else {
        script_copy(s, OUT, 0, IN, size);
    }
    if (rank < last) {
        script_send(s, rank + 1, OUT, 0, size);
        script_receive(s, last, SUM, 0, size);
        script_await(s);
        script_copy(s, OUT, 0, SUM, size);
    }
    for (uint32_t i = 0; rank == last && i < last; i++)
        script_send(s, i, OUT, 0, size);
    script_await(s);
}

/* A word from `first` goes on from rank to rank, and whoever is after it waits for it. */
static inline void script_relay(struct script *s, uint32_t rank, uint32_t first)
{
    uint32_t n = s->plan.members, turn = (rank + n - first) % n;
    if (turn) {
        script_receive(s, (rank + n - 1) % n, OUT, 0, 8);
        script_await(s);
    } else {
        script_copy(s, OUT, 0, IN, 8);
    }
    if (turn + 1 < n)
        script_send(s, (rank + 1) % n, OUT, 0, 8);
    script_await(s);
}

static inline acp_collective *begin_noted(acp_engine *e, struct script *s, uint64_t context,
                                          uint64_t note)
{
    acp_collective *c;
    CHECK(acp_collective_begin(e, &s->plan, s->buffers, context, note, &c) == ACP_OK);
    return c;
}

static inline acp_collective *begin(acp_engine *e, struct script *s, uint64_t context)
{
    return begin_noted(e, s, context, 77);
}

static inline acp_collective *begin_released(acp_engine *e, struct script *s, uint64_t context)
{
    acp_collective *c = begin(e, s, context);
    acp_collective_release(c);
    return c;
}

/* How it went, and whose fault it was. */
static inline int end_of(acp_collective *c, int rc, int64_t *rank, uint64_t *theirs)
{
    uint64_t note, why;
    int64_t who = acp_collective_trouble(c, &note, &why);
    if (rank)
        *rank = who;
    if (theirs)
        *theirs = note;
    acp_collective_end(c);
    return rc;
}

/* By this thread alone, or by whoever drives progress. */
static inline int carry(acp_engine *e, struct script *s, uint64_t context, bool released,
                        int64_t *rank)
{
    acp_collective *c = begin(e, s, context);
    if (released)
        acp_collective_release(c);
    int rc = released ? acp_collective_wait(c, ACP_FOREVER) : acp_collective_run(c, ACP_FOREVER);
    return end_of(c, rc, rank, NULL);
}

#endif
