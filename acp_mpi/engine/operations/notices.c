/* Who is gone, or leaves: said to all that this process is in touch with, and heard from them. With the
 * lock held. */
#include "transport/link.h"

void notify_all(acp_lane *lane, const struct message *m)
{
    acp_engine *e = lane->engine;
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        if (p == e->own || p->lost)
            continue;
        if (p->relation == RELATION_NODE)
            road_ring.send(lane, p, 0, m);
        else
            for (uint32_t color = 0; color < ACP_COLORS; color++)
                if (p->links[color]) {
                    link_send(lane, p->links[color], m, NULL, 0);
                    break;
                }
    }
}

struct message loss_of(const acp_engine *e, const struct peer *p)
{
    return (struct message){.kind = ACP_LOST, .from = e->self, .a = p->slot,
                            .b = peer_left(p) ? LOST_IN_ORDER : 0};
}

struct message parting_of(const acp_engine *e, const struct peer *p)
{
    return (struct message){.kind = ACP_LOST, .from = e->self, .a = p->slot, .b = LOST_NOT_YET,
                            .dst = p->ends_low, .src = p->ends_high};
}

void loss_heard(acp_lane *lane, const struct message *m)
{
    acp_engine *e = lane->engine;
    struct peer *p = peer_of_slot(e, (uint32_t)m->a);
    if (!p)
        return;
    if (m->b == LOST_NOT_YET) {
        const struct message own = {.dst = m->dst, .src = m->src};
        if (p != e->own)
            growth_leaves(lane, p, &own);
        return;
    }
    if (m->b)
        p->left = true;
    if (!m->b || !links_reach(e, p)) /* their end tells it, too, and what it said before comes on them */
        peer_said_lost(e, p);
}

static void say(acp_lane *lane, struct peer *to, struct link *link, const struct message *m)
{
    if (link)
        link_send(lane, link, m, NULL, 0);
    else
        road_to(lane->engine, to)->send(lane, to, 0, m);
}

void say_news(acp_lane *lane, struct peer *to, struct link *link)
{
    acp_engine *e = lane->engine;
    struct message m;
    if (e->control->phase >= PHASE_LEAVING) { /* not before is it known with whom */
        m = growth_farewell(e, 0);
        say(lane, to, link, &m);
    }
    bool any = e->departed || e->leavers;
    for (struct peer *p = NULL; any && (p = peer_next(e, p));) {
        bool parts = p->alone && !p->lost && span_has(e->everybody, p->slot);
        if (!parts && (!p->loss_handled || !p->missed))
            continue;
        m = parts ? parting_of(e, p) : loss_of(e, p);
        say(lane, to, link, &m);
    }
}
