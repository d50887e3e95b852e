/* Notices of ranks that are lost or leave: sent to all that this process is in touch with, and received from them.
 * With the lock held. */
#include "operations/notices.h"
#include "core/state/peer.h"
#include "operations/protocol_shm.h"
#include "operations/route.h"
#include "peers/ends.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "progress/progress.h"
#include "transport/link.h"
#include "transport/link_io.h"

void notices_send_all(acp_lane *lane, const struct message *m)
{
    acp_engine *e = lane->engine;
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        if (p == e->job.own || p->lost)
            continue;
        if (p->relation == RELATION_NODE)
            road_ring.send(lane, p, 0, m);
        else
            for (uint32_t color = 0; color < LINK_COLORS; color++)
                if (p->tcp.links[color]) {
                    link_io_send(lane, p->tcp.links[color], m, NULL, 0);
                    break;
                }
    }
}

static struct message loss_of(const acp_engine *e, const struct peer *p)
{
    return (struct message){.kind = ACP_LOST, .from = e->self, .a = p->slot,
                            .b = peer_left(p) ? LOST_IN_ORDER : 0};
}

static struct message parting_of(const acp_engine *e, const struct peer *p)
{
    return (struct message){.kind = ACP_LOST, .from = e->self, .a = p->slot, .b = LOST_NOT_YET,
                            .dst = p->ends_low, .src = p->ends_high};
}

void notices_tell(acp_lane *lane, const struct peer *p)
{
    struct message m = loss_of(lane->engine, p);
    if (!lane->engine->job.outcast) /* a process that counts as dead itself does not declare others dead */
        notices_send_all(lane, &m);
}

void notices_loss_heard(acp_lane *lane, const struct message *m)
{
    acp_engine *e = lane->engine;
    struct peer *p = peer_of_slot(e, (uint32_t)m->a);
    if (!p)
        return;
    if (m->b == LOST_NOT_YET) {
        const struct message own = {.dst = m->dst, .src = m->src};
        if (p != e->job.own)
            notices_leave_heard(lane, p, &own);
        return;
    }
    if (m->b)
        p->left = true;
    if (!m->b || !links_reach(e, p)) /* the end of its links tells it, too, after its earlier messages */
        peer_said_lost(e, p);
}

static void say(acp_lane *lane, struct peer *to, struct link *link, const struct message *m)
{
    if (link)
        link_io_send(lane, link, m, NULL, 0);
    else
        route_road(lane->engine, to)->send(lane, to, 0, m);
}

void notices_catch_up(acp_lane *lane, struct peer *to, struct link *link)
{
    acp_engine *e = lane->engine;
    struct message m;
    if (e->control->phase >= PHASE_LEAVING) { /* before that the slots it leaves with are not known */
        m = newcomers_leaving(e, 0);
        say(lane, to, link, &m);
    }
    bool any = e->job.departed || e->job.leavers;
    for (struct peer *p = NULL; any && (p = peer_next(e, p));) {
        bool parts = p->alone && !p->lost && span_has(e->job.everybody, p->slot);
        if (!parts && (!p->loss_handled || !p->missed))
            continue;
        m = parts ? parting_of(e, p) : loss_of(e, p);
        say(lane, to, link, &m);
    }
}

static struct message ends_of(const acp_engine *e, struct span s)
{
    return (struct message){.kind = ACP_NEWS, .from = e->self, .a = NEWS_ENDS, .b = s.low, .after = s.high};
}

void notices_say_ends(acp_lane *lane, struct peer *to)
{
    acp_engine *e = lane->engine;
    to->relies = true;
    for (uint32_t i = 0; i < e->job.end_count; i++) {
        struct message m = ends_of(e, e->job.ends[i]);
        say(lane, to, NULL, &m);
    }
}

void notices_ends_heard(acp_lane *lane, const struct peer *from, uint64_t low, uint64_t high)
{
    acp_engine *e = lane->engine;
    struct span s = {(uint32_t)low, (uint32_t)high};
    if (low >= high || high > ACP_RANKS_MAX || !newcomers_find(e, high - 1) || !ends_add(e, s))
        return;
    struct message m = ends_of(e, s);
    for (struct peer *p = NULL; (p = peer_next(e, p));)
        if (p->relies && !p->lost && p != from)
            say(lane, p, NULL, &m);
    progress_wake(e);
}

/* Passes on that a member leaves without the others: a rank that waits for it learns of that from any that knows. */
void notices_leave_heard(acp_lane *lane, struct peer *p, const struct message *m)
{
    acp_engine *e = lane->engine;
    struct span ends = {(uint32_t)m->dst, (uint32_t)m->src};
    bool alone = !span_has(ends, e->self), news = alone && !p->alone;
    if (alone) { /* before its `leaving` is set */
        p->ends_low = ends.low;
        p->ends_high = ends.high;
        p->left = p->alone = true;
    }
    peer_said_leaving(e, p);
    p->meetings = m->after;
    p->met_key = m->b;
    if (m->a == SAID_ALL) {
        p->said_all = true;
        notices_ends_heard(lane, p, p->slot, p->slot + 1);
    } else if (m->a) {
        p->ending = true;
    }
    if (m->a == FAREWELL)
        p->gone = true;
    if (news && span_has(e->job.everybody, p->slot)) {
        struct message parting = parting_of(e, p);
        notices_send_all(lane, &parting);
    }
    if (p->gone && p->left && p->relation == RELATION_NODE)
        peer_mark_lost(e, p); /* its ring is not read any more, though its process may live on */
    progress_wake(e);
}
