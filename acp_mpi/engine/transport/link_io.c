/* Frames out and in on the connection that a link has now. */
#include "transport/link_io.h"
#include "base/crc32c.h"
#include "base/crc32c_copy.h"
#include "base/likely.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "core/upcalls.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/reactor.h"
#include "transport/connection.h"
#include "transport/frame.h"
#include "transport/introduce.h"
#include "transport/link.h"
#include "transport/link_session.h"
#include "transport/seal.h"
#include "transport/tcp_send_queue.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define PIECES 32
#define STREAK_LEAST 16u /* messages of a stream, which follow one another */
#define STREAK_NS 5000u  /* within that time */
#define GATHER_NS 10000u /* and leave together with those of such a time */

/* A frame without a number, at once: it concerns the connection, not the link. */
bool link_io_send_now(const struct wire *wire, const struct message *m, uint64_t ack)
{
    unsigned char frame[FRAME_HEAD + FRAME_TAG];
    size_t size = seal_between(wire->seal) ? seal_write(wire->seal, frame, m, ack, NULL, 0) : 0;
    ssize_t n = size ? send(wire->fd, frame, size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
    if (size && n <= 0)
        seal_unsent(wire->seal);
    else if (size && n < (ssize_t)size)
        shutdown(wire->fd, SHUT_RDWR); /* nothing fits behind a part of a frame */
    return size && n == (ssize_t)size;
}

size_t link_io_turn(acp_engine *e)
{
    if (!e->tcp.brief_turns)
        return TURN_BYTES;
    e->tcp.brief_turns--;
    return BRIEF_TURN_BYTES;
}

/* Leaves out what is behind the end of a turn; the number of pieces left. */
static size_t pieces_of_turn(struct iovec *pieces, size_t count, size_t turn)
{
    size_t used = 0;
    for (size_t left = turn; used < count && left; left -= pieces[used++].iov_len)
        if (pieces[used].iov_len > left)
            pieces[used].iov_len = left;
    return used;
}

void link_io_push(acp_lane *lane, struct link *link)
{
    acp_engine *e = lane->engine;
    struct iovec pieces[PIECES];
    link_unhold(e, link);
    link->urgent = false;
    while (link->state == LINK_OPEN && link->out.unsent) {
        struct seal *seal = link->wire->seal;
        size_t turn = link_is_long(link) ? link_io_turn(e) : SIZE_MAX;
        int count = seal ? seal_pieces(seal, &link->out, pieces, PIECES, turn)
                         : tcp_send_queue_pieces(&link->out, pieces, PIECES);
        struct msghdr m = {.msg_iov = pieces, .msg_iovlen = pieces_of_turn(pieces, (size_t)count, turn)};
        errno = ENOMEM;
        ssize_t n = m.msg_iovlen ? sendmsg(link->wire->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) : -1;
        if (n >= 0) {
            tcp_send_queue_sent(&link->out, (size_t)n);
            if (seal)
                seal_sent(seal, (size_t)n);
            if (link_is_long(link) && (link->out.unsent || (size_t)n > COMPANY_BYTES)) {
                connection_want(e, link->wire, true);
                return;
            }
        } else if (errno == EAGAIN) {
            connection_want(e, link->wire, true);
            return;
        } else if (errno != EINTR) {
            shutdown(link->wire->fd, SHUT_RDWR); /* the reader finds the end behind all that has come before it */
            connection_want(e, link->wire, false);
            return;
        }
    }
    if (link->state == LINK_OPEN)
        connection_want(e, link->wire, false);
}

void link_io_uncork(acp_lane *lane, struct link *link)
{
    link->corked = false;
    if (!link->out.unsent || link->state != LINK_OPEN || link->wire->writing)
        return;
    if (link->urgent || link->out.unsent >= COMPANY_BYTES)
        link_io_push(lane, link);
    else
        link_hold(lane->engine, link);
}

static size_t unsent_most(const struct link *link)
{
    return link_is_long(link) ? UNSENT_LONG_MOST : UNSENT_MOST;
}

/* Most links have less than any may have. */
bool link_io_room(const struct link *link)
{
    return (link->out.unsent < UNSENT_MOST || link->out.unsent < unsent_most(link)) && link->out.held < HELD_MOST;
}

/* A frame that its sender cannot repeat later. */
static bool is_answer(uint8_t kind)
{
    return kind >= ACP_REPLY;
}

static size_t size_on(const struct link *link, uint64_t payload)
{
    return link->sealed ? frame_sealed_bytes((uint32_t)payload) : frame_bytes((uint32_t)payload);
}

/* Before any frame that may name them: the rows that have joined since the peer did. */
static bool rows_send(acp_lane *lane, struct link *link)
{
    acp_engine *e = lane->engine;
    unsigned char rows[ROWS_PIECE * ACP_ROW_SIZE];
    while (link->told < e->procs) {
        struct message m = introduce_piece(e, ACP_ROWS, link->told, e->procs, rows);
        if (link_io_send(lane, link, &m, rows, m.b * ACP_ROW_SIZE) != ACP_OK)
            return false;
        link->told += (uint32_t)m.b;
    }
    return true;
}

unsigned char *link_io_reserve(acp_lane *lane, struct link *link, const struct message *m,
                               uint64_t size, uint64_t *sum)
{
    unsigned char *frame = NULL;
    bool told = link->told >= lane->engine->procs || m->kind == ACP_ROWS;
    if (unlikely(!told))
        told = rows_send(lane, link);
    if (link->state == LINK_CLOSED || size > FRAME_PAYLOAD_MOST)
        lane_fail(lane, ACP_E_LOST, m->dst, size);
    else if (!told || !(frame = tcp_send_queue_add(&link->out, size_on(link, size), is_answer(m->kind))))
        lane_fail(lane, ACP_E_SYSTEM, m->dst, size);
    if (!frame) {
        lane->fault.rank = rank_table_rank(lane->engine, link->peer->slot);
        return NULL;
    }
    if (link->sealed)
        frame_compose(frame, m, link->received, (uint32_t)size);
    else
        *sum = frame_begin(frame, m, link->out.next - 1, link->received, (uint32_t)size);
    return frame + FRAME_HEAD;
}

void link_io_cancel(struct link *link, uint64_t size)
{
    tcp_send_queue_drop(&link->out, size_on(link, size));
}

void link_io_commit(acp_lane *lane, struct link *link, const struct message *m,
                    unsigned char *payload, uint64_t size, uint64_t sum)
{
    acp_engine *e = lane->engine;
    bool idle = link->out.unsent == size_on(link, size) || link->held;
    bool part = m->kind == ACP_PUT && m->flags & PART_SILENT; /* the next one follows */
    bool command = link_counts(m);
    bool later = m->flags & ANSWER_LATER && (m->kind == ACP_REPLY || layout_is_atomic(m->kind));
    if (size && !link->sealed)
        frame_end(payload - FRAME_HEAD, (uint32_t)size, (uint32_t)sum);
    link->untold = 0;
    link->unanswered += command;
    link->urgent |= !later;
    if (later && command) {
        link->later = true;
        atomic_store_explicit(&e->tcp.asked_later, true, memory_order_relaxed);
    }
    if (!e->progress.timer_at) /* so that the peer is probed later */
        reactor_timer(e, linux_now_ns() + e->config.peer_timeout_ns / 8);
    if (unlikely(link->resting))
        link_wake(e, link);
    if (link->state != LINK_OPEN || link->corked || !idle || link->wire->writing)
        return;
    size_t enough = part ? unsent_most(link) : link->gathers || (command && link->unanswered > 1) ? COMPANY_BYTES : 0;
    if (link->out.unsent >= enough) {
        link_io_push(lane, link);
        return;
    }
    link_hold(e, link);
    if (link->gathers && !e->progress.flush_at)
        reactor_flush(e, linux_now_ns() + STREAM_NS);
}

int link_io_send(acp_lane *lane, struct link *link, const struct message *m, const void *payload,
                 uint64_t size)
{
    uint64_t sum = 0;
    unsigned char *at = link_io_reserve(lane, link, m, size, &sum);
    if (!at)
        return lane->fault.status;
    if (size && link->sealed)
        memcpy(at, payload, size);
    else if (size)
        sum = acp_crc32c_copy((uint32_t)sum, at, payload, size);
    link_io_commit(lane, link, m, at, size, sum);
    return ACP_OK;
}

int link_io_send_mail(acp_lane *lane, struct link *link, const struct message *m, const void *payload, uint64_t size,
                      bool has_time)
{
    acp_engine *e = lane->engine;
    uint64_t now = linux_now_ns();
    bool follows = now - link->mailed_at < STREAK_NS && link->inputs == e->tcp.inputs;
    link->streak = follows ? link->streak + 1 : 0;
    link->inputs = e->tcp.inputs;
    link->gathers = (has_time || link->streak >= STREAK_LEAST) && !(link->held && now - e->tcp.held_at > GATHER_NS);
    struct message marked = *m;
    marked.status = link->streak + 1 >= STREAK_LEAST ? MORE_FOLLOWS : 0;
    int rc = link_io_send(lane, link, &marked, payload, size);
    link->gathers = false;
    link->mailed_at = link->held ? now : linux_now_ns();
    return rc;
}

void link_io_answer(acp_lane *lane, struct link *link, const struct message *m, const void *payload,
                    uint64_t size)
{
    if (link_io_send(lane, link, m, payload, size) == ACP_E_SYSTEM)
        peer_mark_lost(lane->engine, link->peer);
}

/* Payloads lent from between `low` and `high` are copied, for the memory may change from now on. */
void link_io_take_in(struct link *link, const unsigned char *low, const unsigned char *high)
{
    /* A tag stays what it is: no number gets a second one. If the bytes have changed the peer will refuse the frame. */
    tcp_send_queue_take_in(&link->out, low, high, link->sealed ? NULL : frame_sum);
}

void link_io_take_in_all(acp_engine *e, const unsigned char *low, const unsigned char *high)
{
    for (struct link *link = e->tcp.links; link; link = link->next)
        link_io_take_in(link, low, high);
}

void link_io_flush(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    for (struct link *link = e->tcp.links; e->tcp.held_links && link; link = link->next)
        if (link->held)
            link_io_push(lane, link);
}

void link_io_release(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    link_io_flush(&e->lanes[LANE_LOCKED]);
    pthread_mutex_unlock(&e->lock);
}

void link_io_ask(acp_engine *e)
{
    struct message m = {.kind = ACP_PROBE};
    pthread_mutex_lock(&e->lock);
    atomic_store_explicit(&e->tcp.asked_later, false, memory_order_relaxed);
    for (struct link *link = e->tcp.links; link; link = link->next) {
        bool ask = link->later && !link->held && link->state == LINK_OPEN && !link->wire->writing;
        link->later = false;
        if (link->held)
            link_io_push(&e->lanes[LANE_LOCKED], link);
        else if (ask)
            link_io_send_now(link->wire, &m, link->received);
    }
    pthread_mutex_unlock(&e->lock);
}

void link_io_ask_more(acp_engine *e)
{
    struct message m = {.kind = ACP_PROBE};
    pthread_mutex_lock(&e->lock);
    atomic_store_explicit(&e->tcp.more_follows, false, memory_order_relaxed);
    for (struct link *link = e->tcp.links; link; link = link->next) {
        if (link->more && link->state == LINK_OPEN && !link->wire->writing)
            link_io_send_now(link->wire, &m, link->received);
        link->more = false;
    }
    pthread_mutex_unlock(&e->lock);
}

uint64_t link_io_expects(const struct wire *wire)
{
    return wire->link ? wire->link->received : 0;
}

/* A part of a long transfer that nothing before it holds up. */
static bool can_land(const struct link *link, const struct frame *f)
{
    const struct message *m = &f->message;
    return link && link->state == LINK_OPEN && m->kind == ACP_PUT && !m->after &&
           f->size == FRAME_PAYLOAD_MOST && m->a == f->size;
}

/* Copies the payload to its place. A sealed frame has been checked; of another one the copy makes the sum. *rc: the
 * result. False: the sum is wrong, and the frame will be sent again; until then the operation is not complete, and no
 * caller may rely on the bytes there. */
static bool land(acp_lane *lane, const struct wire *wire, const struct frame *f, int *rc)
{
    uint64_t sum = f->sum;
    *rc = lane->engine->up->land(lane, &f->message, f->payload, f->size, link_is_long(wire->link),
                                 wire->seal ? NULL : &sum);
    if (wire->seal)
        return true;
    if (*rc != ACP_OK)
        sum = acp_crc32c(f->sum, f->payload, f->size);
    return frame_right(f, (uint32_t)sum);
}

bool link_io_frame(acp_lane *lane, struct wire *wire, const struct frame *f)
{
    acp_engine *e = lane->engine;
    struct link *link = wire->link;
    struct message m = f->message;
    bool landing = can_land(link, f);
    int landed = ACP_OK;
    if (landing ? !land(lane, wire, f, &landed)
                : !wire->seal && !frame_right(f, acp_crc32c(f->sum, f->payload, f->size)))
        return false;
    if (m.kind == ACP_NEWCOMER && !link) {
        newcomers_learn(e, &m, f->payload, f->size);
        return true;
    }
    if (m.kind == ACP_DOING && !link)
        return e->up->questioned(e, wire);
    if (m.kind == ACP_SESSION) {
        link_session_begin(lane, wire, &m);
        return true;
    }
    if (!link || link->state != LINK_OPEN) /* a link is named before its frames */
        return false;
    uint64_t ack = link->out.acked + (uint32_t)(f->ack - (uint32_t)link->out.acked);
    if (ack - link->out.acked > UINT32_MAX / 2)
        ack = link->out.acked; /* written before an earlier one arrived */
    link->moved |= ack != link->out.acked || frame_numbered(m.kind);
    if (!tcp_send_queue_ack(&link->out, ack) || link->out.held > FLOOD) {
        link_give_up(lane, link); /* only by a peer that breaks the protocol */
        return true;
    }
    if (unlikely(link->twin))
        link_leave(e, link);
    link->corked = true;
    if (m.kind == ACP_PROBE)
        e->up->answer(lane, link);
    if (m.kind == ACP_PROBE && link->out.unsent) {
        link->urgent = true; /* frames held back are the answer */
    } else if (m.kind == ACP_PROBE) {
        link->untold = UNTOLD_MOST; /* so that the answer goes at once */
    } else if (frame_numbered(m.kind)) {
        link->received++;
        link->untold += f->total;
        if (m.kind == ACP_REPLY && link->unanswered && m.flags & ANSWER_COUNTED)
            link->unanswered--;
        if (m.kind == ACP_REPLY)
            link->later = false;
        link->more = (m.kind == ACP_MAIL || m.kind == ACP_CHANNEL) && m.status == MORE_FOLLOWS;
        if (link->more)
            atomic_store_explicit(&e->tcp.more_follows, true, memory_order_relaxed);
        m.from = link->peer->slot;
        if (landing)
            e->up->landed(lane, link->peer, link, &m, f->payload, landed);
        else
            e->up->arrived(lane, link->peer, link, &m, f->payload, f->size);
    }
    return true;
}

/* Not in the middle of a frame. */
static void acknowledge(acp_engine *e, struct link *link)
{
    struct message m = {.kind = ACP_ACK};
    size_t enough = link->twin && link_is_left(e, link) ? 1 : UNTOLD_MOST;
    if (link->state != LINK_OPEN || link->untold < enough || link->wire->writing)
        return;
    if (link_io_send_now(link->wire, &m, link->received))
        link->untold = 0;
    else
        connection_want(e, link->wire, true);
}

void link_io_received(acp_lane *lane, struct wire *wire)
{
    struct link *link = wire->link;
    if (!link || link->state == LINK_CLOSED)
        return;
    link->heard = linux_now_ns();
    lane->engine->up->answer(lane, link);
    link_io_uncork(lane, link);
    acknowledge(lane->engine, link);
}

void link_io_writable(acp_lane *lane, struct wire *wire)
{
    if (!wire->link)
        return;
    if (wire->first_size) {
        link_session_continue(lane, wire);
        return;
    }
    link_io_push(lane, wire->link);
    acknowledge(lane->engine, wire->link);
}

