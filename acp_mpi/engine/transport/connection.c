/* The life of a connection: calling, deadlines, and the events it waits for. Input is handled by connection_input.c,
 * calls of peers by accept.c. */
#include "transport/connection.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "peers/attach.h"
#include "peers/peer.h"
#include "progress/reactor.h"
#include "transport/handshake.h"
#include "transport/link.h"
#include "transport/listen.h"
#include "transport/seal.h"
#include "transport/socket_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static struct wire *wire_new(acp_engine *e, int fd, uint32_t events, uint64_t patience_ns)
{
    uint32_t number = 0;
    while (number < e->tcp.wire_room && e->tcp.wires[number])
        number++;
    if (number == e->tcp.wire_room) {
        uint32_t room = e->tcp.wire_room ? e->tcp.wire_room * 2 : 8;
        struct wire **grown = realloc(e->tcp.wires, room * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + e->tcp.wire_room, 0, (room - e->tcp.wire_room) * sizeof *grown);
        e->tcp.wires = grown;
        e->tcp.wire_room = room;
    }
    struct wire *wire = calloc(1, sizeof *wire);
    acp_handshake *hs = linux_map(-1, 0, sizeof *hs, PROT_READ | PROT_WRITE);
    if (!wire || hs == MAP_FAILED || reactor_add(e, fd, events, TAG_WIRE | number)) {
        if (hs != MAP_FAILED)
            munmap(hs, sizeof *hs);
        free(wire);
        return NULL;
    }
    wire->handshake = hs;
    socket_options_set(e, fd);
    wire->fd = fd;
    wire->number = number;
    wire->deadline = linux_now_ns() + patience_ns;
    reactor_timer(e, wire->deadline);
    e->tcp.wires[number] = wire;
    atomic_fetch_add(&e->tcp.wire_count, 1);
    return wire;
}

/* Time for one address: before the peer counts as dead all its addresses are tried, and more than once, for one may
 * lead nowhere. */
static uint64_t silence_limit(const acp_engine *e, const struct peer *p)
{
    uint64_t share = e->config.peer_timeout_ns / (2 * listen_endpoint_count(e, p));
    return share < HANDSHAKE_NS ? share : HANDSHAKE_NS;
}

struct wire *connection_call(acp_engine *e, struct link *link, uint32_t attempt)
{
    struct sockaddr_storage s;
    struct peer *p = link->peer;
    socklen_t size = listen_endpoint(e, p, link->color % ACP_COLORS, attempt, &s);
    int fd = socket(s.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return NULL;
    int rc = connect(fd, (struct sockaddr *)&s, size);
    struct wire *wire =
        rc && errno != EINPROGRESS ? NULL : wire_new(e, fd, EPOLLIN | EPOLLOUT, silence_limit(e, p));
    if (!wire) {
        int error = errno;
        close(fd);
        errno = error;
        return NULL;
    }
    e->tcp.short_since = 0;
    wire->state = WIRE_CONNECTING;
    wire->writing = true;
    wire->peer = p;
    wire->link = link;
    if (acp_handshake_client(wire->handshake, e->config.secret, e->config.job, ACP_ROLE_LINK,
                             e->self, p->slot, e->row.nonce,
                             connection_protection(e, p->row.host == e->config.host)) < 0) {
        connection_close(e, wire);
        return NULL;
    }
    return wire;
}

uint8_t connection_protection(const acp_engine *e, bool loopback)
{
    if (e->config.links)
        return (uint8_t)e->config.links;
    return loopback ? ACP_LINKS_CRC : ACP_LINKS_MAC;
}

static void listen_as_told(acp_engine *e)
{
    listen_watch(e, !e->tcp.listen_again);
}

void connection_listen_later(acp_engine *e, uint64_t when)
{
    e->tcp.listen_again = when;
    reactor_timer(e, when);
    listen_as_told(e);
}

void connection_short_begins(acp_engine *e, int error)
{
    if (!e->tcp.short_since) {
        e->tcp.short_error = error;
        e->tcp.short_since = linux_now_ns();
    }
}

void connection_spare_over(acp_engine *e)
{
    e->tcp.spare_used = false;
    attach_spare_open(e);
    e->tcp.listen_again = 0;
    listen_as_told(e);
}

struct wire *connection_accepted(acp_engine *e, int fd, const uint8_t *source, bool neighbour, bool spare)
{
    struct wire *wire = wire_new(e, fd, EPOLLIN, HANDSHAKE_NS);
    if (!wire)
        return NULL;
    wire->spare = spare;
    if (!spare)
        e->tcp.short_since = 0;
    memcpy(wire->source, source, sizeof wire->source);
    wire->neighbour = neighbour;
    wire->accepted = true;
    wire->state = WIRE_HANDSHAKE;
    e->tcp.pending_handshakes++;
    if (acp_handshake_server(wire->handshake, e->config.secret, e->config.job, e->self,
                             connection_protection(e, listen_is_loopback(source))) < 0)
        connection_close(e, wire);
    else
        wire->handshake->rises = e->config.links == ACP_LINKS_DEFAULT; /* a tunnel may end on this host */
    return wire;
}

void connection_opened(acp_engine *e, struct wire *wire)
{
    if (wire->handshake) {
        acp_handshake_cancel(wire->handshake);
        munmap(wire->handshake, sizeof *wire->handshake);
    }
    wire->handshake = NULL;
    if (wire->deadline && wire->accepted && e->tcp.pending_handshakes-- == PENDING_MOST) {
        e->tcp.listen_again = 0;
        listen_as_told(e);
    }
    wire->deadline = 0;
}

/* Resets the measure of a sender that talks on: the next input does not count as its continuation. */
static void wire_silent(acp_engine *e, const struct wire *wire)
{
    if (e->tcp.last_input == wire)
        e->tcp.last_input = NULL;
    if (e->tcp.talker == wire)
        e->tcp.talker = NULL;
}

void connection_close(acp_engine *e, struct wire *wire)
{
    if (wire->state == WIRE_CLOSED)
        return;
    wire->state = WIRE_CLOSED;
    wire_silent(e, wire);
    connection_opened(e, wire);
    close(wire->fd);
    wire->fd = -1;
    atomic_fetch_sub(&e->tcp.wire_count, 1);
    if (wire->spare)
        connection_spare_over(e);
    wire->next_dead = e->tcp.dead_wires; /* a frame of it may be in work: freed later */
    e->tcp.dead_wires = wire;
}

void connection_reclaim(acp_engine *e)
{
    while (e->tcp.dead_wires) {
        struct wire *wire = e->tcp.dead_wires;
        e->tcp.dead_wires = wire->next_dead;
        e->tcp.wires[wire->number] = NULL; /* not before: an event for it may be on its way */
        free(wire->in);
        free(wire->first);
        seal_free(wire->seal);
        free(wire);
    }
}

static void listen_for(acp_engine *e, const struct wire *wire)
{
    struct epoll_event event = {.events = (wire->fasts ? 0u : EPOLLIN) | (wire->writing ? EPOLLOUT : 0u),
                                .data.u64 = TAG_WIRE | wire->number};
    epoll_ctl(e->progress.epoll_fd, EPOLL_CTL_MOD, wire->fd, &event);
}

void connection_want(acp_engine *e, struct wire *wire, bool writing)
{
    bool news = wire->writing != writing;
    wire->writing = writing;
    if (news)
        listen_for(e, wire);
}

void connection_pause(acp_engine *e, struct wire *wire, bool fasts)
{
    wire->fasts = fasts;
    wire_silent(e, wire);
    if (wire->state != WIRE_CLOSED)
        listen_for(e, wire);
}

uint64_t connection_tick(acp_engine *e, uint64_t now)
{
    if (e->tcp.listen_again && now >= e->tcp.listen_again) {
        e->tcp.listen_again = 0;
        listen_as_told(e);
    }
    return e->tcp.listen_again ? e->tcp.listen_again : UINT64_MAX;
}

void connection_close_all(acp_engine *e)
{
    for (uint32_t i = 0; i < e->tcp.wire_room; i++)
        if (e->tcp.wires[i])
            connection_close(e, e->tcp.wires[i]);
    connection_reclaim(e);
    free(e->tcp.wires);
    free(e->tcp.receive_buffer);
    libcrypto_close(&e->tcp.crypto);
    e->tcp.wires = NULL;
    e->tcp.receive_buffer = NULL;
    e->tcp.wire_room = 0;
}
