/* Collectives and signal handlers, which run in waits: what they raise ends the wait that they come in, and
 * none runs with the lock that all share who drive collectives. */
#include "cluster/collecting.h"
#include "core/engine_state.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"

static struct {
    _Atomic bool inside, over;
    _Atomic uint32_t ticks;
} stage;

/* As the program's handlers: what one has raised it raises once. */
static int raise_once(void *context, int reason)
{
    (void)context;
    (void)reason;
    return atomic_fetch_add(&stage.ticks, 1) == 0;
}

/* Has the mailbox of `engine` until the others are over it. */
static void *keep_mailbox(void *engine)
{
    acp_engine *e = engine;
    struct hold hold;
    acp_lane *lane = acp_lane_take(e);
    CHECK(transaction_enter(&hold, lane, &box_of(e)->section, mailbox_heap(e, e->job.own), 0) == ACP_OK);
    atomic_store(&stage.inside, true);
    UNTIL(atomic_load(&stage.over));
    transaction_leave(&hold);
    acp_lane_give(lane);
    return NULL;
}

static void start_pair(struct cluster *c, uint32_t nodes, struct script scripts[2],
                       unsigned char *room[2], uint64_t size)
{
    cluster_start(c, 2, nodes, ACP_PATH_ANY, CLUSTER_SHARED);
    c->engines[0]->config.tick = raise_once;
    atomic_store(&stage.inside, false);
    atomic_store(&stage.over, false);
    atomic_store(&stage.ticks, 0);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK((room[i] = calloc(4, size)) != NULL);
        script_begin(&scripts[i], 2, -1, 0);
        script_exchange(&scripts[i], i, size);
        scripts[i].buffers[IN] = room[i];
        scripts[i].buffers[OUT] = room[i] + 2 * size;
    }
}

static void stop_pair(struct cluster *c, unsigned char *room[2])
{
    cluster_stop(c);
    free(room[0]);
    free(room[1]);
}

static void keep(pthread_t *thread, acp_engine *e)
{
    CHECK(pthread_create(thread, NULL, keep_mailbox, e) == 0);
    UNTIL(atomic_load(&stage.inside));
}

static void let_go(pthread_t thread)
{
    atomic_store(&stage.over, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Who releases one does not wait for a mailbox that somebody has: whoever drives progress comes again. */
static void released_while_the_mailbox_is_held(void)
{
    struct cluster c;
    struct script s[2];
    unsigned char *room[2];
    pthread_t thread;
    start_pair(&c, 1, s, room, 8);
    keep(&thread, c.engines[0]);
    acp_collective *one = begin_released(c.engines[0], &s[0], 100);
    CHECK(!atomic_load(&stage.ticks));
    acp_collective *other = begin_released(c.engines[1], &s[1], 100);
    let_go(thread);
    CHECK(acp_collective_wait(one, ACP_FOREVER) == ACP_OK);
    CHECK(acp_collective_wait(other, ACP_FOREVER) == ACP_OK);
    acp_collective_end(one);
    acp_collective_end(other);
    stop_pair(&c, room);
}

static void *let_go_at_a_tick(void *unused)
{
    (void)unused;
    UNTIL(atomic_load(&stage.ticks));
    atomic_store(&stage.over, true);
    return NULL;
}

static void *run_other(void *collective)
{
    CHECK(acp_collective_run(collective, ACP_FOREVER) == ACP_E_LEFT);
    acp_collective_end(collective);
    return NULL;
}

/* It is run in the caller's thread, which waits for a mailbox when a handler raises. */
static void a_handler_raises_while_the_mailbox_is_held(void)
{
    struct cluster c;
    struct script s[2];
    unsigned char *room[2];
    pthread_t keeper, helper, partner;
    start_pair(&c, 1, s, room, 2 * ACP_SHORT_MOST);
    acp_collective *one = begin(c.engines[0], &s[0], 100), *other = begin(c.engines[1], &s[1], 100);
    keep(&keeper, c.engines[0]);
    CHECK(pthread_create(&helper, NULL, let_go_at_a_tick, NULL) == 0);
    CHECK(pthread_create(&partner, NULL, run_other, other) == 0);
    CHECK(acp_collective_run(one, ACP_FOREVER) == ACP_E_INTERRUPTED);
    acp_collective_end(one);
    pthread_join(helper, NULL);
    pthread_join(partner, NULL);
    let_go(keeper);
    stop_pair(&c, room);
}

static void *serve_nobody(void *engine)
{
    acp_engine *e = engine;
    pthread_mutex_lock(&e->lock);
    atomic_store(&stage.inside, true);
    UNTIL(atomic_load(&stage.ticks));
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

/* Past the bound they have stayed with their sender. */
static void a_handler_raises_while_bytes_are_brought(void)
{
    struct cluster c;
    struct script s[2];
    unsigned char *room[2];
    pthread_t thread;
    acp_doing doing;
    acp_request *r;
    start_pair(&c, 2, s, room, LARGE);
    script_begin(&s[0], 2, -1, 0);
    script_receive(&s[0], 1, OUT, 0, LARGE);
    script_await(&s[0]);
    s[0].buffers[OUT] = room[0];
    acp_engine *e = c.engines[0], *sender = c.engines[1];
    acp_envelope envelope = {.context = 100, .size = LARGE, .note = 77};
    box_of(e)->bound = 4 << 10;
    CHECK(acp_send(acp_engine_lane(sender), 0, &envelope, room[1], &r) == ACP_OK);
    send_end_of(acp_engine_lane(sender), r);
    CHECK(acp_peer_doing(sender, 0, &doing) == ACP_OK); /* behind all that it has said */
    CHECK(pthread_create(&thread, NULL, serve_nobody, sender) == 0);
    UNTIL(atomic_load(&stage.inside));
    acp_collective *one = begin(e, &s[0], 100);
    CHECK(acp_collective_run(one, ACP_FOREVER) == ACP_E_INTERRUPTED);
    acp_collective_end(one);
    pthread_join(thread, NULL);
    stop_pair(&c, room);
}

int main(void)
{
    released_while_the_mailbox_is_held();
    a_handler_raises_while_the_mailbox_is_held();
    a_handler_raises_while_bytes_are_brought();
    return 0;
}
