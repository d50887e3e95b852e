/* Eager slots: each message comes once, by its slot or by the mailbox, whoever is late; and what nobody takes
 * out, or has claimed and died, holds up nobody. */
#include "cluster/collecting.h"
#include "core/engine_state.h"
#include "core/upcalls.h"
#include "messages/eager_slot.h"
#include "messages/mailbox.h"
#include "messages/purge_finished.h"
#include "messages/send.h"

#include <unistd.h>

static struct eager *slots_of(acp_engine *e)
{
    return &box_of(e)->eager;
}

static struct eager_slot *slot_of(acp_engine *e, uint64_t context, uint32_t source)
{
    return &slots_of(e)->slots[eager_slot_of(context, source)];
}

static bool put(struct cluster *c, uint64_t context, uint64_t value)
{
    acp_envelope m = {.context = context, .size = 8, .note = value * 3};
    return send_eagerly(acp_engine_lane(c->engines[0]), 1, &m, &value);
}

static bool take(acp_engine *e, uint64_t context, uint64_t *value)
{
    acp_envelope m = {.context = context, .source = 0, .size = 8};
    bool is = eager_slot_take(e, &m, value);
    CHECK(!is || (m.size == 8 && m.note == *value * 3));
    return is;
}

static int flush(acp_lane *lane)
{
    bool moved;
    return eager_slot_flush(lane, &moved);
}

static uint64_t receive(acp_lane *lane, uint64_t context)
{
    uint64_t value;
    acp_envelope m = {.context = context, .source = 0, .size = 8};
    acp_request *r;
    CHECK(AGAIN(acp_receive(lane, &m, &value, &r)) == ACP_OK);
    CHECK(acp_request_wait(lane->engine, r, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(lane, r, &m) == ACP_OK && m.size == 8 && m.note == value * 3);
    return value;
}

static void one_at_a_time(void)
{
    struct cluster c;
    uint64_t value;
    bool moved;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[1];
    acp_lane *lane = acp_engine_lane(e);
    if (e->progress.crowded) {
        fprintf(stderr, "test_eager: part skipped, there is one processor\n");
        cluster_stop(&c);
        return;
    }
    CHECK(put(&c, 5, 50) && eager_slot_has(e, 5, 0));
    CHECK(!put(&c, 5 + EAGER_EACH, 60)); /* the slot is full */
    CHECK(!eager_slot_has(e, 5 + EAGER_EACH, 0) && !eager_slot_has(e, 5, EAGER_SLOTS));
    CHECK(!take(e, 5 + EAGER_EACH, &value));
    CHECK(put(&c, 6, 60) && take(e, 6, &value) && value == 60);
    CHECK(take(e, 5, &value) && value == 50 && !take(e, 5, &value));
    CHECK(put(&c, 6, 60));
    eager_slot_close(e);
    CHECK(AGAIN(eager_slot_flush(lane, &moved)) == ACP_OK && moved && !take(e, 6, &value));
    CHECK(eager_slot_flush(lane, &moved) == ACP_OK && !moved);
    CHECK(!put(&c, 7, 70)); /* they are closed */
    CHECK(receive(lane, 6) == 60);
    eager_slot_open(e);
    CHECK(put(&c, 7, 70) && take(e, 7, &value) && value == 70);
    cluster_stop(&c);
}

enum { MESSAGES = 30000 };

static void send_all(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t random = rank + 1;
    for (uint64_t i = 1; rank == 0 && i <= MESSAGES; i++) {
        uint64_t value = i * 11;
        acp_envelope m = {.context = i, .size = 8, .note = value * 3};
        acp_request *r = NULL;
        if (!put(c, i, value)) {
            CHECK(AGAIN(acp_send(lane, 1, &m, &value, &r)) == ACP_OK);
            send_turned(lane, 1, i);
        }
        send_end_of(lane, r);
    }
    for (uint64_t i = 1; rank == 1 && i <= MESSAGES; i++) {
        uint64_t value = 0;
        random = random * 1664525u + 1013904223u;
        for (uint32_t look = random >> 24; !value && look; look--)
            if (eager_slot_has(e, i, 0))
                CHECK(take(e, i, &value));
        if (!value) {
            eager_slot_close(e);
            CHECK(AGAIN(flush(lane)) == ACP_OK);
            value = receive(lane, i);
            eager_slot_open(e);
        }
        CHECK(value == i * 11);
    }
    meet(e);
}

static _Atomic bool over;

/* As other threads of the sender do, and ranks that share its slot. */
static void *count(void *slots)
{
    struct eager *eager = slots;
    for (uint64_t i = 0; !atomic_load(&over); i++)
        __atomic_fetch_add(&eager->slots[eager_slot_of(i, 0)].state, EAGER_TURN, __ATOMIC_RELAXED);
    return NULL;
}

static void nothing_is_left_in_what_is_closed(struct cluster *c)
{
    acp_engine *e = c->engines[1];
    acp_lane *lane = acp_engine_lane(e);
    for (uint64_t i = 1; i <= MESSAGES; i++) {
        uint64_t value;
        if (!put(c, i, i))
            continue; /* there is one processor */
        if (i % 2) {
            CHECK(take(e, i, &value) && value == i);
            continue;
        }
        eager_slot_close(e);
        CHECK(AGAIN(flush(lane)) == ACP_OK && !eager_slot_has(e, i, 0));
        CHECK(receive(lane, i) == i);
        eager_slot_open(e);
    }
}

static void each_comes_once(void)
{
    struct cluster c;
    pthread_t thread;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    CHECK(pthread_create(&thread, NULL, count, slots_of(c.engines[1])) == 0);
    nothing_is_left_in_what_is_closed(&c);
    cluster_run(&c, send_all);
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    CHECK(box_of(c.engines[1])->kept == 0 && slots_of(c.engines[1])->closed == 0);
    cluster_stop(&c);
}

static int exchange(acp_engine *e, uint64_t context, uint64_t note, uint64_t size, bool released)
{
    uint64_t in[2][64], out[2][64];
    struct script s;
    script_begin(&s, 2, -1, 0);
    script_exchange(&s, e->self, size);
    s.buffers[IN] = in;
    s.buffers[OUT] = out;
    for (uint32_t i = 0; i < 128; i++)
        in[i / 64][i % 64] = context * (e->self + 1) + i;
    acp_collective *c = begin_noted(e, &s, context, note);
    if (released)
        acp_collective_release(c);
    int rc = released ? acp_collective_wait(c, ACP_FOREVER) : acp_collective_run(c, ACP_FOREVER);
    for (uint64_t i = 0, other = !e->self; rc == ACP_OK && i < size / 8; i++)
        CHECK(((uint64_t *)out)[other * size / 8 + i] == context * (other + 1) + e->self * size / 8 + i);
    return end_of(c, rc, NULL, NULL);
}

/* Another thread had claimed it while this one closed the slots, and puts it back, for it had no time for it: while the
 * call watches for mismatches, and most probably sleeps. */
static void *put_back(void *engine)
{
    while (!__atomic_load_n(&box_of(engine)->probing, __ATOMIC_RELAXED))
        usleep(1000);
    usleep(5000);
    __atomic_fetch_add(&slot_of(engine, 77, 0)->state, EAGER_FULL - EAGER_CLAIMED, __ATOMIC_SEQ_CST);
    return NULL;
}

static void what_is_put_back_is_found(void)
{
    struct cluster c;
    struct script s;
    pthread_t thread;
    uint64_t out = 0;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[1];
    acp_envelope m = {.context = 77, .size = 8, .note = 77};
    uint64_t value = 4242;
    if (!send_eagerly(acp_engine_lane(c.engines[0]), 1, &m, &value)) {
        cluster_stop(&c); /* there is one processor */
        return;
    }
    struct eager_slot *slot = slot_of(e, 77, 0);
    __atomic_fetch_sub(&slot->state, EAGER_FULL - EAGER_CLAIMED, __ATOMIC_SEQ_CST);
    CHECK(pthread_create(&thread, NULL, put_back, e) == 0);
    script_begin(&s, 2, -1, 0);
    script_receive(&s, 0, OUT, 0, 8);
    script_await(&s);
    s.buffers[OUT] = &out;
    CHECK(carry(e, &s, 77, false, NULL) == ACP_OK && out == 4242);
    pthread_join(thread, NULL);
    cluster_stop(&c);
}

/* Its note that the calls do not belong together comes after what it had sent before. */
static void what_was_sent_first_is_heard_first(void)
{
    struct cluster c;
    struct script s;
    acp_envelope wrong = {.context = 88, .size = 8, .note = 5};
    uint64_t in = 4242, out = 0;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_lane *lane = acp_engine_lane(c.engines[1]);
    if (!send_eagerly(lane, 0, &wrong, &in)) {
        cluster_stop(&c); /* there is one processor */
        return;
    }
    script_begin(&s, 2, -1, 0);
    script_send(&s, 1, IN, 0, 8);
    script_receive(&s, 1, OUT, 0, 8);
    script_await(&s);
    s.buffers[IN] = &in;
    s.buffers[OUT] = &out;
    acp_collective *call = begin_noted(c.engines[0], &s, 88, in * 3);
    CHECK(acp_collective_run(call, ACP_FOREVER) == ACP_E_MISMATCH);
    CHECK(receive(lane, 88) == in);
    end_of(call, ACP_E_MISMATCH, NULL, NULL);
    cluster_stop(&c);
}

/* Of a call that has ended here: it is gone before the mailbox has forgotten that, and would keep it. */
static void what_came_too_late_is_gone(void)
{
    struct cluster c;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[1];
    const struct mailbox *box = box_of(e);
    purge_finished_add(e, 66, true);
    (void)put(&c, 66, 660); /* not so if there is one processor */
    for (uint64_t i = 0; i < 2000; i++)
        purge_finished_add(e, 5000 + i, false);
    eager_slot_close(e);
    CHECK(AGAIN(flush(acp_engine_lane(e))) == ACP_OK && box->kept == 0);
    eager_slot_open(e);
    cluster_stop(&c);
}

/* What one has claimed that died, and what nobody ever wrote. */
static void spoilt(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static const uint64_t states[] = {EAGER_CLAIMED, 3, 3 + 8 * EAGER_CLAIM, EAGER_FULL, UINT64_MAX};
    (void)c;
    (void)lane;
    for (uint64_t i = 0; i < sizeof states / sizeof *states; i++) {
        meet(e);
        __atomic_store_n(&slot_of(e, 900 + i, !rank)->size, 1u << 30, __ATOMIC_RELAXED);
        __atomic_store_n(&slot_of(e, 900 + i, !rank)->state, states[i], __ATOMIC_SEQ_CST);
        meet(e);
        CHECK(exchange(e, 900 + i, 7, 8, i % 2) == ACP_OK);
    }
    meet(e);
    for (uint64_t i = 0; i < EAGER_EACH; i++)
        __atomic_store_n(&slot_of(e, i, !rank)->state, EAGER_EMPTY, __ATOMIC_SEQ_CST);
    meet(e);
}

/* Calls that do not belong together, in the same context. */
static void astray(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)lane;
    for (uint64_t i = 0; i < 200; i++) {
        if (rank == i / 2 % 2)
            usleep(i % 5 * 20);
        int rc = exchange(e, 2000 + i, i % 3 ? 7 : 8 + rank, i % 3 ? 8 + 48 * (rank == i % 2) : 8, i % 7 == 0);
        CHECK(rc == ACP_E_MISMATCH || rc == ACP_E_LEFT);
        CHECK(exchange(e, 3000 + i, 7, 8, i % 5 == 0) == ACP_OK);
    }
    meet(e);
}

/* Three threads of each rank at the same time, each with calls of its own. */
enum { THREADS = 3, CALLS = 3000 };

struct turn {
    acp_engine *engine;
    uint64_t base;
};

static void *turns(void *argument)
{
    const struct turn *t = argument;
    uint32_t random = (uint32_t)t->base + t->engine->self;
    for (uint64_t i = 0; i < CALLS; i++) {
        random = random * 1664525u + 1013904223u;
        if (random >> 28 == 0)
            usleep(random >> 20 & 127);
        if (i % 64 == 0)
            t->engine->up->doubt(t->engine); /* nothing is missing */
        CHECK(exchange(t->engine, t->base + i, 7, i % 4 ? 8 : 64, random >> 28 == 1) == ACP_OK);
    }
    return NULL;
}

static void beside_each_other(void)
{
    struct cluster c;
    pthread_t threads[2 * THREADS];
    struct turn all[2 * THREADS];
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    for (uint32_t i = 0; i < 2 * THREADS; i++) {
        all[i] = (struct turn){c.engines[i % 2], 10000 * (i / 2 + 1)};
        CHECK(pthread_create(&threads[i], NULL, turns, &all[i]) == 0);
    }
    for (uint32_t i = 0; i < 2 * THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(slots_of(c.engines[i])->closed == 0 && box_of(c.engines[i])->posted == 0 && !c.engines[i]->mail.damages);
    cluster_stop(&c);
}

int main(void)
{
    const cluster_body bodies[] = {spoilt, astray};
    struct cluster c;
    one_at_a_time();
    each_comes_once();
    what_is_put_back_is_found();
    what_was_sent_first_is_heard_first();
    what_came_too_late_is_gone();
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run_each(&c, bodies, sizeof bodies / sizeof *bodies);
    cluster_stop(&c);
    beside_each_other();
    return 0;
}
