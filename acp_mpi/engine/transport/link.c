/* The life of a link. The first process with a frame to send opens it, and both use it. If both open one at a time that
 * of the lower slot stays in use: the other process sends on its own until all is acknowledged there, so that the order
 * remains. On one stream for both ways the answers carry the acknowledgements of TCP. When its connection breaks the
 * opener calls again; the other side waits for that call, and knocks now and then: a dead opener never calls, and no
 * other frame may ever go to it. The times are in keepalive.c. */
#include "transport/link.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "core/upcalls.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "progress/reactor.h"
#include "transport/connection.h"
#include "transport/link_io.h"
#include "transport/link_session.h"
#include "transport/listen.h"
#include "transport/tcp_send_queue.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define LINGER_NS ((uint64_t)1000000000)
#define SILENT_TIMES 8u
#define PAUSE_NS ((uint64_t)50000000)
#define PAUSE_MOST_NS ((uint64_t)1000000000)
#define PUT_OFF_NS (3 * PAUSE_MOST_NS) /* a peer that was put off calls again before that */

static void link_lost_after(const acp_engine *e, struct link *link)
{
    link->lost_at = linux_now_ns() + e->config.peer_timeout_ns;
    link->silent_at = linux_now_ns() + SILENT_TIMES * e->config.peer_timeout_ns;
}

/* Its host has taken a call: the peer may be busy with those of others. */
void link_taken(acp_engine *e, struct link *link)
{
    uint64_t at = linux_now_ns() + e->config.peer_timeout_ns;
    at = at < link->silent_at ? at : link->silent_at;
    if (at > link->lost_at)
        link->lost_at = at;
}

struct link *link_new(acp_engine *e, struct peer *p, uint32_t color)
{
    struct link *link = calloc(1, sizeof *link);
    if (!link)
        return NULL;
    link->peer = p;
    link->out.spares = &e->tcp.outbox_spares;
    link->color = color;
    link->told = newcomers_known_to(e, p);
    link->state = LINK_CALLING;
    link->pause = PAUSE_NS;
    link->heard = linux_now_ns();
    link_lost_after(e, link);
    link->next = e->tcp.links;
    e->tcp.links = link;
    struct link *mine = p->tcp.links[color];
    if (!mine)
        p->tcp.links[color] = link;
    else if (!link_is_long(mine) && mine->opener && !mine->twin)
        (mine->twin = link)->twin = mine;
    return link;
}

void link_leave(acp_engine *e, struct link *link)
{
    struct link **used = &link->peer->tcp.links[link->color];
    if (*used == link && link->opener && e->self > link->peer->slot && !link->out.held &&
        link->twin->state == LINK_OPEN)
        *used = link->twin;
}

bool link_is_left(const acp_engine *e, const struct link *link)
{
    return !link->opener && e->self < link->peer->slot;
}

void link_hold(acp_engine *e, struct link *link)
{
    if (link->held)
        return;
    link->held = true;
    if (!atomic_fetch_add(&e->tcp.held_links, 1))
        atomic_store(&e->tcp.held_at, linux_now_ns());
}

void link_unhold(acp_engine *e, struct link *link)
{
    if (link->held)
        atomic_fetch_sub(&e->tcp.held_links, 1);
    link->held = false;
}

static void link_rests(acp_engine *e, struct link *link, bool rests)
{
    e->tcp.cache.resting += rests - link->resting;
    link->resting = rests;
}

static void link_close(acp_engine *e, struct link *link)
{
    if (link->state == LINK_CLOSED)
        return;
    link->state = LINK_CLOSED;
    link_rests(e, link, false);
    link_unhold(e, link);
    if (link->wire)
        connection_close(e, link->wire);
    link->wire = NULL;
    if (link->twin)
        link->twin->twin = NULL;
    if (link->peer->tcp.links[link->color] == link)
        link->peer->tcp.links[link->color] = NULL;
    e->up->unlinked(e, link);
    for (struct link **at = &e->tcp.links; *at; at = &(*at)->next) {
        if (*at == link) {
            *at = link->next;
            break;
        }
    }
    link->next = e->tcp.dead_links; /* a frame of it may be in work: freed later */
    e->tcp.dead_links = link;
}

static void dead_free(acp_engine *e)
{
    while (e->tcp.dead_links) {
        struct link *link = e->tcp.dead_links;
        e->tcp.dead_links = link->next;
        tcp_send_queue_free(&link->out);
        free(link);
    }
}

void links_lost(acp_lane *lane, struct peer *p)
{
    for (struct link *link = lane->engine->tcp.links, *next; link; link = next) {
        next = link->next;
        if (link->peer != p)
            continue;
        if (link->state == LINK_OPEN && !link->wire->writing)
            link_session_refuse(lane->engine, link->wire); /* it may live, and not be the side that calls */
        link_close(lane->engine, link);
    }
}

bool links_reach(const acp_engine *e, const struct peer *p)
{
    for (const struct link *link = e->tcp.links; link; link = link->next)
        if (link->peer == p)
            return true;
    return false;
}

bool link_short_lasts(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool is = linux_now_ns() - e->tcp.put_off_at < PUT_OFF_NS;
    for (const struct link *link = e->tcp.links; link && !is; link = link->next)
        is = link->shortage && link->out.held;
    if (!is)
        e->tcp.short_since = 0;
    pthread_mutex_unlock(&e->lock);
    return is;
}

int acp_short_error(const acp_engine *e)
{
    return e->tcp.short_error;
}

uint32_t acp_links(acp_engine *e, uint64_t *limit)
{
    uint32_t count = 0;
    struct rlimit files = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    *limit = files.rlim_cur;
    pthread_mutex_lock(&e->lock);
    for (const struct link *link = e->tcp.links; link; link = link->next)
        count += link->wire != NULL;
    pthread_mutex_unlock(&e->lock);
    return count;
}

int acp_shortage(acp_engine *e)
{
    int error = 0;
    pthread_mutex_lock(&e->lock);
    for (const struct link *link = e->tcp.links; link && !error; link = link->next)
        error = link->shortage;
    pthread_mutex_unlock(&e->lock);
    return error;
}

/* A waiting caller learns of a peer that has ended in order, outside this process's group, with the peer's last link:
 * then all has come that was sent before. */
void link_give_up(acp_lane *lane, struct link *link)
{
    acp_engine *e = lane->engine;
    struct peer *p = link->peer;
    bool dead = !p->ending || link->unanswered;
    link_close(e, link);
    if (dead || (p->left && !links_reach(e, p)))
        peer_mark_lost(e, p);
}

/* The leader calls, unless the peer has. */
void link_wake(acp_engine *e, struct link *link)
{
    if (!link->resting)
        return;
    link_rests(e, link, false);
    link->attempt = link->refusals = 0;
    link->pause = PAUSE_NS;
    link_lost_after(e, link);
    link->retry_at = linux_now_ns();
    reactor_timer(e, link->retry_at);
}

void link_rest(acp_engine *e, struct link *link)
{
    connection_close(e, link->wire);
    link->wire = NULL;
    link->moved = false;
    link->asked = 0;
    link->shortage = 0;
    link_unhold(e, link);
    link->state = LINK_CALLING;
    link_rests(e, link, true);
    if (link->out.held)
        link_wake(e, link);
}

/* The leader looks for an idle link to rest (link_cache.c). */
void link_crowded(acp_engine *e)
{
    e->tcp.cache.spare_at = 0;
    reactor_timer(e, linux_now_ns());
}

static void call_later(acp_engine *e, struct link *link)
{
    link->attempt = link->refusals = 0;
    link->retry_at = linux_now_ns() + link->pause;
    link->pause = link->pause * 2 < PAUSE_MOST_NS ? link->pause * 2 : PAUSE_MOST_NS;
    reactor_timer(e, link->retry_at);
}

/* Calls the next address of the peer. A peer that refuses at every address is dead; else this is tried again until it
 * counts as dead. */
void link_call(acp_lane *lane, struct link *link)
{
    acp_engine *e = lane->engine;
    uint32_t addresses = listen_endpoint_count(e, link->peer);
    while (link->attempt < addresses) {
        link->wire = connection_call(e, link, link->attempt++);
        link->shortage = !link->wire && peer_own_shortage(errno) ? errno : 0;
        if (link->wire)
            return;
        if (link->shortage && link->out.held)
            connection_short_begins(e, link->shortage);
        link->refusals += errno == ECONNREFUSED;
        if (link->shortage)
            link_lost_after(e, link);
        if (link->shortage == EMFILE || link->shortage == ENFILE) {
            e->tcp.cache.lacking = true;
            link_crowded(e);
        }
    }
    if (link->refusals >= addresses)
        link_give_up(lane, link);
    else
        call_later(e, link);
}

/* Sets the timer also for earlier checks: only their delay beyond the due time counts as time in which this process
 * did not run. */
static void count_down(acp_engine *e, const struct link *link)
{
    reactor_timer(e, link->lost_at);
    reactor_timer(e, linux_now_ns() + e->config.peer_timeout_ns / 8);
}

/* The link on which this process sends to `p`, opened if there is none yet. Once closing has begun no link is opened:
 * it would never be served or freed. */
struct link *link_to(acp_lane *lane, struct peer *p, uint32_t color)
{
    acp_engine *e = lane->engine;
    if (p->tcp.links[color])
        return p->tcp.links[color];
    struct link *link = p->lost || e->stopping ? NULL : link_new(e, p, color);
    if (!link)
        return NULL;
    link->opener = true;
    link->sealed = connection_protection(e, p->row.host == e->config.host) != ACP_LINKS_CRC;
    link->session = ++e->tcp.sessions;
    count_down(e, link);
    link_call(lane, link);
    return p->tcp.links[color];
}

void link_watch(acp_engine *e, struct peer *p, uint32_t color)
{
    if (p->lost || peer_attach(e, p) != RELATION_REMOTE)
        return;
    pthread_mutex_lock(&e->lock);
    struct link *link = link_to(&e->lanes[LANE_LOCKED], p, color);
    if (link)
        link_wake(e, link);
    pthread_mutex_unlock(&e->lock);
}

/* From now on the time runs after which the peer counts as dead; a new connection stops it only if a frame moves on
 * it, or none is to be sent. */
void link_without_wire(acp_engine *e, struct link *link)
{
    bool moved = link->moved;
    link->wire = NULL;
    link->moved = false;
    link_unhold(e, link);
    if (link->state == LINK_OPEN && moved) {
        link->attempt = link->refusals = 0;
        link->pause = PAUSE_NS;
    }
    if (link->state == LINK_OPEN && (moved || !link->needed))
        link_lost_after(e, link);
    count_down(e, link);
}

/* A knocking peer has lost its end of a connection on which nothing has come to this side for a while. */
void links_knocked_at(acp_lane *lane, const struct peer *p)
{
    uint64_t part = lane->engine->config.peer_timeout_ns / 8; /* the knocker waits no longer than this in all */
    uint64_t silence = part < PAUSE_MOST_NS ? part : PAUSE_MOST_NS;
    for (struct link *link = lane->engine->tcp.links, *next; link; link = next) {
        next = link->next;
        if (link->peer == p && link->opener)
            link_wake(lane->engine, link);
        if (link->peer != p || !link->opener || link->state != LINK_OPEN ||
            linux_now_ns() - link->heard <= silence)
            continue;
        link_broken(lane, link->wire);
    }
}

/* A stream is gone. The farewell of a peer ends its links without a loss, unless an answer is
 * missing. */
void link_broken(acp_lane *lane, struct wire *wire)
{
    acp_engine *e = lane->engine;
    struct link *link = wire->link;
    connection_close(e, wire);
    if (!link || link->wire != wire)
        return;
    bool in_vain = link->state == LINK_OPEN && !link->moved;
    link_without_wire(e, link);
    link->state = LINK_CALLING;
    link->refusals += wire->refused || (wire->stranger && link->strangers++);
    if (link->peer->gone && !link->unanswered)
        link_give_up(lane, link);
    else if (in_vain || (wire->accepted && !link->opener))
        call_later(e, link);
    else
        link_call(lane, link);
}

/* The connection has no link if it was to knock. */
void link_put_off(acp_engine *e, struct wire *wire)
{
    struct link *link = wire->link;
    for (struct link *other = e->tcp.links; other; other = other->next)
        if (other->peer == wire->peer && !other->wire)
            link_lost_after(e, other);
    wire->link = NULL;
    if (!link)
        return;
    link_without_wire(e, link);
    link->state = LINK_CALLING;
    link_lost_after(e, link);
    call_later(e, link);
}

/* The called peer lives, and its own call is awaited; or it answers on this connection why it will not come. */
void link_knocked(acp_engine *e, struct wire *wire)
{
    struct link *link = wire->link;
    link_session_knock(wire);
    wire->link = NULL;
    link_without_wire(e, link);
    call_later(e, link);
}

void links_bury(acp_engine *e)
{
    if (e->tcp.dead_wires)
        connection_reclaim(e);
    if (e->tcp.dead_links)
        dead_free(e);
}

/* Sends what is written and reads what the peers wrote, for a reset would destroy their last frames; both within a
 * second. */
void links_flush(acp_engine *e)
{
    uint64_t end = linux_now_ns() + LINGER_NS;
    unsigned char rest[4096];
    for (struct link *link = e->tcp.links; link; link = link->next) {
        while (link->state == LINK_OPEN && link->out.unsent && linux_now_ns() < end) {
            struct pollfd p = {.fd = link->wire->fd, .events = POLLOUT};
            poll(&p, 1, 10);
            if (p.revents & (POLLERR | POLLHUP))
                break;
            link_io_push(&e->lanes[LANE_LEADER], link);
        }
        if (link->state == LINK_OPEN)
            shutdown(link->wire->fd, SHUT_WR);
    }
    for (struct link *link = e->tcp.links; link; link = link->next) {
        ssize_t n = 1;
        while (link->state == LINK_OPEN && n != 0 && linux_now_ns() < end) {
            struct pollfd p = {.fd = link->wire->fd, .events = POLLIN};
            poll(&p, 1, 10);
            n = recv(link->wire->fd, rest, sizeof rest, MSG_DONTWAIT);
            if (n < 0 && errno != EAGAIN && errno != EINTR)
                break;
        }
    }
}

void links_close(acp_engine *e)
{
    while (e->tcp.links)
        link_close(e, e->tcp.links);
    connection_close_all(e);
    dead_free(e);
    tcp_send_queue_spares_free(&e->tcp.outbox_spares);
}
