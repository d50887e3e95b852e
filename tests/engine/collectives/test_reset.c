/* Before a reset all ranks halt, and meet: from there on a rank that has reset gets nothing of those that have not yet,
 * neither of their collectives nor of sends that wait. If the reset does not come, all of that goes on. */
#include "cluster/collecting.h"
#include "base/linux.h"
#include "collectives/schedule.h"
#include "core/state/peer.h"
#include "peers/peer.h"
#include "progress/progress.h"
#include "transport/keepalive.h"

#define CONTEXT 700
#define TAG 5
#define ROUNDS 8u
#define PATIENCE_NS 3000000000u

static _Atomic uint32_t stage; /* the last one that all may see */

/* As a leader that has been rung for all parts. */
static void poll_here(acp_engine *e)
{
    for (uint32_t i = 0; i < 4; i++) {
        UNTIL(progress_leader_try(e));
        atomic_store(&e->progress.rung, true);
        progress_poll(e);
        progress_leader_release(e);
    }
}

static bool all_arrived(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool arrived = keepalive_arrived(e);
    pthread_mutex_unlock(&e->lock);
    return arrived;
}

/* Halts, and waits for what is on its way unless that takes seconds. */
static void halt(acp_engine *e)
{
    uint64_t start = linux_now_ns();
    acp_engine_halt(e);
    bool arrived = all_arrived(e);
    CHECK(arrived || linux_now_ns() - start >= PATIENCE_NS);
    UNTIL(all_arrived(e));
}

/* It has not taken the message that its first step waits for, and a frame with it has not been looked at. */
static void stands_still(acp_engine *e, const acp_collective *one)
{
    pthread_mutex_lock(&e->collectives.lock);
    CHECK(one->state == COLLECTIVE_RUNS && one->at == 1 && one->open == 1);
    pthread_mutex_unlock(&e->collectives.lock);
    pthread_mutex_lock(&e->lock);
    CHECK(!peer_of_slot(e, 2)->mail.flow || e->mail.late);
    pthread_mutex_unlock(&e->lock);
}

struct waiting {
    struct script script;
    uint64_t in[CLUSTER_MOST], out[CLUSTER_MOST];
    acp_collective *collective;
    acp_request *sends[ROUNDS];
};

/* Rank 2 gives a word to rank 1, and that to rank 0. */
static void relay(struct waiting *w, struct cluster *c, uint32_t rank)
{
    script_begin(&w->script, c->count, -1, 0);
    if (rank < 2) {
        script_receive(&w->script, rank + 1, OUT, 0, 8);
        script_await(&w->script);
    }
    if (rank)
        script_send(&w->script, rank - 1, rank == 2 ? IN : OUT, 0, 8);
    script_await(&w->script);
    w->in[0] = 4711;
    w->script.buffers[IN] = w->in;
    w->script.buffers[OUT] = w->out;
}

/* Rank 1 has sends that wait for room at rank 0, and a collective that would send to it when rank 2's message comes: it
 * comes when rank 1 has halted. */
static void wait_and_halt(struct waiting *w, struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    relay(w, c, rank);
    if (rank == 0) {
        atomic_store(&stage, 0);
        set_bound(e, lane, 0);
    }
    meet(e);
    if (rank == 1) {
        for (uint32_t i = 0; i < ROUNDS; i++)
            w->sends[i] = isend(lane, 0, TAG + i, w->in, 8);
        w->collective = begin_released(e, &w->script, CONTEXT);
        halt(e);
        atomic_store(&stage, 1);
    } else if (rank == 2) {
        UNTIL(atomic_load(&stage) == 1);
        CHECK(carry(e, &w->script, CONTEXT, false, NULL) == ACP_OK);
    }
    if (rank != 1)
        halt(e);
    meet(e);
    poll_here(e);
    if (rank == 1)
        stands_still(e, w->collective);
}

static void reset(struct cluster *c, acp_engine *e)
{
    uint32_t slots[CLUSTER_MOST];
    for (uint32_t r = 0; r < c->count; r++)
        slots[r] = r;
    CHECK(acp_engine_reset(e, slots, c->count) == ACP_OK);
}

static bool is_empty(acp_engine *e)
{
    const struct mailbox *box = box_of(e);
    pthread_mutex_lock(&e->lock);
    bool empty = mailbox_kept(box) == 0 && mailbox_posted(box) == 0 && box->probing == 0 && !e->mail.late;
    pthread_mutex_unlock(&e->lock);
    return empty;
}

static void nothing_comes_after_a_reset(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct waiting *w = calloc(1, sizeof *w);
    uint64_t word = 0;
    wait_and_halt(w, c, rank, e, lane);
    if (rank == 0) {
        reset(c, e);
        atomic_store(&stage, 2);
        UNTIL(atomic_load(&stage) == 3);
    } else {
        UNTIL(atomic_load(&stage) >= 2);
    }
    if (rank == 1) {
        poll_here(e);
        CHECK(is_empty(c->engines[0]));
        reset(c, e);
        CHECK(end_of(w->collective, acp_collective_wait(w->collective, 0), NULL, NULL) == ACP_E_CLOSED);
        for (uint32_t i = 0; i < ROUNDS; i++)
            if (w->sends[i])
                CHECK(acp_request_done(w->sends[i]) && acp_request_end(lane, w->sends[i], NULL) == ACP_E_CLOSED);
        atomic_store(&stage, 3);
    } else if (rank == 2) {
        reset(c, e);
    }
    meet(e);
    poll_here(e);
    CHECK(is_empty(e));
    meet(e);
    post_message(lane, (rank + 1) % c->count, TAG, w->in, 8); /* whatever a peer had said before of its room */
    take_message(lane, (rank + 2) % c->count, TAG, &word, 8);
    CHECK(word == 4711);
    meet(e);
    free(w);
}

/* The meeting has failed: all that stood still arrives, in its order. */
static void all_goes_on_without_a_reset(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct waiting *w = calloc(1, sizeof *w);
    uint64_t bound = box_of(e)->bound, word = 0;
    wait_and_halt(w, c, rank, e, lane);
    acp_engine_resume(e);
    acp_engine_resume(e);
    if (rank == 0) {
        set_bound(e, lane, bound);
        CHECK(carry(e, &w->script, CONTEXT, false, NULL) == ACP_OK && w->out[0] == 4711);
        for (uint32_t i = 0; i < ROUNDS; i++)
            CHECK(take_message(lane, 1, ACP_ANY, &word, 8).tag == TAG + i && word == 4711);
    } else if (rank == 1) {
        CHECK(end_of(w->collective, acp_collective_wait(w->collective, ACP_FOREVER), NULL, NULL) == ACP_OK);
        for (uint32_t i = 0; i < ROUNDS; i++)
            send_end_of(lane, w->sends[i]);
    }
    meet(e);
    CHECK(is_empty(e));
    meet(e);
    free(w);
}

static const cluster_body bodies[] = {nothing_comes_after_a_reset, all_goes_on_without_a_reset,
                                      nothing_comes_after_a_reset};

int main(void)
{
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    return 0;
}
