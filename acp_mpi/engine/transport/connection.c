/* The life of a connection: calling and accepting, deadlines, and the events it waits for. Input is handled by
 * connection_input.c. */
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

#define HANDSHAKE_NS ((uint64_t)5000000000)
#define PENDING_MOST 256u
#define PENDING_EACH 32u /* from one address outside the job's hosts */
#define CROWD_NS ((uint64_t)500000000) /* of a handshake, while others wait for its place */
#define CROWD_STRANGER_NS ((uint64_t)100000000) /* of a handshake from an address outside the job's hosts */
#define AT_A_TIME 64u /* connections accepted before open ones get their turn */
#define LISTEN_AGAIN_NS ((uint64_t)1000000000)

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
    socklen_t size = listen_endpoint(e, p, link->color, attempt, &s);
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

static void listen_later(acp_engine *e, uint64_t when)
{
    e->tcp.listen_again = when;
    reactor_timer(e, when);
    listen_as_told(e);
}

/* The handshake (no link uses it yet), among those from that address (NULL: any), that makes room for another: the oldest
 * that has had its time, one from outside the job's hosts first. NULL: none yet; *due: when one has. */
static struct wire *pending_oldest(const acp_engine *e, const uint8_t *source, uint32_t *count, uint64_t *due)
{
    struct wire *oldest = NULL;
    uint64_t now = linux_now_ns();
    *count = 0;
    *due = UINT64_MAX;
    for (uint32_t i = 0; i < e->tcp.wire_room; i++) {
        struct wire *w = e->tcp.wires[i];
        if (!w || w->state == WIRE_CLOSED || !w->accepted || !w->deadline ||
            (source && memcmp(w->source, source, sizeof w->source)))
            continue;
        uint64_t at = w->deadline - HANDSHAKE_NS + (w->neighbour ? CROWD_NS : CROWD_STRANGER_NS);
        ++*count;
        *due = at < *due ? at : *due;
        if (at <= now && (!oldest || w->neighbour < oldest->neighbour ||
                          (w->neighbour == oldest->neighbour && w->deadline < oldest->deadline)))
            oldest = w;
    }
    return oldest;
}

/* May one more from there begin a handshake? If need be another from the same kind of address ends. */
static bool welcome(acp_engine *e, const uint8_t *source, bool neighbour)
{
    uint32_t count;
    uint64_t due;
    struct wire *oldest = neighbour ? NULL : pending_oldest(e, source, &count, &due);
    if (neighbour || count < PENDING_EACH)
        return true;
    if (oldest)
        connection_close(e, oldest);
    return oldest != NULL;
}

void connection_short_begins(acp_engine *e, int error)
{
    if (!e->tcp.short_since) {
        e->tcp.short_error = error;
        e->tcp.short_since = linux_now_ns();
    }
}

/* Out of descriptors this process has a spare one, with which it tells callers, one after the other, that it lives.
 * -1: no caller, or one is being told. */
static int accept_spare(acp_engine *e, uint8_t *source, bool *neighbour)
{
    bool has = !e->tcp.spare_used && attach_spare_close(e);
    int fd = has ? listen_accept(e, source, neighbour) : -1;
    if (has && fd < 0)
        attach_spare_open(e);
    e->tcp.spare_used |= fd >= 0;
    e->tcp.put_off_at = fd >= 0 ? linux_now_ns() : e->tcp.put_off_at;
    return fd;
}

static void spare_over(acp_engine *e)
{
    e->tcp.spare_used = false;
    attach_spare_open(e);
    e->tcp.listen_again = 0;
    listen_as_told(e);
}

void connection_accept(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    for (uint32_t turn = 0; turn < AT_A_TIME; turn++) {
        uint8_t source[ENDPOINT_SOURCE];
        bool neighbour;
        uint32_t count;
        uint64_t due;
        bool full = e->tcp.pending_handshakes >= PENDING_MOST;
        struct wire *leaves = full ? pending_oldest(e, NULL, &count, &due) : NULL;
        if (full && !leaves) {
            listen_later(e, due);
            return;
        }
        int fd = listen_accept(e, source, &neighbour);
        if (fd < 0 && errno == EAGAIN)
            return;
        bool spare = fd < 0 && peer_own_shortage(errno);
        if (spare) {
            connection_short_begins(e, errno);
            fd = accept_spare(e, source, &neighbour);
        }
        if (fd >= 0 && !welcome(e, source, neighbour)) {
            close(fd);
            continue;
        }
        if (leaves && e->tcp.pending_handshakes >= PENDING_MOST)
            connection_close(e, leaves);
        struct wire *wire = fd < 0 ? NULL : wire_new(e, fd, EPOLLIN, HANDSHAKE_NS);
        if (!wire) { /* no descriptor or memory is left: the listener would ring for ever */
            if (fd >= 0)
                close(fd);
            if (fd >= 0 && spare)
                spare_over(e);
            listen_later(e, linux_now_ns() + LISTEN_AGAIN_NS);
            return;
        }
        wire->spare = spare;
        if (!spare)
            e->tcp.short_since = 0;
        memcpy(wire->source, source, sizeof source);
        wire->neighbour = neighbour;
        wire->accepted = true;
        wire->state = WIRE_HANDSHAKE;
        e->tcp.pending_handshakes++;
        if (acp_handshake_server(wire->handshake, e->config.secret, e->config.job, e->self,
                                 connection_protection(e, listen_is_loopback(source))) < 0)
            connection_close(e, wire);
        else
            wire->handshake->rises = e->config.links == ACP_LINKS_DEFAULT; /* a tunnel may end on this host */
    }
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
        e->tcp.last_input = e->tcp.talker = NULL;
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
        spare_over(e);
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
