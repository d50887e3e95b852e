/* The end: ranks on nodes of their own meet for the last time and are gone at once. What the others
 * still wait for then is on links that nobody has used before, of which two may be opened at a time, or
 * on a wire that breaks just then. And a rank that leaves alone, while others wait for it nevertheless. */
#include "cluster/mailing.h"
#include "cluster/relayed.h"
#include "support/methods.h"
#include "base/linux.h"
#include "operations/protocol_shm.h"
#include "peers/peer.h"
#include "progress/doorbell.h"

static pthread_barrier_t gun;

static void end_at_once(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)rank;
    (void)lane;
    pthread_barrier_wait(&gun);
    CHECK(acp_barrier(e, NULL, 0, 2, 20000000000) == ACP_OK);
    acp_engine_leaving(e);
    acp_engine_close(e);
}

static void all_end_though_some_are_gone_already(uint32_t count)
{
    struct cluster c;
    pthread_barrier_init(&gun, NULL, count);
    for (int round = 0; round < 60; round++) {
        cluster_start(&c, count, count, ACP_PATH_ANY, CLUSTER_SHARED);
        cluster_run(&c, end_at_once);
        for (uint32_t i = 0; i < count; i++)
            acp_engine_free(c.engines[i]);
    }
    pthread_barrier_destroy(&gun);
}

static _Atomic uint32_t through;

static void *end_one(void *engine)
{
    CHECK(acp_barrier(engine, NULL, 0, 2, ACP_FOREVER) == ACP_OK);
    through++;
    acp_engine_leaving(engine);
    acp_engine_close(engine);
    return NULL;
}

static bool has_signal(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool has = e->sync.signal_used > 0;
    pthread_mutex_unlock(&e->lock);
    return has;
}

/* Rank 1 is through and gone before rank 0 has its last word. */
static void what_was_said_last_is_said_again(void)
{
    static struct proxy proxies[2];
    struct cluster c;
    pthread_t threads[2];
    relayed_start(&c, proxies, 2, 3000000000u, NULL);
    CHECK(pthread_create(&threads[0], NULL, end_one, c.engines[0]) == 0);
    UNTIL(has_signal(c.engines[1]));
    relayed_stall(&c, proxies, true);
    CHECK(pthread_create(&threads[1], NULL, end_one, c.engines[1]) == 0);
    UNTIL(through == 1);
    usleep(100000); /* by then it is being closed */
    relayed_cut(&c, proxies);
    relayed_stall(&c, proxies, false);
    for (uint32_t i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_free(c.engines[i]);
    for (uint32_t i = 0; i < 2; i++)
        proxy_stop(&proxies[i]);
}

static _Atomic bool asked; /* rank 0 has asked for what will not come */

static void *leave_soon(void *engine)
{
    UNTIL(asked);
    usleep(300000); /* by then it waits for it */
    acp_engine_leave(engine, 1, 2);
    acp_engine_leaving(engine);
    acp_engine_close(engine);
    return NULL;
}

static void begin_to_leave(struct cluster *c, pthread_t *thread, uint32_t nodes)
{
    cluster_start(c, 2, nodes, nodes == 1 ? ACP_PATH_OWNER : ACP_PATH_ANY, CLUSTER_SHARED);
    for (uint32_t i = 0; i < 2; i++)
        c->engines[i]->config.methods = test_methods;
    asked = false;
    CHECK(pthread_create(thread, NULL, leave_soon, c->engines[1]) == 0);
}

static void end_alone(struct cluster *c, pthread_t thread)
{
    pthread_join(thread, NULL);
    UNTIL(peer_of_slot(c->engines[0], 1)->lost);
    acp_engine_close(c->engines[0]);
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_free(c->engines[i]);
}

static void what_comes_from_who_leaves(void)
{
    struct cluster c;
    pthread_t thread;
    char into[8];
    begin_to_leave(&c, &thread, 2);
    acp_lane *lane = acp_engine_lane(c.engines[0]);
    acp_request *r = ireceive(lane, 1, 5, into, sizeof into);
    asked = true;
    CHECK(acp_request_wait(c.engines[0], r, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(lane, r, NULL) == ACP_E_LOST);
    end_alone(&c, thread);
}

static void what_who_leaves_was_to_publish(void)
{
    struct cluster c;
    pthread_t thread;
    uint64_t key[2] = {1, 77}, value[2];
    begin_to_leave(&c, &thread, 2);
    asked = true;
    CHECK(acp_lookup(c.engines[0], key, value, ACP_FOREVER) == ACP_E_LOST);
    end_alone(&c, thread);
}

/* What it was asked meanwhile, and has answered, is not what it still owes. */
static void what_who_leaves_has_not_answered(uint32_t nodes)
{
    struct cluster c;
    pthread_t thread;
    acp_doing doing;
    acp_failure failure;
    uint64_t more;
    void *lock;
    begin_to_leave(&c, &thread, nodes);
    acp_engine *e = c.engines[0];
    acp_ga_t object = acp_starter(e, 1);
    CHECK(acp_query_address(acp_engine_lane(c.engines[1]), object, 8, &lock) == ACP_OK);
    *(uint64_t *)lock = 1;
    struct acp_call call = {.method = LOCKED, .object = object};
    acp_handle_t h = acp_icall(acp_engine_lane(e), &call, ACP_HANDLE_NULL);
    CHECK(h && acp_peer_doing(e, 1, &doing) == ACP_OK);
    asked = true;
    CHECK(acp_wait(e, h, ACP_FOREVER) == ACP_OK);
    CHECK(acp_failures_take(e, h, true, &failure, 1, &more) && failure.fault.status == ACP_E_LOST);
    end_alone(&c, thread);
}

/* Who has come when it had told all others already does not wait for it. */
static void nothing_is_asked_of_who_has_left(uint32_t nodes)
{
    struct cluster c;
    uint64_t word = 1, more;
    acp_failure failure;
    cluster_start(&c, 2, nodes, nodes == 1 ? ACP_PATH_OWNER : ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e);
    acp_engine_leave(c.engines[1], 1, 2);
    acp_engine_leaving(c.engines[1]);
    CHECK(acp_check(lane, acp_starter(e, 1), 8) == ACP_OK);
    acp_engine_close(c.engines[1]);
    acp_handle_t h = acp_iput(lane, acp_starter(e, 1), &word, 8, ACP_HANDLE_NULL);
    if (h) {
        CHECK(acp_wait(e, h, ACP_FOREVER) == ACP_OK);
        CHECK(acp_failures_take(e, h, true, &failure, 1, &more) && failure.fault.status == ACP_E_LOST);
    } else {
        CHECK(acp_lane_fault(lane)->status == ACP_E_LOST); /* it has heard of that already */
    }
    acp_engine_close(e);
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_free(c.engines[i]);
}

/* Who has opened its memory since, and waits for it. */
static void who_comes_late_hears_of_the_end(void)
{
    struct cluster c;
    char into[8];
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e);
    acp_engine_joined(c.engines[1], 1, 2, 1); /* it came later */
    acp_engine_leaving(c.engines[1]);
    CHECK(acp_check(lane, acp_starter(e, 1), 8) == ACP_OK);
    acp_request *r = ireceive(lane, 1, 5, into, sizeof into);
    acp_engine_close(c.engines[1]);
    CHECK(acp_request_wait(e, r, 20000000000) == ACP_OK);
    CHECK(acp_request_end(lane, r, NULL) == ACP_E_LOST);
    acp_engine_close(e);
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_free(c.engines[i]);
}

static void *close_one(void *engine)
{
    acp_engine_close(engine);
    return NULL;
}

/* It has not run for a while, and its ring is full. */
static void who_reads_late_hears_of_the_end(void)
{
    struct cluster c;
    pthread_t thread;
    char into[8];
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0], *last = c.engines[1];
    acp_lane *lane = acp_engine_lane(e);
    acp_request *r = ireceive(lane, 1, 5, into, sizeof into);
    CHECK(acp_check(lane, acp_starter(e, 1), 8) == ACP_OK);
    acp_engine_leave(last, 1, 2);
    pthread_mutex_lock(&e->progress.leader);
    for (uint32_t i = 0; i < INBOX_CELLS; i++) {
        struct message m = {.kind = ACP_NEWS, .from = last->self};
        pthread_mutex_lock(&last->lock);
        CHECK(road_ring.send(&last->lanes[LANE_LOCKED], peer_of_slot(last, 0), 0, &m) == ACP_OK);
        pthread_mutex_unlock(&last->lock);
    }
    acp_engine_leaving(last);
    CHECK(last->shm.backlogged && pthread_create(&thread, NULL, close_one, last) == 0);
    UNTIL(atomic_load(&last->stopping));
    usleep(100000);
    pthread_mutex_unlock(&e->progress.leader);
    doorbell_kick(e);
    pthread_join(thread, NULL);
    CHECK(acp_request_wait(e, r, 20000000000) == ACP_OK);
    CHECK(acp_request_end(lane, r, NULL) == ACP_E_LOST);
    acp_engine_close(e);
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_free(c.engines[i]);
}

static void stop(struct cluster *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_close(c->engines[i]);
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_free(c->engines[i]);
}

/* The news of an end goes other ways, too, and must not come before what was said earlier. */
static void who_has_said_all_is_behind_what_it_has_said(void)
{
    static struct proxy proxies[3];
    struct cluster c;
    uint64_t word = 7;
    acp_envelope want = {.source = 1, .tag = 3, .size = 8}, found;
    relayed_start(&c, proxies, 3, 60000000000u, NULL);
    proxies[0].stalled = true;
    acp_engine *last = c.engines[1];
    acp_lane *lane = acp_engine_lane(last), *there = acp_engine_lane(c.engines[0]);
    post_message(lane, 2, 3, &word, 8);
    post_message(lane, 0, 3, &word, 8);
    struct peer *p = peer_of_slot(c.engines[2], 1);
    CHECK(!acp_engine_leaving(last));
    UNTIL(p->leaving);
    for (int i = 0; i < 100; i++)
        CHECK(!acp_engine_leaving(last) && !p->said_all);
    proxies[0].stalled = false;
    UNTIL(acp_engine_leaving(last));
    UNTIL(p->said_all);
    UNTIL(!c.engines[0]->mail.late);
    CHECK(AGAIN(acp_probe(there, &want, &found, NULL)) == ACP_OK);
    stop(&c);
    for (uint32_t i = 0; i < 3; i++)
        proxy_stop(&proxies[i]);
}

static void what_has_come_and_has_no_place_yet_is_waited_for(void)
{
    struct cluster c;
    struct hold hold;
    uint64_t word = 7;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e);
    struct peer *p = peer_of_slot(e, 1);
    struct heap *h = mailbox_heap(e, e->job.own);
    CHECK(transaction_enter(&hold, lane, &mailbox_of(h)->section, h, ACP_FOREVER) == ACP_OK);
    post_message(acp_engine_lane(c.engines[1]), 0, 3, &word, 8);
    UNTIL(e->mail.late);
    UNTIL(acp_engine_leaving(c.engines[1]));
    UNTIL(p->said_all);
    p->leaving = linux_now_ns();
    CHECK(peer_gone(e, p) == ACP_OK);
    transaction_leave(&hold);
    UNTIL(!e->mail.late);
    CHECK(peer_gone(e, p) == ACP_E_FINALIZING);
    CHECK(take_message(lane, 1, 3, &word, 8).size == 8);
    acp_request *r = ireceive(lane, 1, 3, &word, 8);
    CHECK(acp_request_wait(e, r, ACP_FOREVER) == ACP_OK);
    CHECK(AGAIN(acp_request_end(lane, r, NULL)) == ACP_E_FINALIZING);
    stop(&c);
}

int main(void)
{
    who_has_said_all_is_behind_what_it_has_said();
    what_has_come_and_has_no_place_yet_is_waited_for();
    what_comes_from_who_leaves();
    who_reads_late_hears_of_the_end();
    who_comes_late_hears_of_the_end();
    what_who_leaves_was_to_publish();
    what_was_said_last_is_said_again();
    for (uint32_t nodes = 1; nodes <= 2; nodes++) {
        what_who_leaves_has_not_answered(nodes);
        nothing_is_asked_of_who_has_left(nodes);
    }
    all_end_though_some_are_gone_already(2);
    all_end_though_some_are_gone_already(5);
    return 0;
}
