/* Opening, authenticating and closing links. A link is opened by whoever first has something
 * to say and used by both; if both open one at a time, each keeps speaking on its own. */
#include "endpoint.h"
#include "link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define HANDSHAKE_NS ((uint64_t)5000000000)
#define PENDING_MOST 256u
#define LINGER_NS ((uint64_t)1000000000)

static struct link *link_new(acp_engine *e, int fd)
{
    uint32_t number = 0;
    while (number < e->link_room && e->links[number])
        number++;
    if (number == e->link_room) {
        uint32_t room = e->link_room ? e->link_room * 2 : 8;
        struct link **grown = realloc(e->links, room * sizeof *grown);
        if (!grown)
            return NULL;
        memset(grown + e->link_room, 0, (room - e->link_room) * sizeof *grown);
        e->links = grown;
        e->link_room = room;
    }
    if (!e->receive_buffer && !(e->receive_buffer = malloc(IN_BUFFER)))
        return NULL;
    struct link *link = calloc(1, sizeof *link);
    if (link && !(link->handshake = calloc(1, sizeof *link->handshake))) {
        free(link);
        link = NULL;
    }
    if (!link)
        return NULL;
    link->fd = fd;
    link->number = number;
    e->links[number] = link;
    atomic_fetch_add(&e->link_count, 1);
    atomic_fetch_add(&e->handshakes, 1);
    return link;
}

void link_want(acp_engine *e, struct link *link, bool writing)
{
    struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0u),
                                .data.u64 = TAG_LINK | link->number};
    if (link->writing != writing && link->state != LINK_CLOSED)
        epoll_ctl(e->epoll_fd, EPOLL_CTL_MOD, link->fd, &event);
    link->writing = writing;
}

/* No descriptor is left to accept with: the listener would be readable for ever. */
static void listen_pause(acp_engine *e)
{
    endpoints_watch(e, false);
    e->listen_again = now_ns() + LINGER_NS;
    atomic_fetch_add(&e->handshakes, 1); /* so that somebody looks at the time */
}

static void listen_for_more(acp_engine *e)
{
    endpoints_watch(e, e->pending_handshakes < PENDING_MOST);
}

static void handshake_over(acp_engine *e, struct link *link)
{
    if (!link->handshake)
        return;
    acp_handshake_cancel(link->handshake);
    free(link->handshake);
    link->handshake = NULL;
    atomic_fetch_sub(&e->handshakes, 1);
    if (link->accepted) {
        e->pending_handshakes--;
        listen_for_more(e);
    }
}

static void link_close(acp_engine *e, struct link *link)
{
    if (link->state == LINK_CLOSED)
        return;
    link->state = LINK_CLOSED;
    if (link->held)
        atomic_fetch_sub(&e->held_links, 1);
    link->held = false;
    handshake_over(e, link);
    if (link->fd >= 0)
        close(link->fd);
    for (uint32_t color = 0; link->peer && color < ACP_COLORS; color++)
        if (link->peer->links[color] == link)
            link->peer->links[color] = NULL;
    for (struct op *op = e->tasks; op; op = op->next_task)
        if (op->client_link == link) {
            op->client_link = NULL;
            op->client = NULL; /* nobody to answer */
        }
    atomic_fetch_sub(&e->link_count, 1);
    link->next_dead = e->dead_links; /* a frame of it may be in work: freed later */
    e->dead_links = link;
}

static void bury(acp_engine *e)
{
    while (e->dead_links) {
        struct link *link = e->dead_links;
        e->dead_links = link->next_dead;
        e->links[link->number] = NULL; /* not before: an event for it may still be on its way */
        free(link->out);
        free(link->in);
        free(link);
    }
}

/* Calls the next address of the peer; false: there is none left. */
static bool call_next(acp_engine *e, struct link *link)
{
    struct peer *p = link->peer;
    for (; link->attempt < endpoint_count(e, p); link->attempt++) {
        struct sockaddr_storage s;
        socklen_t size = endpoint_of(e, p, link->color, link->attempt, &s);
        int on = 1, fd = socket(s.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return false;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        link->fd = fd;
        link->writing = true;
        link->state = LINK_CONNECTING;
        link->deadline = now_ns() + HANDSHAKE_NS;
        if ((connect(fd, (struct sockaddr *)&s, size) == 0 || errno == EINPROGRESS) &&
            acp_handshake_client(link->handshake, e->config.secret, e->config.job, ACP_ROLE_LINK,
                                 e->self, p->slot, e->row.nonce) >= 0 &&
            poll_add(e, fd, EPOLLIN | EPOLLOUT, TAG_LINK | link->number) == 0) {
            link->attempt++;
            return true;
        }
        close(fd);
    }
    return false;
}

/* The stream ended or broke. Unless the peer had said that it leaves, it is dead. */
void link_broken(acp_lane *lane, struct link *link)
{
    struct peer *p = link->peer;
    if (link->handshake && !link->accepted && link->fd >= 0) { /* another address may answer */
        close(link->fd);
        link->fd = -1;
        if (call_next(lane->engine, link))
            return;
    }
    bool matters = p && !p->gone && (link->state == LINK_OPEN || !link->accepted);
    link_close(lane->engine, link);
    if (matters)
        peer_mark_lost(lane->engine, p);
}

void links_lost(acp_lane *lane, struct peer *p)
{
    acp_engine *e = lane->engine;
    for (uint32_t i = 0; i < e->link_room; i++)
        if (e->links[i] && e->links[i]->state != LINK_CLOSED && e->links[i]->peer == p)
            link_close(e, e->links[i]);
}

static bool speak(struct link *link)
{
    acp_handshake *hs = link->handshake;
    if (!hs->out_len)
        return true;
    ssize_t n = send(link->fd, hs->out, hs->out_len, MSG_NOSIGNAL);
    bool sent = n == (ssize_t)hs->out_len; /* 76 bytes into an empty socket buffer */
    hs->out_len = 0;
    return sent;
}

/* The link that this process speaks to `p` on, opened if there is none yet. */
struct link *link_to(acp_lane *lane, struct peer *p, uint32_t color)
{
    acp_engine *e = lane->engine;
    if (p->links[color])
        return p->links[color];
    if (p->lost)
        return NULL;
    struct link *link = link_new(e, -1);
    if (!link)
        return NULL;
    link->peer = p;
    link->color = color;
    p->links[color] = link;
    if (call_next(e, link))
        return link;
    link_broken(lane, link);
    return NULL;
}

void link_accept(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    while (e->pending_handshakes < PENDING_MOST) {
        int on = 1, fd = endpoint_accept(e);
        if (fd < 0) {
            if (errno != EAGAIN)
                listen_pause(e);
            return;
        }
        struct link *link = link_new(e, fd);
        if (!link) {
            close(fd);
            return;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        link->accepted = true;
        link->state = LINK_HANDSHAKE;
        link->deadline = now_ns() + HANDSHAKE_NS;
        e->pending_handshakes++;
        if (acp_handshake_server(link->handshake, e->config.secret, e->config.job, e->self) < 0 ||
            poll_add(e, fd, EPOLLIN, TAG_LINK | link->number))
            link_close(e, link);
    }
    listen_for_more(e);
}

/* The table must know who speaks; the nonce tells that process from one before it. */
static bool introduce(acp_engine *e, struct link *link)
{
    acp_handshake *hs = link->handshake;
    if (!link->accepted)
        return true;
    struct peer *p = peer_of_slot(e, hs->peer_slot);
    if (!p || p->row.nonce != hs->peer_nonce || p->lost)
        return false;
    link->peer = p;
    if (!p->links[0])
        p->links[0] = link;
    return true;
}

static void opened(acp_lane *lane, struct link *link)
{
    acp_engine *e = lane->engine;
    handshake_over(e, link);
    link->state = LINK_OPEN;
    if (e->control->phase >= PHASE_LEAVING) {
        struct message m = {.kind = ACP_LEAVING, .from = e->self};
        link_send(lane, link, &m, NULL, 0);
    }
    if (link->state == LINK_OPEN)
        frames_send(lane, link);
}

static void handshake_step(acp_lane *lane, struct link *link)
{
    acp_engine *e = lane->engine;
    ssize_t n = recv(link->fd, e->receive_buffer, IN_BUFFER, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    size_t used = 0;
    int rc = n > 0 ? acp_handshake_feed(link->handshake, e->receive_buffer, (size_t)n, &used)
                   : ACP_HANDSHAKE_REFUSED;
    bool said = speak(link);
    if (rc < 0 || !said || (rc == ACP_HANDSHAKE_DONE && !introduce(e, link))) {
        link_broken(lane, link);
        return;
    }
    if (rc == ACP_HANDSHAKE_MORE)
        return;
    opened(lane, link);
    size_t rest = (size_t)n - used;
    if (rest && link->state == LINK_OPEN) {
        memmove(e->receive_buffer, e->receive_buffer + used, rest);
        frames_parse(lane, link, rest);
    }
}

void link_ready(acp_lane *lane, uint32_t number, uint32_t events)
{
    acp_engine *e = lane->engine;
    struct link *link = number < e->link_room ? e->links[number] : NULL;
    if (!link || link->state == LINK_CLOSED)
        return;
    if (link->state == LINK_CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
        int error = 0;
        socklen_t size = sizeof error;
        getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        link->state = LINK_HANDSHAKE;
        if (error || !speak(link)) {
            link_broken(lane, link);
            return;
        }
        link_want(e, link, false);
    }
    if (link->state == LINK_OPEN && events & EPOLLOUT)
        frames_send(lane, link);
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) {
        if (link->state == LINK_HANDSHAKE)
            handshake_step(lane, link);
        else if (link->state == LINK_OPEN)
            frames_receive(lane, link);
    }
}

bool links_pending(const acp_engine *e)
{
    return atomic_load_explicit(&e->handshakes, memory_order_relaxed) > 0;
}

void links_timeouts(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    uint64_t now = 0;
    bury(e);
    if (e->listen_again && now_ns() >= e->listen_again) {
        e->listen_again = 0;
        atomic_fetch_sub(&e->handshakes, 1);
        listen_for_more(e);
    }
    for (uint32_t i = 0; i < e->link_room; i++) {
        struct link *link = e->links[i];
        if (!link || link->state == LINK_CLOSED || !link->handshake)
            continue;
        if (!now)
            now = now_ns();
        if (now >= link->deadline)
            link_broken(lane, link);
    }
}

/* What is written goes out and what the peers wrote is read, or a reset would destroy their
 * last words; both within a second. */
void links_flush(acp_engine *e)
{
    uint64_t end = now_ns() + LINGER_NS;
    for (uint32_t i = 0; i < e->link_room; i++) {
        struct link *link = e->links[i];
        if (!link || link->state != LINK_OPEN)
            continue;
        while (link->out_sent < link->out_size && now_ns() < end) {
            struct pollfd p = {.fd = link->fd, .events = POLLOUT};
            poll(&p, 1, 10);
            frames_send(&e->lanes[LANE_LEADER], link);
            if (link->state != LINK_OPEN)
                break;
        }
        if (link->state == LINK_OPEN)
            shutdown(link->fd, SHUT_WR);
    }
    for (uint32_t i = 0; i < e->link_room; i++) {
        struct link *link = e->links[i];
        ssize_t n = 1;
        while (link && link->state == LINK_OPEN && n != 0 && now_ns() < end) {
            struct pollfd p = {.fd = link->fd, .events = POLLIN};
            poll(&p, 1, 10);
            n = recv(link->fd, e->receive_buffer, IN_BUFFER, MSG_DONTWAIT);
            if (n < 0 && errno != EAGAIN && errno != EINTR)
                break;
        }
    }
}

void links_close(acp_engine *e)
{
    for (uint32_t i = 0; i < e->link_room; i++)
        if (e->links[i])
            link_close(e, e->links[i]);
    bury(e);
    free(e->links);
    free(e->receive_buffer);
    e->links = NULL;
    e->receive_buffer = NULL;
    e->link_room = 0;
}
