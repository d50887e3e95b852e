/* Collectives whose members die, end in order or close: whoever depends on them hears of it. */
#include "cluster/collecting.h"
#include "collectives/abort.h"
#include "collectives/schedule.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "peers/peer.h"

static _Atomic uint32_t stage;

/* Rank 0 waits for rank 2, which dies; rank 1 waits for rank 0. */
static void lost(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    int64_t who;
    (void)lane;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t in[3] = {0}, out[3] = {0};
        struct script s;
        script_begin(&s, c->count, -1, 0);
        script_relay(&s, rank, 2); /* 2, 0, 1 */
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        if (rank == 2) {
            if (i == 0) {
                UNTIL(c->engines[0]->control->asleep &&
                      layout_doing(c->engines[0]->control) == ACP_DOING_COLLECTIVE);
                peer_mark_lost(c->engines[0], peer_of_slot(c->engines[0], 2));
            }
            continue;
        }
        CHECK(carry(e, &s, 600 + i, i % 2, &who) == ACP_E_LOST && who == 2);
        CHECK(mailbox_posted(box_of(e)) == 0);
    }
}

/* Rank 2 does its part and ends in order; that is no loss for those that still pass its word on. */
static void ended_in_order(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)lane;
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t in = 5 + i, out = 0;
        struct script s;
        if (i == 2) {
            meet(e);
            atomic_fetch_add(&stage, 1);
        }
        if (i == 2 && rank != 2) {
            UNTIL(peer_of_slot(e, 2)->lost);
        } else if (i == 2) {
            UNTIL(atomic_load(&stage) == c->count);
            acp_engine_leave(e, 2, 3);
            acp_engine_leaving(e);
            acp_engine_close(e);
            for (uint32_t k = 0; k < 2; k++) {
                UNTIL(peer_of_slot(c->engines[k], 2)->left);
                peer_mark_lost(c->engines[k], peer_of_slot(c->engines[k], 2));
            }
        }
        if (i >= 2 && rank == 2)
            continue;
        script_begin(&s, c->count, -1, 0);
        if (i < 2)
            script_relay(&s, rank, 2); /* 2, 0, 1 */
        else if (rank == 0)
            script_send(&s, 1, IN, 0, 8);
        else
            script_receive(&s, 0, OUT, 0, 8);
        script_await(&s);
        s.buffers[IN] = &in;
        s.buffers[OUT] = &out;
        CHECK(carry(e, &s, 650 + i, i % 2, NULL) == ACP_OK);
        CHECK(out == 5 + i || (i >= 2 && rank == 0));
    }
}

struct late {
    acp_engine *engine;
    bool released;
};

static void *wait_until_closed(void *argument)
{
    struct late *w = argument;
    uint64_t in[3] = {0}, out[3];
    struct script s;
    script_begin(&s, 2, -1, 0);
    script_exchange(&s, 0, 8);
    script_exchange(&s, 0, 8);
    s.buffers[IN] = in;
    s.buffers[OUT] = out;
    acp_collective *one = begin(w->engine, &s, 700);
    if (w->released)
        acp_collective_release(one);
    atomic_fetch_add(&stage, 1);
    int rc = w->released ? acp_collective_wait(one, ACP_FOREVER)
                         : acp_collective_run(one, ACP_FOREVER);
    CHECK(end_of(one, rc, NULL, NULL) == ACP_E_CLOSED);
    return NULL;
}

/* The library ends while a thread waits: that thread hears of it, and what nobody waits for goes. */
static void closed_under_a_waiter(void)
{
    for (uint32_t round = 0; round < 40; round++) {
        uint64_t in[3] = {0}, out[3];
        struct cluster c;
        struct late w;
        struct script s;
        pthread_t thread;
        cluster_start(&c, 2, round % 4 > 2 ? 2 : 1, ACP_PATH_ANY, CLUSTER_SHARED);
        w = (struct late){c.engines[0], round % 2};
        script_begin(&s, 2, -1, 0);
        script_exchange(&s, 0, 8);
        s.buffers[IN] = in;
        s.buffers[OUT] = out;
        acp_engine_hold(c.engines[0]);
        acp_collective *idle = begin_released(c.engines[0], &s, 701);
        atomic_store(&stage, 0);
        CHECK(pthread_create(&thread, NULL, wait_until_closed, &w) == 0);
        UNTIL(atomic_load(&stage) == 1);
        if (round % 8 > 3)
            UNTIL(layout_doing(c.engines[0]->control) == ACP_DOING_COLLECTIVE);
        acp_engine_close(c.engines[0]);
        pthread_join(thread, NULL);
        CHECK(end_of(idle, acp_collective_wait(idle, 0), NULL, NULL) == ACP_E_CLOSED);
        acp_engine_free(c.engines[0]);
        acp_engine_free(c.engines[0]);
        acp_engine_close(c.engines[1]);
        acp_engine_free(c.engines[1]);
    }
}

/* Rank 0 waits only to send. The message of another call lies in a ring, for no receive of it has brought that. */
static void a_ring_tells_of_another_call(void)
{
    struct cluster c;
    struct script s;
    uint64_t value = 1;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    script_begin(&s, 2, -1, 0);
    script_send(&s, 1, IN, 0, sizeof value);
    s.buffers[IN] = &value;
    acp_collective *one = begin(c.engines[0], &s, 900);
    acp_lane *lane = acp_engine_lane(c.engines[0]);
    CHECK(abort_scan(lane, one) == ACP_OK && one->status == ACP_OK);
    acp_envelope other = {.context = one->context, .size = sizeof value,
                          .note = one->note ^ (uint64_t)1 << ACP_NOTE_CALL_AT};
    CHECK(acp_send_short(acp_engine_lane(c.engines[1]), 0, &other, &value));
    CHECK(abort_scan(lane, one) == ACP_OK && one->status == ACP_E_MISMATCH && one->rank == 1);
    acp_collective_end(one);
    cluster_stop(&c);
}

/* A rank is lost: they do not meet again. */
static void close_all(struct cluster *c, uint32_t open)
{
    for (uint32_t k = 0; k < open; k++)
        acp_engine_close(c->engines[k]);
    for (uint32_t k = 0; k < c->count; k++)
        acp_engine_free(c->engines[k]);
}

int main(void)
{
    for (uint32_t i = 0; i < CLUSTER_WAYS; i++) {
        struct cluster c;
        cluster_start_by(&c, i);
        cluster_run(&c, lost);
        close_all(&c, 3);
        cluster_start_by(&c, i);
        atomic_store(&stage, 0);
        cluster_run(&c, ended_in_order);
        close_all(&c, 2);
    }
    closed_under_a_waiter();
    a_ring_tells_of_another_call();
    return 0;
}
