/* Eager messages of a collective: a member that is awake looks in its eager slots for a message that is short, and the
 * only one of its pair. Before its thread sleeps, or another goes on with the collective, it closes the slots and
 * receives as it does all others: then messages without a receive are in the mailbox, too, where waiting members look
 * for mismatches. */
#include "collectives/schedule_eager.h"
#include "base/linux.h"
#include "collectives/abort.h"
#include "collectives/schedule.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "messages/eager_slot.h"
#include "messages/mailbox.h"
#include "messages/request.h"
#include "messages/send.h"
#include "peers/peer.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS 400u

static bool is_message(const acp_step *s)
{
    return s->kind == ACP_STEP_SEND || s->kind == ACP_STEP_RECEIVE;
}

bool acp_plan_mark(const acp_plan *plan, uint8_t *eager)
{
    uint32_t ranks = 0;
    for (uint32_t i = 0; i < plan->count; i++)
        if (is_message(&plan->steps[i]) && plan->steps[i].rank >= ranks)
            ranks = plan->steps[i].rank + 1;
    memset(eager, 0, plan->count);
    uint8_t(*several)[2] = calloc(ranks + 1, sizeof *several); /* messages from and to each: none, one, more */
    if (!several)
        return false;
    for (uint32_t i = 0; i < plan->count; i++)
        if (is_message(&plan->steps[i]) && several[plan->steps[i].rank][plan->steps[i].kind] < 2)
            several[plan->steps[i].rank][plan->steps[i].kind]++;
    for (uint32_t i = 0; i < plan->count; i++)
        eager[i] = is_message(&plan->steps[i]) && plan->steps[i].size <= EAGER_MOST &&
                   several[plan->steps[i].rank][plan->steps[i].kind] == 1;
    free(several);
    return true;
}

static bool is_eager(const acp_collective *c, const acp_step *s)
{
    return c->plan->eager && c->plan->eager[s - c->plan->steps];
}

bool schedule_eager_send(acp_lane *lane, const acp_collective *c, const acp_step *s,
                         const acp_envelope *envelope, const void *data)
{
    return is_eager(c, s) && c->status == ACP_OK && send_eagerly(lane, s->rank, envelope, data);
}

void schedule_eager_sent(acp_lane *lane, const acp_collective *c, const acp_step *s)
{
    if (is_eager(c, s) && c->status == ACP_OK)
        send_turned(lane, s->rank, c->context);
}

int schedule_eager_recall(acp_lane *lane, const acp_collective *c, uint32_t rank)
{
    return c->plan->eager ? send_recalled(lane, rank, c->context) : ACP_OK;
}

static bool slot_take(acp_collective *c, const acp_step *s)
{
    unsigned char data[EAGER_MOST];
    acp_envelope m = {.context = c->context, .source = s->rank, .size = sizeof data};
    if (!eager_slot_take(c->engine, &m, data))
        return false;
    abort_check(c, s, ACP_OK, &m);
    if (likely(c->status == ACP_OK) && m.size)
        memcpy(schedule_address(c, s->where, s->where_at), data, m.size);
    return true;
}

/* The sender, if it may fill a slot here: it is on the same node, and no rank there waits for a processor. */
static const struct peer *sender_of(const acp_collective *c, const acp_step *s)
{
    acp_engine *e = c->engine;
    const struct peer *p = is_eager(c, s) && !e->progress.crowded ? peer_of_slot(e, rank_slot_of(e, s->rank)) : NULL;
    return p && p->row.node == e->config.node ? p : NULL;
}

/* And will use a slot, if it takes the same ways as this process. */
static bool is_soon(const acp_collective *c, const acp_step *s)
{
    const acp_engine *e = c->engine;
    const struct peer *p = peers_apart(e) || e->config.path == ACP_PATH_OWNER ? NULL : sender_of(c, s);
    return p && p->shm.control && !p->shm.control->crowded;
}

/* Receives through the mailbox. The slots are closed before a wait for a message there. */
static int step_receive(acp_lane *lane, acp_collective *c, uint32_t step)
{
    const acp_step *s = &c->plan->steps[step];
    int rc = schedule_receive(lane, c, step);
    if (rc != ACP_OK || !sender_of(c, s))
        return rc;
    bool there = mailbox_entry_state(c->messages[c->open - 1]->entry) != ENTRY_POSTED;
    if (!there)
        eager_slot_found(c->engine, c->context, s->rank, false);
    c->posted |= !there;
    return ACP_OK;
}

void schedule_eager_received(const acp_collective *c, const acp_step *s)
{
    if (s->kind == ACP_STEP_RECEIVE && sender_of(c, s))
        eager_slot_found(c->engine, c->context, s->rank, true);
}

int schedule_eager_expect(acp_lane *lane, acp_collective *c, uint32_t step)
{
    const acp_step *s = &c->plan->steps[step];
    if (slot_take(c, s))
        return ACP_OK;
    if (c->heavy || !is_soon(c, s) || eager_slot_diverted(c->engine, c->context, s->rank))
        return step_receive(lane, c, step);
    c->light[c->lights++] = step;
    return ACP_OK;
}

static int receives_post(acp_lane *lane, acp_collective *c)
{
    int rc = ACP_OK;
    while (rc == ACP_OK && c->lights) {
        uint32_t step = c->light[c->lights - 1];
        if (!slot_take(c, &c->plan->steps[step]))
            rc = step_receive(lane, c, step);
        c->lights -= rc == ACP_OK;
    }
    return rc;
}

int schedule_eager_poll(acp_lane *lane, acp_collective *c)
{
    for (uint32_t i = c->lights; i-- > 0;)
        if (slot_take(c, &c->plan->steps[c->light[i]]))
            c->light[i] = c->light[--c->lights];
    if (likely(!c->lights) || !c->heavy || c->status != ACP_OK)
        return ACP_OK;
    int rc = receives_post(lane, c);
    if (rc == ACP_OK || rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED)
        return rc;
    abort_fail(lane, c, rc, -1);
    return ACP_OK;
}

static bool one_here(acp_collective *c)
{
    for (uint32_t i = 0; i < c->lights; i++) {
        uint32_t rank = c->plan->steps[c->light[i]].rank;
        if (eager_slot_has(c->engine, c->context, rank))
            return true;
        c->heavy |= eager_slot_diverted(c->engine, c->context, rank);
    }
    return c->heavy;
}

void schedule_eager_spin(acp_collective *c)
{
    for (uint32_t i = 0; i < LOOKS; i++) {
        if (one_here(c))
            return;
        if ((i & 63) == 63)
            sched_yield();
        else
            linux_cpu_relax();
    }
    c->heavy = true;
}

bool schedule_eager_left(const acp_collective *c)
{
    uint32_t i = 0;
    while (i < c->open && !eager_slot_has(c->engine, c->context, c->plan->steps[c->steps[i]].rank))
        i++;
    return i < c->open;
}

int schedule_eager_close(acp_lane *lane, acp_collective *c)
{
    if (!c->closes)
        eager_slot_close(lane->engine);
    c->closes = c->heavy = true;
    if (c->cleared)
        return ACP_OK;
    bool moved;
    int rc = eager_slot_flush(lane, &moved);
    c->cleared = rc == ACP_OK;
    if (moved) /* one may belong to a background collective that has been driven already */
        atomic_store(&lane->engine->collectives.news, true);
    return rc;
}
