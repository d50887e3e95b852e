/* Small queries for all rooms: the time, ranks, the names of statuses. */
#include "core/engine.h"
#include "base/linux.h"
#include "core/rank_slot.h"

#include <unistd.h>

uint64_t acp_now(void)
{
    return linux_now_ns();
}

const char *acp_status_name(int status)
{
    static const char *const names[] = {
        "ok", "null address", "no such rank", "not registered", "out of its region",
        "misaligned", "memory limit reached", "rank lost", "timed out", "interrupted",
        "no free slot", "system error", "private memory", "a rank is in finalize",
        "unknown handle", "closed", "bad argument", "an error of MPI",
        "no such block", "damaged heap", "destroyed", "message longer than its room", "cancelled",
        "another collective meanwhile", "a rank has left the collective", "a count overflows",
        "too many regions", "a name of another rank", "no descriptor left",
        "a message of another type", "device memory", "a driver's error"};
    int i = -status;
    return i >= 0 && i < (int)(sizeof names / sizeof *names) ? names[i] : "unknown status";
}

bool acp_engine_foreign(const acp_engine *e)
{
    return e->row.pid != (uint32_t)getpid();
}

uint32_t acp_rank(const acp_engine *e)
{
    return e->rank;
}

uint32_t acp_procs(const acp_engine *e)
{
    return e->procs;
}

int64_t acp_slot_of(const acp_engine *e, uint32_t rank)
{
    return rank < e->procs ? (int64_t)rank_slot_of(e, rank) : -1;
}
