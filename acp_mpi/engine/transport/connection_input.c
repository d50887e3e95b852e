/* Input of a connection: the handshake, then whole frames, for its link. No frame is taken while there is no memory
 * for its possible answer: the stream keeps it. */
#include "transport/connection_input.h"
#include "core/engine_state.h"
#include "core/upcalls.h"
#include "peers/newcomers.h"
#include "transport/connection.h"
#include "transport/frame.h"
#include "transport/handshake.h"
#include "transport/link.h"
#include "transport/link_io.h"
#include "transport/link_session.h"
#include "transport/seal.h"
#include "transport/socket_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

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

static bool introduce(acp_engine *e, struct wire *wire)
{
    acp_handshake *hs = wire->handshake;
    if (!wire->accepted)
        return true;
    if (hs->peer_slot == ACP_NO_SLOT)
        return true; /* an observer: it may query, and has no link */
    if (!newcomers_find(e, hs->peer_slot))
        return hs->peer_slot < ACP_RANKS_MAX; /* its first frames introduce it */
    return link_session_knows(e, wire);
}

/* Takes the keys of the handshake. */
static bool protect(acp_engine *e, struct wire *wire)
{
    acp_handshake *hs = wire->handshake;
    if (hs->links == ACP_LINKS_CRC)
        return true;
    wire->seal = seal_new(&e->tcp.crypto, hs->links, hs->out_key, hs->in_key);
    explicit_bzero(hs->out_key, sizeof hs->out_key);
    explicit_bzero(hs->in_key, sizeof hs->in_key);
    return wire->seal != NULL;
}

/* Takes whole frames from the begin of `from`; how many bytes are left. */
static size_t take_frames(acp_lane *lane, struct wire *wire, unsigned char *from, size_t size)
{
    unsigned char *at = from, *end = from + size;
    while (wire->state == WIRE_OPEN) {
        struct frame frame;
        enum frame_result rc = wire->seal ? seal_read(wire->seal, at, (size_t)(end - at), &frame)
                                          : frame_open(at, (size_t)(end - at), link_io_expects(wire), &frame);
        if (rc == FRAME_WHOLE && wire->link && frame_numbered(frame.message.kind) &&
            !lane->engine->up->provided(lane->engine)) {
            connection_pause(lane->engine, wire, true);
            break;
        }
        if (rc == FRAME_BAD || (rc == FRAME_WHOLE && !link_io_frame(lane, wire, &frame)))
            link_broken(lane, wire);
        if (rc != FRAME_WHOLE)
            break;
        if (wire->seal)
            seal_taken(wire->seal);
        at += frame.total;
    }
    return (size_t)(end - at);
}

/* Takes the frames in the buffer up to `end`. The begin of a frame stays where it is if the rest fits behind it; so it
 * does where all are as long as those of a long transfer. */
static void take_input(acp_lane *lane, struct wire *wire, unsigned char *buffer, size_t end)
{
    acp_engine *e = lane->engine;
    size_t begin = wire->in_begin, left = take_frames(lane, wire, buffer + begin, end - begin);
    wire->in_begin = 0;
    link_io_received(lane, wire);
    if (wire->state == WIRE_OPEN && left) {
        wire->in = buffer;
        wire->in_begin = IN_BUFFER - (end - left) < FRAME_MOST ? 0 : end - left;
        wire->in_end = wire->in_begin + left;
        memmove(buffer + wire->in_begin, buffer + end - left, left);
    } else if (e->tcp.receive_buffer) {
        free(buffer);
    } else {
        e->tcp.receive_buffer = buffer;
    }
}

/* A connection with the begin of a frame has a buffer of its own; all others share one. */
static unsigned char *take_buffer(acp_engine *e, struct wire *wire)
{
    unsigned char *buffer = wire->in ? wire->in : e->tcp.receive_buffer;
    if (wire->in)
        wire->in = NULL;
    else
        e->tcp.receive_buffer = NULL;
    return buffer ? buffer : malloc(IN_BUFFER);
}

static void handshake_step(acp_lane *lane, struct wire *wire, unsigned char *buffer, ssize_t n)
{
    acp_engine *e = lane->engine;
    size_t used = 0;
    int rc = acp_handshake_feed(wire->handshake, buffer, (size_t)n, &used);
    if (!speak(wire) || rc < 0 || (rc == ACP_HANDSHAKE_DONE && (!introduce(e, wire) || !protect(e, wire)))) {
        wire->stranger = rc == ACP_HANDSHAKE_WRONG_SLOT || rc == ACP_HANDSHAKE_BAD_JOB || rc == ACP_HANDSHAKE_BAD_LINKS;
        link_broken(lane, wire);
    } else if (rc == ACP_HANDSHAKE_DONE) {
        wire->state = WIRE_OPEN;
        socket_options_pace(wire->fd);
        link_session_connected(lane, wire);
    }
    wire->in_begin = used;
    take_input(lane, wire, buffer, (size_t)n);
}

static void note_input(acp_engine *e, struct wire *wire)
{
    e->tcp.inputs++;
    atomic_store_explicit(&e->tcp.long_input, link_is_long(wire->link), memory_order_relaxed);
    if (link_is_long(wire->link)) /* other connections are read in turn with it */
        e->tcp.last_input = NULL;
    else
        atomic_store_explicit(&e->tcp.brief_turns, BRIEF_TURNS, memory_order_relaxed);
    e->tcp.talker = e->tcp.last_input == wire ? wire : NULL;
    e->tcp.last_input = wire;
}

static bool readable(acp_lane *lane, struct wire *wire)
{
    acp_engine *e = lane->engine;
    size_t have = wire->in_end;
    unsigned char *buffer = wire->fasts ? NULL : take_buffer(e, wire);
    if (!buffer) {
        connection_pause(e, wire, true);
        connection_input_starve(e);
        return true;
    }
    wire->in_end = 0;
    size_t most = IN_BUFFER - have;
    if (link_is_long(wire->link)) {
        size_t turn = link_io_turn(e);
        most = turn < most ? turn : most;
    }
    ssize_t n = recv(wire->fd, buffer + have, most, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        link_broken(lane, wire);
        free(buffer);
        return true;
    }
    if (n < 0) {
        *(have ? &wire->in : &e->tcp.receive_buffer) = buffer;
        wire->in_end = have;
        return false;
    }
    note_input(e, wire);
    if (wire->state == WIRE_HANDSHAKE)
        handshake_step(lane, wire, buffer, n);
    else
        take_input(lane, wire, buffer, have + (size_t)n);
    return true;
}

static void connected(acp_lane *lane, struct wire *wire)
{
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    wire->state = WIRE_HANDSHAKE;
    wire->refused = error == ECONNREFUSED;
    if (!error && wire->link)
        link_taken(lane->engine, wire->link);
    if (error || !speak(wire))
        link_broken(lane, wire);
    else
        connection_want(lane->engine, wire, false);
}

void connection_input_ready(acp_lane *lane, uint32_t number, uint32_t events)
{
    acp_engine *e = lane->engine;
    struct wire *wire = number < e->tcp.wire_room ? e->tcp.wires[number] : NULL;
    if (!wire)
        return;
    if (wire->state == WIRE_CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP))
        connected(lane, wire);
    if (wire->state == WIRE_OPEN && events & EPOLLOUT)
        link_io_writable(lane, wire);
    if (wire->state != WIRE_CLOSED && wire->state != WIRE_CONNECTING &&
        events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        readable(lane, wire);
}

bool connection_input_ask(acp_lane *lane)
{
    struct wire *wire = lane->engine->tcp.talker;
    return wire && readable(lane, wire);
}

void connection_input_starve(acp_engine *e)
{
    atomic_store(&e->tcp.starved, true);
}

enum due connection_input_due(const acp_engine *e)
{
    return e->tcp.starved ? DUE_SOON : DUE_NOT;
}

bool connection_input_resume(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    if (!atomic_exchange(&e->tcp.starved, false))
        return false;
    for (uint32_t i = 0; i < e->tcp.wire_room; i++) {
        struct wire *wire = e->tcp.wires[i];
        if (!wire || !wire->fasts || wire->state == WIRE_CLOSED)
            continue;
        unsigned char *buffer = wire->in;
        size_t end = wire->in_end;
        connection_pause(e, wire, false);
        wire->in = NULL;
        wire->in_end = 0;
        if (buffer)
            take_input(lane, wire, buffer, end);
    }
    return false;
}
