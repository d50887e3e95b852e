/* The fences of others reach a process some milliseconds after it has begun, if it has threads: until
 * then it runs its own, and keeps nothing by which it would go on to. */
#include "cluster/cluster.h"
#include "core/engine_state.h"

#include <sched.h>
#include <stdatomic.h>

static _Atomic bool over;

static void *stay(void *nothing)
{
    while (!atomic_load(&over))
        sched_yield();
    return nothing;
}

static void copy(acp_lane *lane, uint32_t from)
{
    acp_engine *e = lane->engine;
    acp_ga_t own = acp_starter(e, acp_rank(e));
    CHECK(acp_copy(lane, own + 64, acp_starter(e, from), 8, ACP_HANDLE_NULL) != 0);
}

static bool keeps(const acp_lane *lane)
{
    return lane->recent[0].length && lane->recent[1].length;
}

static void one_process(acp_engine *e)
{
    acp_lane *lane = acp_engine_lane(e);
    while (atomic_load(&e->fence.late))
        sched_yield();
    CHECK(e->fence.fenced == e->fence.can);
    if (!e->fence.can) {
        printf("not looked at: membarrier is forbidden here\n");
        return;
    }
    e->fence.fenced = false;
    e->fence.late = true;
    for (uint32_t from = 0; from < 2; from++) {
        copy(lane, from);
        CHECK(!keeps(lane));
        CHECK(lane->passing[0].fence && lane->passing[1].fence);
    }
    e->fence.fenced = true; /* seen between the look at one and at the other, too */
    copy(lane, 1);
    CHECK(keeps(lane) && !lane->recent[0].fence && !lane->recent[1].fence);
    e->fence.late = false;
}

int main(void)
{
    struct cluster c;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, stay, NULL) == 0);
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    for (uint32_t i = 0; i < 2; i++)
        one_process(c.engines[i]);
    cluster_stop(&c);
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    return 0;
}
