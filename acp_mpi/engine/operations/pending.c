/* Operations that wait for room on their road, or for a lock that another holds. */
#include "operations/pending.h"
#include "operations/op_table.h"
#include "progress/doorbell.h"

void pending_stall(acp_engine *e, struct op *op)
{
    if (op->stalled)
        return; /* a reply made it try again in between */
    op->next = NULL;
    op->stalled = true;
    *e->ops.stalled_end = op;
    e->ops.stalled_end = &op->next;
    atomic_fetch_add(&e->ops.stalled_count, 1);
}

/* The method met a lock that another holds. No event tells that it is free: the leader tries again soon, and a thread
 * that sleeps as the leader must be woken for that. */
void pending_bar(acp_lane *lane, struct op *op)
{
    acp_engine *e = lane->engine;
    op->barred = true;
    atomic_fetch_add(&e->ops.barred_count, 1);
    pending_stall(e, op);
    if (lane->index != LANE_LEADER && !(op->awaited && !atomic_load(&e->progress.callers)))
        doorbell_kick(e);
}

void pending_unstall(acp_engine *e, struct op *op)
{
    if (!op->stalled)
        return;
    struct op **at = &e->ops.stalled; /* mostly it is the first one */
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    if (!op->next)
        e->ops.stalled_end = at;
    op->next = NULL;
    op->stalled = false;
    atomic_fetch_sub(&e->ops.stalled_count, 1);
    atomic_fetch_sub(&e->ops.barred_count, op->barred);
    op->barred = false;
}

enum due pending_due(const acp_engine *e)
{
    return e->ops.barred_count ? DUE_SOON : e->ops.stalled_count ? DUE_AWAKE : DUE_NOT;
}
