/* More threads carry out collectives than there are lanes: none waits for another one to end, and those who
 * transfer leave a lane for them. */
#include "cluster/collecting.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "messages/recv_wait.h"
#include "messages/request.h"

#define THREADS 12u

struct turn {
    acp_engine *engine;
    uint64_t context;
    uint64_t in[2], out[2];
};

static void *carry_out(void *argument)
{
    struct turn *t = argument;
    struct script s;
    script_begin(&s, 2, -1, 0);
    script_exchange(&s, t->engine->self, 8);
    s.buffers[IN] = t->in;
    s.buffers[OUT] = t->out;
    CHECK(carry(t->engine, &s, t->context, false, NULL) == ACP_OK);
    return NULL;
}

static void posted_are(acp_engine *e, uint64_t count)
{
    UNTIL(mailbox_posted(box_of(e)) == count);
}

/* On rank 0 at the same time, the last one of them last; rank 1 comes to that one first. */
static void in_another_order(void)
{
    struct cluster c;
    struct turn turns[THREADS];
    pthread_t threads[THREADS];
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    for (uint32_t i = 0; i < THREADS; i++) {
        turns[i] = (struct turn){.engine = c.engines[0], .context = 100 + i};
        CHECK(pthread_create(&threads[i], NULL, carry_out, &turns[i]) == 0);
        posted_are(c.engines[0], i + 1);
    }
    for (uint32_t i = THREADS; i-- > 0;) {
        struct turn mine = {.engine = c.engines[1], .context = 100 + i};
        carry_out(&mine);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    cluster_stop(&c);
}

static void beside_all_others(void)
{
    struct cluster c;
    acp_lane *lanes[ATTACH_LANES];
    uint32_t count = 0;
    pthread_t thread;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    while ((lanes[count] = acp_lane_take(c.engines[0])))
        count++;
    struct turn one = {.engine = c.engines[0], .context = 7}, other = {.engine = c.engines[1], .context = 7};
    CHECK(pthread_create(&thread, NULL, carry_out, &other) == 0);
    carry_out(&one);
    CHECK(pthread_join(thread, NULL) == 0);
    while (count)
        acp_lane_give(lanes[--count]);
    cluster_stop(&c);
}

static _Atomic bool waits, gives_up;

static void *wait_in_vain(void *request)
{
    acp_request *r = request;
    atomic_store(&waits, true);
    CHECK(acp_request_wait(r->engine, r, MAIL_FIRST_NS) == ACP_E_TIMEOUT);
    atomic_store(&gives_up, true);
    return NULL;
}

/* Who waits is rung for because of a message of a collective, and gets on only when its time is over. If
 * that is before it was seen asleep there is nothing to see. */
static void a_wait_that_ends_leaves_the_others_messages(uint64_t context)
{
    struct cluster c;
    struct script s[2];
    unsigned char word[8] = {0}, got[16];
    pthread_t waiter;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    for (uint32_t i = 0; i < 2; i++)
        script_begin(&s[i], 2, -1, 0);
    script_receive(&s[0], 1, OUT, 0, 8);
    script_send(&s[1], 0, IN, 0, 8);
    script_await(&s[0]);
    script_await(&s[1]);
    s[0].buffers[OUT] = got;
    s[1].buffers[IN] = word;
    acp_collective *one = begin_released(e, &s[0], context);
    acp_lane *lane = acp_engine_lane(e);
    acp_request *none = ireceive(lane, 1, 5, got + 8, 8);
    atomic_store(&waits, false);
    atomic_store(&gives_up, false);
    CHECK(pthread_create(&waiter, NULL, wait_in_vain, none) == 0);
    UNTIL(atomic_load(&gives_up) ||
          (atomic_load(&waits) && layout_doing(e->control) == ACP_DOING_RECEIVE && e->control->asleep));
    pthread_mutex_lock(&e->lock);
    CHECK(carry(c.engines[1], &s[1], context, false, NULL) == ACP_OK);
    uint64_t over = linux_now_ns() + 2 * (uint64_t)MAIL_FIRST_NS;
    UNTIL(linux_now_ns() > over);
    pthread_mutex_unlock(&e->lock);
    CHECK(pthread_join(waiter, NULL) == 0);
    UNTIL(acp_collective_done(one));
    CHECK(end_of(one, acp_collective_wait(one, ACP_FOREVER), NULL, NULL) == ACP_OK);
    CHECK(acp_request_cancel(lane, none) == ACP_OK);
    acp_request_end(lane, none, NULL);
    cluster_stop(&c);
}

int main(void)
{
    for (uint64_t context = 1; context <= 5; context++)
        a_wait_that_ends_leaves_the_others_messages(context);
    in_another_order();
    beside_all_others();
    return 0;
}
