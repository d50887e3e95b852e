/* A thread that waits at a channel yields at once where the other end has waited last on its processor; else it looks for
 * a while, and yields only in a wait that polls, if that is not over before. */
#include "cluster/channel_end.h"
#include "channels/channel.h"

static acp_channel *sends, *takes;
static _Thread_local bool watched; /* the threads of engines yield, too */
static bool polled;

int __real_sched_yield(void);
int __wrap_sched_yield(void);

/* The message comes with the first yield. */
int __wrap_sched_yield(void)
{
    if (watched) {
        watched = false;
        polled = atomic_load(&takes->engine->progress.suitors);
        CHECK(acp_channel_open(sends, ACP_FOREVER) == ACP_OK);
        CHECK(acp_channel_commit(sends, NULL, 0, 0, true, ACP_FOREVER) == ACP_OK);
        acp_channel_give_turn(sends);
    }
    return __real_sched_yield();
}

static void take_one(int64_t timeout_ns)
{
    acp_piece p;
    int rc = acp_channel_take(takes, timeout_ns, &p);
    CHECK(rc == (watched ? ACP_E_TIMEOUT : ACP_OK));
    if (rc != ACP_OK)
        return;
    acp_channel_release(takes, p.number);
    acp_channel_give_turn(takes);
}

int main(void)
{
    const acp_channel_shape shape = {8, 1, 2, 0, false};
    struct cluster c;
    cpu_set_t here;
    uint32_t number = (uint32_t)sched_getcpu() + 1;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    CPU_ZERO(&here);
    CPU_SET(number - 1, &here);
    CHECK(sched_setaffinity(0, sizeof here, &here) == 0);
    sends = channel_end_open(acp_engine_lane(c.engines[0]), 1, shape, true);
    takes = channel_end_open(acp_engine_lane(c.engines[1]), 0, shape, false);
    CHECK(acp_channel_await(sends, ACP_CHANNEL_MET, ACP_FOREVER) == ACP_OK);
    CHECK(acp_channel_await(takes, ACP_CHANNEL_MET, ACP_FOREVER) == ACP_OK);
    struct channel_ring *ring = takes->ring;
    atomic_store(&ring->processors[1], number);
    watched = true;
    take_one(ACP_FOREVER);
    CHECK(!polled && ring->processors[0] == number);
    atomic_store(&ring->processors[1], number + 1);
    watched = true;
    take_one(10000000);
    CHECK(watched || polled || c.engines[1]->progress.crowded);
    acp_channel_free(sends);
    acp_channel_free(takes);
    cluster_stop(&c);
    return 0;
}
