/* Lanes, through which threads call, and their faults. */
#include "core/lane.h"
#include "base/likely.h"
#include "core/engine_state.h"
#include "core/upcalls.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

int lane_fail(acp_lane *lane, int status, acp_ga_t ga, uint64_t size)
{
    lane->fault = (acp_fault){.status = status, .error = errno, .ga = ga, .size = size,
                              .rank = acp_ga_rank(ga)};
    return status;
}

acp_lane *acp_engine_lane(acp_engine *e)
{
    return &e->lanes[LANE_CALLER];
}

/* One of those before `end`. */
static acp_lane *lane_take(acp_engine *e, uint32_t end)
{
    for (uint32_t i = LANE_LOCKED + 1; i < end; i++) {
        uint32_t no = 0;
        if (atomic_compare_exchange_strong(&e->lanes[i].taken, &no, 1)) {
            acp_engine_hold(e); /* another thread may finalize meanwhile */
            _Atomic bool *stale = &e->lanes[i].stale;
            if (unlikely(atomic_load(stale)) && atomic_exchange(stale, false)) {
                lane_flush(&e->lanes[i]);
                e->lanes[i].entry_count = 0; /* of a mailbox that is gone */
            }
            return &e->lanes[i];
        }
    }
    return NULL;
}

acp_lane *acp_lane_take(acp_engine *e)
{
    return lane_take(e, LANE_KEPT);
}

acp_lane *lane_await(acp_engine *e)
{
    acp_lane *lane;
    while (!(lane = lane_take(e, ATTACH_LANES)))
        sched_yield();
    return lane;
}

void acp_lane_give(acp_lane *lane)
{
    atomic_store_explicit(&lane->taken, 0, memory_order_release);
    acp_engine_free(lane->engine);
}

const acp_fault *acp_lane_fault(const acp_lane *lane)
{
    return &lane->fault;
}

void acp_lane_previous(acp_lane *lane, acp_handle_t handle)
{
    lane->previous = handle;
}

void lane_flush(acp_lane *lane)
{
    memset(lane->recent, 0, sizeof lane->recent);
    memset(lane->cache, 0, sizeof lane->cache);
}

/* Arrays may outlive the engine: their mapping goes with the last of them. */
void acp_engine_free(acp_engine *e)
{
    if (atomic_fetch_sub(&e->holds, 1) == 1)
        e->up->destroy(e);
}

void acp_engine_hold(acp_engine *e)
{
    atomic_fetch_add(&e->holds, 1);
}

void acp_engine_enter(acp_engine *e)
{
    acp_engine_hold(e);
    atomic_fetch_add(&e->inside, 1);
}

void acp_engine_exit(acp_engine *e)
{
    atomic_fetch_sub(&e->inside, 1);
    acp_engine_free(e);
}
