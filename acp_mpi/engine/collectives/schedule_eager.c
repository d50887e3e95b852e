/* Eager messages of a collective: a member that is awake looks in the ring of its sender for a message that is short, and
 * the only one of its pair. Before its thread sleeps, or another goes on with the collective, it posts a receive as all
 * others do: that brings what is in the rings to the mailbox, where waiting members look for mismatches, too. */
#include "collectives/schedule_eager.h"
#include "base/linux.h"
#include "collectives/abort.h"
#include "collectives/schedule.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "messages/pair_ring.h"
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
        eager[i] = is_message(&plan->steps[i]) && plan->steps[i].size <= ACP_SHORT_MOST &&
                   several[plan->steps[i].rank][plan->steps[i].kind] == 1;
    free(several);
    return true;
}

/* A message of the node, short, and the only one of its pair; and no rank there waits for a processor. */
static bool is_eager(const acp_collective *c, const acp_step *s)
{
    acp_engine *e = c->engine;
    if (!c->plan->eager || !c->plan->eager[s - c->plan->steps] || e->progress.crowded || peers_apart(e) ||
        e->config.path == ACP_PATH_OWNER)
        return false;
    const struct peer *p = peer_of_slot(e, rank_slot_of(e, s->rank));
    return p && p->row.node == e->config.node && p->shm.control && !p->shm.control->crowded;
}

bool schedule_eager_send(acp_lane *lane, const acp_collective *c, const acp_step *s,
                         const acp_envelope *envelope, const void *data)
{
    return c->status == ACP_OK && is_eager(c, s) && acp_send_short(lane, s->rank, envelope, data);
}

static acp_envelope wanted(const acp_collective *c, const acp_step *s)
{
    return (acp_envelope){.context = c->context, .source = s->rank, .tag = ACP_ANY};
}

/* A message that is not as the plan says is left to a receive, which finds out what is wrong. */
static bool ring_look(const acp_collective *c, const acp_step *s, acp_short *m)
{
    acp_envelope want = wanted(c, s);
    return acp_short_look(c->engine, &want, m) && m->envelope.size == s->size &&
           !(m->envelope.note & ACP_NOTE_LEFT) && acp_notes_belong(m->envelope.note, c->note);
}

static bool ring_take(const acp_collective *c, const acp_step *s)
{
    acp_short m;
    return ring_look(c, s, &m) && acp_short_take(&m, schedule_address(c, s->where, s->where_at));
}

int schedule_eager_expect(acp_lane *lane, acp_collective *c, uint32_t step)
{
    const acp_step *s = &c->plan->steps[step];
    if (c->heavy || !is_eager(c, s))
        return schedule_receive(lane, c, step);
    if (!ring_take(c, s))
        c->light[c->lights++] = step;
    return ACP_OK;
}

static int receives_post(acp_lane *lane, acp_collective *c)
{
    int rc = ACP_OK;
    while (rc == ACP_OK && c->lights) {
        rc = schedule_receive(lane, c, c->light[c->lights - 1]);
        c->lights -= rc == ACP_OK;
    }
    return rc;
}

int schedule_eager_poll(acp_lane *lane, acp_collective *c)
{
    for (uint32_t i = c->lights; !c->heavy && i-- > 0;)
        if (ring_take(c, &c->plan->steps[c->light[i]]))
            c->light[i] = c->light[--c->lights];
    if (!c->lights || !c->heavy || c->status != ACP_OK)
        return ACP_OK;
    int rc = receives_post(lane, c);
    if (rc == ACP_OK || rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED)
        return rc;
    abort_fail(lane, c, rc, -1);
    return ACP_OK;
}

/* Something has come. What is not taken from a ring then is for a receive to find. */
static bool one_stirs(acp_collective *c)
{
    acp_short m;
    for (uint32_t i = 0; i < c->lights; i++) {
        const acp_step *s = &c->plan->steps[c->light[i]];
        acp_envelope want = wanted(c, s);
        if (pair_ring_stirs(c->engine, &want)) {
            c->heavy = !ring_look(c, s, &m);
            return true;
        }
    }
    return false;
}

void schedule_eager_spin(acp_collective *c)
{
    for (uint32_t i = 0; i < LOOKS; i++) {
        if (one_stirs(c))
            return;
        if ((i & 63) == 63)
            sched_yield();
        else
            linux_cpu_relax();
    }
    c->heavy = true;
}
