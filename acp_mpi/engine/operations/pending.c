/* Operations that wait for room on their road, or for a lock that another holds. */
#include "operations/op.h"

void op_stall(acp_engine *e, struct op *op)
{
    if (op->stalled)
        return; /* a reply made it try again in between */
    op->next = NULL;
    op->stalled = true;
    *e->stalled_end = op;
    e->stalled_end = &op->next;
    atomic_fetch_add(&e->stalled_count, 1);
}

/* The method met a lock that somebody holds. Nobody rings when it is free: whoever leads tries
 * again soon, and a thread that sleeps as the leader must hear of that. */
void op_bar(acp_lane *lane, struct op *op)
{
    acp_engine *e = lane->engine;
    op->barred = true;
    atomic_fetch_add(&e->barred_count, 1);
    op_stall(e, op);
    if (lane->index != LANE_LEADER && !(op->awaited && !atomic_load(&e->callers)))
        progress_kick(e);
}

void op_unstall(acp_engine *e, struct op *op)
{
    if (!op->stalled)
        return;
    struct op **at = &e->stalled; /* mostly it is the first one */
    while (*at != op)
        at = &(*at)->next;
    *at = op->next;
    if (!op->next)
        e->stalled_end = at;
    op->next = NULL;
    op->stalled = false;
    atomic_fetch_sub(&e->stalled_count, 1);
    atomic_fetch_sub(&e->barred_count, op->barred);
    op->barred = false;
}

/* Operations that found no room on their road, or a lock held, try again. */
void ops_pump(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    for (uint32_t left = e->stalled_count; left && e->stalled; left--) {
        struct op *op = e->stalled;
        op_unstall(e, op);
        op_push(lane, op);
    }
}
