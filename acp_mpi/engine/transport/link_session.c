/* Resumption. The first frame on every connection, each way, is ACP_SESSION: the link it is for and the number of
 * frames received on that link. The frames beyond that number are then sent again, so that a broken connection neither
 * loses nor repeats any. */
#include "transport/link_session.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "core/upcalls.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "transport/connection.h"
#include "transport/frame.h"
#include "transport/introduce.h"
#include "transport/link.h"
#include "transport/link_io.h"
#include "transport/seal.h"
#include "transport/tcp_send_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define SESSION_NEW 1u   /* flag: to be made if it is not known */
#define SESSION_LATER 4u /* flag: its sender lives, and has no descriptor for a link */
#define SESSION_REST 8u  /* flag: this connection ends, the link does not */
#define SESSION_KNOCK 2u /* flag: for no link, but the called process is to call anew */

static struct message session_of(const struct link *link)
{
    return (struct message){.kind = ACP_SESSION,
                            .flags = link->opener && !link->known ? SESSION_NEW : 0,
                            .id = link->session, .a = link->received, .b = link->color,
                            .src = link->out.next};
}

/* A process that counts as dead itself does not declare others dead. */
void link_session_refuse(const acp_engine *e, const struct wire *wire)
{
    struct message m = {.kind = ACP_SESSION, .status = ACP_E_LOST};
    if (!e->job.outcast)
        link_io_send_now(wire, &m, 0);
}

void link_session_put_off(const struct wire *wire)
{
    struct message m = {.kind = ACP_SESSION, .flags = SESSION_LATER};
    link_io_send_now(wire, &m, 0);
}

void link_session_knock(const struct wire *wire)
{
    struct message m = {.kind = ACP_SESSION, .flags = SESSION_KNOCK};
    link_io_send_now(wire, &m, 0);
}

bool link_session_rest(const struct link *link)
{
    struct message m = {.kind = ACP_SESSION, .flags = SESSION_REST, .a = link->received};
    return link_io_send_now(link->wire, &m, link->received);
}

/* A frame that the peer has not taken before it sent that is sent again: the link has a connection again soon. */
static bool rests(acp_engine *e, struct wire *wire, const struct message *m)
{
    struct link *link = wire->link;
    if (!link || link->state != LINK_OPEN || link->wire != wire || link->peer->gone ||
        !tcp_send_queue_ack(&link->out, m->a))
        return false;
    link_rest(e, link);
    return true;
}

static void up(acp_lane *lane, struct link *link)
{
    link->state = LINK_OPEN;
    link->peer->met = true;
    link->heard = linux_now_ns();
    link->asked = 0;
    link->needed = link->out.held || !link->known;
    link_io_push(lane, link);
    if (lane->engine->tcp.wire_count > lane->engine->tcp.cache.open_most)
        link_crowded(lane->engine);
}

/* Bytes that the socket does not take now are kept; false: the connection is broken. */
static bool say_some(struct wire *wire, const unsigned char *from, size_t size)
{
    ssize_t n = send(wire->fd, from, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return false;
    size_t sent = n < 0 ? 0 : (size_t)n;
    wire->first_size = size - sent;
    if (sent == size)
        return true;
    if (!wire->first && !(wire->first = malloc(INTRODUCTION_MOST)))
        return false;
    memmove(wire->first, from + sent, size - sent);
    return true;
}

static size_t opening_compose(const acp_engine *e, struct wire *wire, unsigned char *frame)
{
    if (wire->introduced <= e->self)
        return introduce_compose(e, wire->seal, &wire->introduced, frame);
    struct message m = session_of(wire->link);
    wire->presented = true;
    return seal_write(wire->seal, frame, &m, m.a, NULL, 0);
}

/* Sends the caller's introduction, if the peer may need it, and the link's name, as the socket has room. */
void link_session_continue(acp_lane *lane, struct wire *wire)
{
    acp_engine *e = lane->engine;
    struct link *link = wire->link;
    unsigned char frame[INTRODUCTION_MOST];
    bool good = !wire->first_size || say_some(wire, wire->first, wire->first_size);
    while (good && !wire->first_size && !wire->presented) {
        size_t size = opening_compose(e, wire, frame);
        good = size && say_some(wire, frame, size);
    }
    if (!good) {
        link_broken(lane, wire);
        return;
    }
    connection_want(e, wire, wire->first_size > 0);
    if (wire->first_size)
        return;
    if (link->out.acked || link->known || link->received || link->out.unsent != link->out.held)
        return; /* not the first connection: the peer sends its own count first */
    lane->engine->up->admitted(lane, link->peer, link);
    up(lane, link);
}

void link_session_connected(acp_lane *lane, struct wire *wire)
{
    if (wire->accepted)
        return; /* its first frame names its link */
    wire->link->strangers = 0;
    if (!wire->link->opener) {
        link_knocked(lane->engine, wire);
        return;
    }
    wire->introduced = newcomers_known_to(lane->engine, wire->peer);
    link_session_continue(lane, wire);
}

/* The peer must be in the table; the nonce tells its process from one before it. */
bool link_session_knows(acp_engine *e, struct wire *wire)
{
    const acp_handshake *hs = wire->handshake;
    struct peer *p = wire->peer || !hs ? wire->peer : peer_of_slot(e, hs->peer_slot);
    if (p && (wire->peer || p->row.nonce == hs->peer_nonce))
        wire->peer = p;
    return wire->peer != NULL;
}

static struct link *link_of(acp_engine *e, const struct peer *p, uint64_t session)
{
    for (struct link *link = e->tcp.links; link; link = link->next)
        if (!link->opener && link->peer == p && link->session == session)
            return link;
    return NULL;
}

/* The link that the calling peer names. */
static struct link *admit(acp_lane *lane, struct wire *wire, const struct message *m)
{
    acp_engine *e = lane->engine;
    struct peer *p = wire->peer;
    struct link *link = p->lost ? NULL : link_of(e, p, m->id);
    bool fresh = !link && !p->lost && m->flags & SESSION_NEW && m->b < LINK_COLORS;
    if (fresh && (link = link_new(e, p, (uint32_t)m->b))) {
        link->session = m->id;
        link->sealed = wire->seal != NULL;
    }
    if (!link && !fresh)
        link_session_refuse(e, wire);
    if (!link || link->sealed != (wire->seal != NULL))
        return NULL; /* without memory for one it is not lost: it calls again */
    if (link->wire) {
        connection_close(e, link->wire);
        link_without_wire(e, link);
    }
    link->wire = wire;
    link_wake(e, link);
    link->state = LINK_CALLING;
    wire->link = link;
    struct message own = session_of(link);
    if (!link_io_send_now(wire, &own, own.a))
        return NULL;
    if (fresh)
        lane->engine->up->admitted(lane, link->peer, link);
    return link;
}

static struct link *knocked(acp_lane *lane, struct wire *wire)
{
    if (wire->peer->lost)
        link_session_refuse(lane->engine, wire);
    else
        links_knocked_at(lane, wire->peer);
    return NULL;
}

void link_session_begin(acp_lane *lane, struct wire *wire, const struct message *m)
{
    acp_engine *e = lane->engine;
    struct link *link = wire->link;
    if (m->flags & SESSION_REST) {
        if (!rests(e, wire, m))
            link_broken(lane, wire);
        return;
    }
    if (m->status == ACP_E_LOST) {
        peers_cast_out(e);
        link = NULL;
    } else if (!wire->accepted && m->flags & SESSION_LATER) {
        link_put_off(e, wire);
        link = NULL;
    } else if (wire->spare) {
        link_session_put_off(wire);
    } else if (wire->accepted && link) {
        link = NULL; /* it has named a link before */
    } else if (wire->accepted && link_session_knows(e, wire)) {
        link = m->flags & SESSION_KNOCK ? knocked(lane, wire) : admit(lane, wire, m);
    }
    if (link)
        link->moved |= !link->known || m->a > link->out.acked;
    if (!link || !tcp_send_queue_ack(&link->out, m->a)) {
        link_broken(lane, wire);
        return;
    }
    link->known = true;
    link->expected = m->src;
    connection_opened(e, wire);
    if (link->state == LINK_CALLING) {
        link_io_take_in(link, NULL, (const unsigned char *)UINTPTR_MAX);
        tcp_send_queue_rewind(&link->out, link->sealed ? frame_sealed_size : frame_size);
        up(lane, link);
    }
}

