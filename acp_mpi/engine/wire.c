/* Connecting, accepting, the handshake, and taking frames out of the stream. */
#include "wire.h"

#include "endpoint.h"
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define HANDSHAKE_NS ((uint64_t)5000000000)
#define PENDING_MOST 256u
#define LISTEN_AGAIN_NS ((uint64_t)1000000000)

static struct wire *wire_new(acp_engine *e, int fd, uint32_t events, uint64_t patience_ns)
{
    uint32_t number = 0;
    while (number < e->wire_room && e->wires[number])
        number++;
    if (number == e->wire_room) {
        uint32_t room = e->wire_room ? e->wire_room * 2 : 8;
        struct wire **grown = realloc(e->wires, room * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + e->wire_room, 0, (room - e->wire_room) * sizeof *grown);
        e->wires = grown;
        e->wire_room = room;
    }
    struct wire *wire = calloc(1, sizeof *wire);
    if (!wire || !(wire->handshake = calloc(1, sizeof *wire->handshake)) ||
        poll_add(e, fd, events, TAG_WIRE | number)) {
        free(wire ? wire->handshake : NULL);
        free(wire);
        return NULL;
    }
    wire_tune(e, fd);
    wire->fd = fd;
    wire->number = number;
    wire->deadline = now_ns() + patience_ns;
    timer_until(e, wire->deadline);
    e->wires[number] = wire;
    atomic_fetch_add(&e->wire_count, 1);
    return wire;
}

/* Before the peer counts as dead all its addresses are tried, and more than once: one may lead nowhere. */
static uint64_t patience(const acp_engine *e, const struct peer *p)
{
    uint64_t share = e->config.peer_timeout_ns / (2 * endpoint_count(e, p));
    return share < HANDSHAKE_NS ? share : HANDSHAKE_NS;
}

struct wire *wire_call(acp_engine *e, struct link *link, uint32_t attempt)
{
    struct sockaddr_storage s;
    struct peer *p = link->peer;
    socklen_t size = endpoint_of(e, p, link->color, attempt, &s);
    int fd = socket(s.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return NULL;
    int rc = connect(fd, (struct sockaddr *)&s, size);
    struct wire *wire =
        rc && errno != EINPROGRESS ? NULL : wire_new(e, fd, EPOLLIN | EPOLLOUT, patience(e, p));
    if (!wire) {
        int error = errno;
        close(fd);
        errno = error;
        return NULL;
    }
    wire->state = WIRE_CONNECTING;
    wire->writing = true;
    wire->peer = p;
    wire->link = link;
    if (acp_handshake_client(wire->handshake, e->config.secret, e->config.job, ACP_ROLE_LINK,
                             e->self, p->slot, e->row.nonce) < 0) {
        wire_close(e, wire);
        return NULL;
    }
    return wire;
}

static void listen_as_room(acp_engine *e)
{
    endpoints_watch(e, !e->listen_again && e->pending_handshakes < PENDING_MOST);
}

void wire_accept(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    while (e->pending_handshakes < PENDING_MOST) {
        int fd = endpoint_accept(e);
        if (fd < 0 && errno == EAGAIN)
            return;
        struct wire *wire = fd < 0 ? NULL : wire_new(e, fd, EPOLLIN, HANDSHAKE_NS);
        if (!wire) { /* no descriptor or memory is left: the listener would ring for ever */
            if (fd >= 0)
                close(fd);
            e->listen_again = now_ns() + LISTEN_AGAIN_NS;
            timer_until(e, e->listen_again);
            break;
        }
        wire->accepted = true;
        wire->state = WIRE_HANDSHAKE;
        e->pending_handshakes++;
        if (acp_handshake_server(wire->handshake, e->config.secret, e->config.job, e->self) < 0)
            wire_close(e, wire);
    }
    listen_as_room(e);
}

void wire_opened(acp_engine *e, struct wire *wire)
{
    if (wire->handshake)
        acp_handshake_cancel(wire->handshake);
    free(wire->handshake);
    wire->handshake = NULL;
    if (wire->deadline && wire->accepted && e->pending_handshakes-- == PENDING_MOST)
        listen_as_room(e);
    wire->deadline = 0;
}

void wire_close(acp_engine *e, struct wire *wire)
{
    if (wire->state == WIRE_CLOSED)
        return;
    wire->state = WIRE_CLOSED;
    wire_opened(e, wire);
    close(wire->fd);
    wire->fd = -1;
    atomic_fetch_sub(&e->wire_count, 1);
    wire->next_dead = e->dead_wires; /* a frame of it may be in work: freed later */
    e->dead_wires = wire;
}

void wires_bury(acp_engine *e)
{
    while (e->dead_wires) {
        struct wire *wire = e->dead_wires;
        e->dead_wires = wire->next_dead;
        e->wires[wire->number] = NULL; /* not before: an event for it may be on its way */
        free(wire->in);
        free(wire->first);
        free(wire);
    }
}

void wire_want(acp_engine *e, struct wire *wire, bool writing)
{
    struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0u),
                                .data.u64 = TAG_WIRE | wire->number};
    if (wire->writing != writing)
        epoll_ctl(e->epoll_fd, EPOLL_CTL_MOD, wire->fd, &event);
    wire->writing = writing;
}

static void broken(acp_lane *lane, struct wire *wire)
{
    wire_close(lane->engine, wire);
    link_wire_down(lane, wire);
}

static bool speak(struct wire *wire)
{
    acp_handshake *hs = wire->handshake;
    if (!hs->out_len)
        return true;
    ssize_t n = send(wire->fd, hs->out, hs->out_len, MSG_NOSIGNAL);
    bool sent = n == (ssize_t)hs->out_len; /* 76 bytes into an empty socket buffer */
    hs->out_len = 0;
    return sent;
}

/* The table must know who speaks; the nonce tells that process from one before it. */
bool wire_knows(acp_engine *e, struct wire *wire)
{
    const acp_handshake *hs = wire->handshake;
    struct peer *p = wire->peer || !hs ? wire->peer : peer_of_slot(e, hs->peer_slot);
    if (p && (wire->peer || p->row.nonce == hs->peer_nonce))
        wire->peer = p;
    return wire->peer != NULL;
}

static bool introduce(acp_engine *e, struct wire *wire)
{
    acp_handshake *hs = wire->handshake;
    if (!wire->accepted)
        return true;
    if (hs->peer_slot == ACP_NO_SLOT)
        return true; /* an onlooker: it may ask, and no link is for it */
    if (!growth_reaches(e, hs->peer_slot))
        return hs->peer_slot < ACP_RANKS_MAX; /* it will say who it is */
    return wire_knows(e, wire);
}

/* Takes whole frames from the begin of `from`; how many bytes are left. */
static size_t take_frames(acp_lane *lane, struct wire *wire, unsigned char *from, size_t size)
{
    unsigned char *at = from, *end = from + size;
    while (wire->state == WIRE_OPEN) {
        struct frame frame;
        enum frame_result rc =
            frame_open(at, (size_t)(end - at), link_expects(wire), &frame);
        if (rc == FRAME_BAD || (rc == FRAME_WHOLE && !link_frame(lane, wire, &frame)))
            broken(lane, wire);
        if (rc != FRAME_WHOLE)
            break;
        at += frame.total;
    }
    return (size_t)(end - at);
}

/* What is in the buffer up to `end`. The begin of a frame stays where it is if the rest fits behind
 * it; so it does where all are as long as those of a long transfer. */
static void take_input(acp_lane *lane, struct wire *wire, unsigned char *buffer, size_t end)
{
    acp_engine *e = lane->engine;
    size_t begin = wire->in_begin, left = take_frames(lane, wire, buffer + begin, end - begin);
    wire->in_begin = 0;
    link_received(lane, wire);
    if (wire->state == WIRE_OPEN && left) {
        wire->in = buffer;
        wire->in_begin = IN_BUFFER - (end - left) < FRAME_MOST ? 0 : end - left;
        wire->in_end = wire->in_begin + left;
        memmove(buffer + wire->in_begin, buffer + end - left, left);
    } else if (e->receive_buffer) {
        free(buffer);
    } else {
        e->receive_buffer = buffer;
    }
}

/* A wire with the begin of a frame has a buffer of its own; all others share one. */
static unsigned char *take_buffer(acp_engine *e, struct wire *wire)
{
    unsigned char *buffer = wire->in ? wire->in : e->receive_buffer;
    if (wire->in)
        wire->in = NULL;
    else
        e->receive_buffer = NULL;
    return buffer ? buffer : malloc(IN_BUFFER);
}

static void handshake_step(acp_lane *lane, struct wire *wire, unsigned char *buffer, ssize_t n)
{
    acp_engine *e = lane->engine;
    size_t used = 0;
    int rc = acp_handshake_feed(wire->handshake, buffer, (size_t)n, &used);
    if (!speak(wire) || rc < 0 || (rc == ACP_HANDSHAKE_DONE && !introduce(e, wire))) {
        wire->stranger = rc == ACP_HANDSHAKE_WRONG_SLOT || rc == ACP_HANDSHAKE_BAD_JOB;
        broken(lane, wire);
    } else if (rc == ACP_HANDSHAKE_DONE) {
        wire->state = WIRE_OPEN;
        wire_pace(wire->fd);
        link_wire_up(lane, wire);
    }
    wire->in_begin = used;
    take_input(lane, wire, buffer, (size_t)n);
}

static void readable(acp_lane *lane, struct wire *wire)
{
    acp_engine *e = lane->engine;
    size_t have = wire->in_end;
    unsigned char *buffer = take_buffer(e, wire);
    ssize_t n = -1;
    wire->in_end = 0;
    if (buffer)
        n = recv(wire->fd, buffer + have, IN_BUFFER - have, MSG_DONTWAIT);
    else
        errno = ENOMEM;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        broken(lane, wire);
        free(buffer);
        return;
    }
    if (wire->state == WIRE_HANDSHAKE && n > 0)
        handshake_step(lane, wire, buffer, n);
    else
        take_input(lane, wire, buffer, have + (n > 0 ? (size_t)n : 0));
}

static void connected(acp_lane *lane, struct wire *wire)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    wire->state = WIRE_HANDSHAKE;
    wire->refused = error == ECONNREFUSED;
    if (error || !speak(wire))
        broken(lane, wire);
    else
        wire_want(lane->engine, wire, false);
}

void wire_ready(acp_lane *lane, uint32_t number, uint32_t events)
{
    acp_engine *e = lane->engine;
    struct wire *wire = number < e->wire_room ? e->wires[number] : NULL;
    if (!wire)
        return;
    if (wire->state == WIRE_CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        connected(lane, wire);
    if (wire->state == WIRE_OPEN && events & EPOLLOUT)
        link_writable(lane, wire);
    if (wire->state != WIRE_CLOSED && wire->state != WIRE_CONNECTING &&
        events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        readable(lane, wire);
}

uint64_t wires_tick(acp_lane *lane, uint64_t now)
{
    acp_engine *e = lane->engine;
    uint64_t next = UINT64_MAX;
    if (e->listen_again && now >= e->listen_again) {
        e->listen_again = 0;
        listen_as_room(e);
    } else if (e->listen_again) {
        next = e->listen_again;
    }
    for (uint32_t i = 0; i < e->wire_room; i++) {
        struct wire *wire = e->wires[i];
        if (!wire || wire->state == WIRE_CLOSED || !wire->deadline)
            continue;
        if (now >= wire->deadline)
            broken(lane, wire);
        else if (wire->deadline < next)
            next = wire->deadline;
    }
    return next;
}

void wires_close(acp_engine *e)
{
    for (uint32_t i = 0; i < e->wire_room; i++)
        if (e->wires[i])
            wire_close(e, e->wires[i]);
    wires_bury(e);
    free(e->wires);
    free(e->receive_buffer);
    e->wires = NULL;
    e->receive_buffer = NULL;
    e->wire_room = 0;
}
