/* What is said first on every wire, each way: ACP_SESSION, which link it is for and how many
 * frames have come on that link. What has not come is then sent again, so that a broken wire
 * neither loses nor repeats anything. */
#include "link.h"

#include "wire.h"

#include <string.h>

#define SESSION_NEW 1u /* flag: to be made if it is not known */

static bool say_session(const struct wire *wire, const struct link *link, int status)
{
    struct message m = {.kind = ACP_SESSION, .status = (int16_t)status};
    if (link) {
        m.flags = link->opener && !link->known ? SESSION_NEW : 0;
        m.id = link->session;
        m.a = link->received;
        m.b = link->color;
    }
    return wire_say(wire, &m, m.a);
}

/* Who is held for dead itself has no say in who else is. */
void session_refuse(const acp_engine *e, const struct wire *wire)
{
    if (!e->outcast)
        say_session(wire, NULL, ACP_E_LOST);
}

static void up(acp_lane *lane, struct link *link)
{
    link->state = LINK_OPEN;
    link->peer->met = true;
    link->heard = now_ns();
    link->asked = 0;
    link_push(lane, link);
}

static void say_leaving(acp_lane *lane, struct link *link)
{
    acp_engine *e = lane->engine;
    struct message m = growth_farewell(e, 0);
    if (e->control->phase >= PHASE_LEAVING)
        link_send(lane, link, &m, NULL, 0);
}

void link_wire_up(acp_lane *lane, struct wire *wire)
{
    acp_engine *e = lane->engine;
    struct link *link = wire->link;
    if (wire->accepted)
        return; /* it says first which link it is for */
    if (!growth_introduce(e, wire) || !say_session(wire, link, ACP_OK)) {
        wire_close(e, wire);
        link_wire_down(lane, wire);
        return;
    }
    wire_opened(e, wire);
    if (link->out.acked || link->known || link->received || link->out.unsent != link->out.held)
        return; /* not the first wire: the peer says what it has */
    say_leaving(lane, link);
    up(lane, link);
}

static struct link *link_of(acp_engine *e, const struct peer *p, uint64_t session)
{
    for (struct link *link = e->links; link; link = link->next)
        if (!link->opener && link->peer == p && link->session == session)
            return link;
    return NULL;
}

/* The peer that called says which link the wire is for. */
static struct link *admit(acp_lane *lane, struct wire *wire, const struct message *m)
{
    acp_engine *e = lane->engine;
    struct peer *p = wire->peer;
    struct link *link = p->lost ? NULL : link_of(e, p, m->id);
    bool fresh = !link && !p->lost && m->flags & SESSION_NEW && m->b < ACP_COLORS;
    if (fresh && (link = link_new(e, p, (uint32_t)m->b)))
        link->session = m->id;
    if (!link) {
        session_refuse(e, wire);
        return NULL;
    }
    if (link->wire) {
        wire_close(e, link->wire);
        link_without_wire(e, link);
    }
    link->wire = wire;
    link->state = LINK_CALLING;
    wire->link = link;
    wire_opened(e, wire);
    if (!say_session(wire, link, ACP_OK))
        return NULL;
    if (fresh)
        say_leaving(lane, link);
    return link;
}

void session_begin(acp_lane *lane, struct wire *wire, const struct message *m)
{
    acp_engine *e = lane->engine;
    struct link *link = wire->link;
    if (m->status == ACP_E_LOST) {
        peers_cast_out(e);
        link = NULL;
    } else if (wire->accepted && link) {
        link = NULL; /* it has said so once */
    } else if (wire->accepted && wire_knows(e, wire)) {
        link = admit(lane, wire, m);
    }
    if (!link || !outbox_ack(&link->out, m->a)) {
        wire_close(e, wire);
        link_wire_down(lane, wire);
        return;
    }
    link->known = true;
    if (link->state == LINK_CALLING) {
        outbox_rewind(&link->out, frame_size);
        up(lane, link);
    }
}

