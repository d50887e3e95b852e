/* The descriptors that wake this process, and their handlers.
 *
 * All are in an inner epoll set; the progress thread sleeps on an outer set that holds the inner one. A caller that
 * leads takes the inner set out of the outer one, so that events wake it alone. */
#include "progress/reactor.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "messages/flow.h"
#include "mpi_window/target_assist.h"
#include "operations/pending.h"
#include "peers/attach.h"
#include "peers/peer.h"
#include "progress/doorbell.h"
#include "progress/lifeline.h"
#include "progress/progress.h"
#include "transport/connection.h"
#include "transport/connection_input.h"
#include "transport/keepalive.h"
#include "transport/link.h"
#include "transport/listen.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVENTS 32
#define ASK_ALL 4u /* the talker alone is read three times in four */
#define LOOK_NS ((uint64_t)500000000) /* interval of checks for the death of peers without a wake-up */

int poll_add(acp_engine *e, int fd, uint32_t events, uint64_t tag)
{
    struct epoll_event event = {.events = events, .data.u64 = tag};
    return epoll_ctl(e->progress.epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

void timer_until(acp_engine *e, uint64_t when)
{
    struct itimerspec at = {.it_value = {.tv_sec = (time_t)(when / 1000000000),
                                         .tv_nsec = (long)(when % 1000000000)}};
    if (e->progress.timer_at && e->progress.timer_at <= when)
        return;
    e->progress.timer_at = when;
    timerfd_settime(e->progress.timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

void events_arm(acp_engine *e, bool on)
{
    if (e->progress.armed == on)
        return;
    struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.u64 = TAG_INNER};
    if (on)
        e->progress.armed = true; /* before the thread, awake by this call, checks */
    epoll_ctl(e->progress.outer_fd, EPOLL_CTL_MOD, e->progress.epoll_fd, &event);
    if (!on)
        e->progress.armed = false;
}

bool events_await(acp_engine *e)
{
    struct epoll_event event;
    return epoll_wait(e->progress.outer_fd, &event, 1, -1) >= 0 || errno == EINTR;
}

/* For a progress thread that is woken while another thread leads: that one does the work, now or when it stops
 * leading. If it is about to sleep it needs the ring. False: there is more than rings. */
bool events_leave(acp_engine *e)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(e->progress.epoll_fd, events, EVENTS, 0), rings = 0;
    for (int i = 0; i < n; i++)
        rings += events[i].data.u64 == TAG_DOOR;
    if (rings) {
        atomic_store(&e->progress.rung, true);
        progress_event(e);
        if (!atomic_load(&e->progress.armed))
            progress_kick(e);
    }
    return n <= rings;
}

static void dispatch(acp_lane *lane, const struct epoll_event *event)
{
    acp_engine *e = lane->engine;
    uint64_t tag = event->data.u64, count, due, now;
    switch (tag) {
    case TAG_DOOR:
        progress_event(e);
        return;
    case TAG_GIVER:
        giver_serve(e);
        return;
    case TAG_LISTEN:
        wire_accept(lane);
        return;
    case TAG_LIFELINE:
        lifeline_ended(e);
        return;
    case TAG_TIMER:
        while (read(e->progress.timer_fd, &count, sizeof count) > 0)
            continue;
        due = e->progress.timer_at;
        now = now_ns();
        e->progress.timer_at = 0; /* it has rung: later actions set it anew */
        links_tick(lane, due && now > due ? now - due : 0);
        visits_tick(lane);
        if (atomic_load(&e->progress.looking))
            peers_look(e);
        return;
    }
    if (tag & TAG_WIRE) {
        wire_ready(lane, (uint32_t)tag, event->events);
    } else if (tag & TAG_PEER) {
        struct peer *p = peer_of_slot(e, (uint32_t)tag);
        if (p) {
            epoll_ctl(e->progress.epoll_fd, EPOLL_CTL_DEL, p->pidfd, NULL);
            peer_mark_lost(e, p);
        }
    }
}

/* After events. */
static void settle(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    links_bury(e);
    ops_pump(lane);
    if (e->mail.couriers)
        couriers_push(lane);
    if (atomic_load(&e->progress.looking))
        timer_until(e, now_ns() + LOOK_NS);
}

/* Reads the connection that mostly brings the next input at once, which spares a system call on the way of each
 * answer. */
bool events_look(acp_engine *e)
{
    acp_lane *lane = &e->lanes[LANE_LEADER];
    bool interrupted;
    if (!atomic_load_explicit(&e->tcp.talker, memory_order_relaxed) || ++e->progress.looks % ASK_ALL == 0)
        return events_take(e, 0, &interrupted);
    if (e->stopping)
        return false;
    pthread_mutex_lock(&e->lock);
    bool any = talker_ask(lane);
    if (any)
        settle(lane);
    pthread_mutex_unlock(&e->lock);
    return any;
}

bool events_take(acp_engine *e, int64_t timeout_ns, bool *interrupted)
{
    acp_lane *lane = &e->lanes[LANE_LEADER];
    struct epoll_event events[EVENTS];
    int timeout = timeout_ns == ACP_FOREVER ? -1 : (int)((timeout_ns + 999999) / 1000000);
    if (e->stopping)
        return false;
    int n = epoll_wait(e->progress.epoll_fd, events, EVENTS, timeout);
    if (n < 0 && errno == EINTR)
        *interrupted = true;
    if (n <= 0)
        return false;
    pthread_mutex_lock(&e->lock);
    for (int i = 0; i < n; i++)
        dispatch(lane, &events[i]);
    settle(lane);
    pthread_mutex_unlock(&e->lock);
    return true;
}

int events_open(acp_engine *e)
{
    struct epoll_event inner = {.events = EPOLLIN, .data.u64 = TAG_INNER};
    e->progress.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    e->progress.outer_fd = epoll_create1(EPOLL_CLOEXEC);
    e->progress.door_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    e->job.giver_fd = giver_open(e);
    spare_open(e);
    e->progress.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    /* Every ring is an event of its own, so that the count is never read. */
    if (e->progress.epoll_fd < 0 || e->progress.outer_fd < 0 || e->progress.door_fd < 0 || e->job.giver_fd < 0 ||
        e->progress.timer_fd < 0 || endpoints_open(e) != ACP_OK ||
        poll_add(e, e->progress.door_fd, EPOLLIN | EPOLLET, TAG_DOOR) ||
        poll_add(e, e->progress.timer_fd, EPOLLIN, TAG_TIMER) ||
        poll_add(e, e->job.giver_fd, EPOLLIN, TAG_GIVER) ||
        epoll_ctl(e->progress.outer_fd, EPOLL_CTL_ADD, e->progress.epoll_fd, &inner))
        return ACP_E_SYSTEM;
    e->progress.armed = true;
    return ACP_OK;
}

void events_close(acp_engine *e)
{
    int *descriptors[] = {&e->progress.epoll_fd, &e->progress.outer_fd, &e->progress.door_fd,
                          &e->job.giver_fd, &e->progress.timer_fd, &e->progress.spare_fd, &e->progress.lifeline_fd};
    endpoints_close(e);
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++) {
        if (*descriptors[i] >= 0)
            close(*descriptors[i]);
        *descriptors[i] = -1;
    }
}
