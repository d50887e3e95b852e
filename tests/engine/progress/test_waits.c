/* Waits that end otherwise than hoped: closed under a waiter, timed out and called again,
 * met by a rank in finalize, or disturbed by a neighbour's release. */
#include "cluster/cluster.h"
#include "progress/doorbell.h"
#include "progress/progress.h"
#include "progress/wait.h"

#include <sched.h>

static _Atomic int stage;

static void until(int wanted)
{
    while (atomic_load(&stage) < wanted)
        sched_yield();
}

static void *wait_for_ever(void *engine)
{
    acp_word word;
    CHECK(acp_word_find(acp_engine_lane(engine), acp_starter(engine, 0), 8, &word) == ACP_OK);
    atomic_store(&stage, 1);
    CHECK(acp_word_wait(engine, &word, ACP_EQ, 5, false, NULL, -1, ACP_FOREVER) == ACP_E_CLOSED);
    return NULL;
}

static void close_ends_waits(void)
{
    struct cluster c;
    pthread_t waiter;
    for (int round = 0; round < 20; round++) {
        atomic_store(&stage, 0);
        cluster_start(&c, 1, 1, ACP_PATH_ANY, false);
        acp_engine_hold(c.engines[0]);
        CHECK(pthread_create(&waiter, NULL, wait_for_ever, c.engines[0]) == 0);
        until(1);
        while (round % 2 && layout_doing(c.engines[0]->control) != ACP_DOING_WAIT_UNTIL)
            sched_yield();
        acp_engine_close(c.engines[0]);
        pthread_join(waiter, NULL);
        acp_engine_free(c.engines[0]);
        acp_engine_free(c.engines[0]);
    }
}

/* What others are told is a way to find who is stuck. */
static void threads_that_wait_by_turns_are_not_said_to_wait_afterwards(void)
{
    struct cluster c;
    cluster_start(&c, 1, 1, ACP_PATH_ANY, false);
    acp_engine *e = c.engines[0];
    acp_doing before = wait_begin(e, ACP_DOING_BARRIER);
    acp_doing met = wait_begin(e, ACP_DOING_COMPLETE); /* by another thread */
    CHECK(layout_doing(e->control) == ACP_DOING_COMPLETE);
    wait_end(e, ACP_DOING_BARRIER, before);
    CHECK(layout_doing(e->control) == ACP_DOING_COMPLETE);
    wait_end(e, ACP_DOING_COMPLETE, met);
    CHECK(layout_doing(e->control) == ACP_DOING_COMPUTE);
    before = wait_begin(e, ACP_DOING_BARRIER);
    met = wait_begin(e, ACP_DOING_COMPLETE); /* in the barrier */
    wait_end(e, ACP_DOING_COMPLETE, met);
    CHECK(layout_doing(e->control) == ACP_DOING_BARRIER);
    wait_end(e, ACP_DOING_BARRIER, before);
    cluster_stop(&c);
}

static void late_partner(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)lane;
    if (rank == 1)
        until(1);
    if (rank == 0) {
        CHECK(acp_barrier(e, NULL, 0, 0, 50000000) == ACP_E_TIMEOUT);
        atomic_store(&stage, 1);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
    if (rank == 0)
        atomic_store(&stage, 2);
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
    CHECK(atomic_load(&stage) == 2); /* nobody leaves before rank 0 has come */
}

static void a_barrier_that_timed_out_can_be_called_again(void)
{
    for (uint32_t ranks = 2; ranks <= 4; ranks++) {
        for (uint32_t nodes = 1; nodes <= 3; nodes++) {
            struct cluster c;
            atomic_store(&stage, 0);
            cluster_start(&c, ranks, nodes, ACP_PATH_ANY, false);
            cluster_run(&c, late_partner);
            cluster_stop(&c);
        }
    }
}

/* A signal handler that raises only after the others have been let through. */
static int raise_late(void *context, int reason)
{
    (void)context;
    (void)reason;
    atomic_store(&stage, 1); /* rank 1 may come now, */
    until(2);                /* and has gone on */
    return 1;
}

static void interrupted_too_late(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)lane;
    if (rank == 0) {
        e->config.tick = raise_late;
        CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_E_INTERRUPTED);
        e->config.tick = NULL;
    } else {
        until(1);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK); /* rank 0: the same once more */
    if (rank == 1)
        atomic_store(&stage, 2);
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void an_interrupted_barrier_can_be_called_again(void)
{
    struct cluster c;
    atomic_store(&stage, 0);
    cluster_start(&c, 2, 1, ACP_PATH_ANY, false);
    cluster_run(&c, interrupted_too_late);
    cluster_stop(&c);
}

static void sync_against_finalize(struct cluster *c, uint32_t rank, acp_engine *e,
                                  acp_lane *lane)
{
    (void)c;
    (void)lane;
    if (rank == 0) {
        CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_E_FINALIZING);
        CHECK(acp_trouble_rank(e) == 1);
        CHECK(acp_barrier(e, NULL, 0, 2, ACP_FOREVER) == ACP_OK);
    } else {
        CHECK(acp_barrier(e, NULL, 0, 2, ACP_FOREVER) == ACP_OK);
    }
}

static void a_rank_in_finalize_is_told_of(uint32_t nodes)
{
    struct cluster c;
    cluster_start(&c, 2, nodes, ACP_PATH_ANY, false);
    cluster_run(&c, sync_against_finalize);
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_close(c.engines[i]);
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_free(c.engines[i]);
}

/* A get that is sent behind a copy which its owner still works on. */
static void a_chain_waits_at_its_target(void)
{
    struct cluster c;
    uint64_t size = 3 << 20;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, false);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e), *owner = acp_engine_lane(c.engines[1]);
    acp_ga_t to, from;
    void *there, *source;
    CHECK(acp_memory_alloc(owner, size, 0, &to, &there) == ACP_OK);
    CHECK(acp_memory_alloc(owner, size, 0, &from, &source) == ACP_OK);
    for (int round = 1; round <= 20; round++) {
        unsigned char got[64] = {0};
        acp_failure failure;
        uint64_t more;
        memset(source, round, size);
        acp_lane_previous(lane, acp_copy(lane, to, from, size, ACP_HANDLE_NULL));
        acp_handle_t h = acp_iget(lane, got, to + size - 64, 64, ACP_HANDLE_CONT);
        CHECK(h && acp_complete(e, h, ACP_FOREVER) == ACP_OK);
        CHECK(acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more) == 0);
        CHECK(got[0] == round && got[63] == round);
        /* and one behind a copy that fails does not run */
        acp_lane_previous(lane, acp_copy(lane, to, from + size, 8, ACP_HANDLE_NULL));
        h = acp_iput(lane, to, got + 1, 8, ACP_HANDLE_CONT);
        CHECK(h && acp_complete(e, h, ACP_FOREVER) == ACP_OK);
        acp_failure both[2];
        CHECK(acp_failures_take(e, ACP_HANDLE_ALL, false, both, 2, &more) == 2);
        CHECK(both[1].fault.status == ACP_E_UNREGISTERED);
    }
    for (int round = 0; round < 2 * (int)OPS; round++) { /* nor does one over many */
        acp_failure failures[2];
        uint64_t more, bad, eight = 8, dst = to, src = from;
        acp_handle_t h = acp_copy(lane, to, from + size, 8, ACP_HANDLE_NULL);
        h = acp_copy_many(lane, (acp_column){(char *)&dst, 0}, (acp_column){(char *)&src, 0},
                          (acp_column){(char *)&eight, 0}, 100, h, &bad);
        CHECK(h && acp_complete(e, h, ACP_FOREVER) == ACP_OK);
        CHECK(acp_failures_take(e, ACP_HANDLE_ALL, false, failures, 2, &more) == 2);
    }
    cluster_stop(&c);
}

struct writer {
    acp_lane *lane;
    acp_ga_t ga;
    _Atomic int *go;
};

static void *write_on(void *context)
{
    struct writer *w = context;
    uint64_t value = 1;
    acp_handle_t pending;
    for (int i = 0; atomic_load(w->go) != 2; i++) {
        CHECK(acp_put(w->lane, w->ga, &value, 8, &pending) == ACP_OK);
        CHECK(acp_atomic(w->lane, ACP_ADD8, w->ga, acp_starter(w->lane->engine, 0), 1, 0,
                         ACP_HANDLE_NULL));
        if (i == 100)
            atomic_store(w->go, 1);
    }
    return NULL;
}

static void a_release_does_not_disturb_its_neighbour(void)
{
    struct cluster c;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_lane *owner = acp_engine_lane(c.engines[1]);
    acp_ga_t memory, alias;
    void *data;
    CHECK(acp_memory_alloc(owner, 1 << 20, 0, &memory, &data) == ACP_OK);
    for (int round = 0; round < 300; round++) {
        _Atomic int go = 0;
        pthread_t thread;
        CHECK(acp_segment_register(owner, data, 1 << 19, 0, &alias) == ACP_OK);
        struct writer w = {acp_engine_lane(c.engines[0]), alias + (1 << 18), &go};
        CHECK(pthread_create(&thread, NULL, write_on, &w) == 0);
        while (atomic_load(&go) == 0)
            sched_yield();
        CHECK(acp_segment_retire(owner, alias, 4096, NULL) == ACP_OK);
        atomic_store(&go, 2);
        pthread_join(thread, NULL);
        CHECK(acp_segment_retire(owner, w.ga, 0, NULL) == ACP_OK);
    }
    cluster_stop(&c);
}

/* The progress thread is rung for while a caller leads: it goes back to sleep, and looks when the
 * caller has stopped, for that one has not. */
static void a_ring_is_left_to_who_leads(void)
{
    struct cluster c;
    cluster_start(&c, 1, 1, ACP_PATH_ANY, false);
    acp_engine *e = c.engines[0];
    for (int round = 0; round < 1000; round++) {
        while (!progress_leader_try(e))
            sched_yield();
        doorbell_kick(e);
        while (!atomic_load(&e->progress.rung))
            sched_yield();
        progress_leader_release(e);
        while (atomic_load(&e->progress.rung))
            sched_yield();
    }
    cluster_stop(&c);
}

static bool never(void *context)
{
    (void)context;
    return false;
}

/* Slow collectives say nothing of the next command: where each rank has a processor, who serves looks on as before. */
static void waits_in_vain_do_not_shorten_looks_for_commands(void)
{
    struct cluster c;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, false);
    acp_engine *e = c.engines[0];
    uint64_t zero = 0;
    acp_handle_t h = acp_iput(acp_engine_lane(e), acp_starter(e, 1), &zero, 8, ACP_HANDLE_NULL);
    CHECK(h && acp_complete(e, h, ACP_FOREVER) == ACP_OK && e->tcp.wire_count);
    for (int i = 0; i < 8; i++)
        CHECK(wait_ready(e, never, NULL, 1000000, ACP_DOING_COLLECTIVE) == ACP_E_TIMEOUT);
    e->progress.crowded = false;
    CHECK(wait_look_on_ns(e) == LOOK_ON_NS);
    e->progress.crowded = true;
    CHECK(wait_look_on_ns(e) < LOOK_ON_NS / 16);
    cluster_stop(&c);
}

/* Whoever still looks leaves everything as it is. */
static void nothing_is_done_after_the_end(void)
{
    struct cluster c;
    cluster_start(&c, 1, 1, ACP_PATH_ANY, false);
    acp_engine *e = c.engines[0];
    acp_engine_leaving(e);
    acp_engine_close(e);
    atomic_store(&e->progress.rung, true);
    CHECK(!progress_poll(e) && e->progress.rung);
    acp_engine_free(e);
}

int main(void)
{
    nothing_is_done_after_the_end();
    waits_in_vain_do_not_shorten_looks_for_commands();
    a_ring_is_left_to_who_leads();
    threads_that_wait_by_turns_are_not_said_to_wait_afterwards();
    close_ends_waits();
    a_barrier_that_timed_out_can_be_called_again();
    an_interrupted_barrier_can_be_called_again();
    a_rank_in_finalize_is_told_of(1);
    a_rank_in_finalize_is_told_of(2);
    a_chain_waits_at_its_target();
    a_release_does_not_disturb_its_neighbour();
    return 0;
}
