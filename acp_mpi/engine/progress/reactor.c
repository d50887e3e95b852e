/* The descriptors that wake this process, and their handlers.
 *
 * All are in an inner epoll set; the progress thread sleeps on an outer set that holds the inner one. A caller that
 * leads takes the inner set out of the outer one, so that events wake it alone. */
#include "progress/reactor.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/upcalls.h"
#include "progress/doorbell.h"
#include "progress/lifeline.h"
#include "progress/progress.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVENTS 32
#define ASK_ALL 4u /* the talker alone is read three times in four */

/* For the earlier of both times; 0 is none. */
static void timer_set(const acp_engine *e)
{
    uint64_t tick = e->progress.timer_at, flush = atomic_load_explicit(&e->progress.flush_at, memory_order_relaxed);
    uint64_t when = tick - 1 < flush - 1 ? tick : flush;
    struct itimerspec at = {.it_value = {.tv_sec = (time_t)(when / 1000000000),
                                         .tv_nsec = (long)(when % 1000000000)}};
    timerfd_settime(e->progress.timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

void reactor_timer(acp_engine *e, uint64_t when)
{
    if (e->progress.timer_at && e->progress.timer_at <= when)
        return;
    e->progress.timer_at = when;
    timer_set(e);
}

void reactor_flush(acp_engine *e, uint64_t when)
{
    atomic_store_explicit(&e->progress.flush_at, when, memory_order_relaxed);
    timer_set(e);
}

void reactor_arm(acp_engine *e, bool on)
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

bool reactor_await(acp_engine *e)
{
    struct epoll_event event;
    return epoll_wait(e->progress.outer_fd, &event, 1, -1) >= 0 || errno == EINTR;
}

/* For a progress thread that is woken while another thread leads: that one does the work, now or when it stops
 * leading. If it is about to sleep it needs the ring. False: there is more than rings. */
bool reactor_leave(acp_engine *e)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(e->progress.epoll_fd, events, EVENTS, 0), rings = 0;
    for (int i = 0; i < n; i++)
        rings += events[i].data.u64 == TAG_DOOR;
    if (rings) {
        atomic_store(&e->progress.rung, true);
        progress_event(e);
        if (!atomic_load(&e->progress.armed))
            doorbell_kick(e);
    }
    return n <= rings;
}

static void timer_rang(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    struct progress_state *p = &e->progress;
    uint64_t count, due = p->timer_at, flush = atomic_load_explicit(&p->flush_at, memory_order_relaxed), now;
    while (read(p->timer_fd, &count, sizeof count) > 0)
        continue;
    now = linux_now_ns();
    if (flush && now >= flush) {
        atomic_store_explicit(&p->flush_at, 0, memory_order_relaxed);
        e->up->flush(lane);
    }
    if (!due || now < due) {
        timer_set(e);
        return;
    }
    p->timer_at = 0; /* it has rung: later actions set it anew */
    e->up->tick(lane, now - due);
    if (atomic_load_explicit(&p->flush_at, memory_order_relaxed))
        timer_set(e);
}

static void dispatch(acp_lane *lane, const struct epoll_event *event)
{
    acp_engine *e = lane->engine;
    uint64_t tag = event->data.u64;
    switch (tag) {
    case TAG_DOOR:
        progress_event(e);
        return;
    case TAG_GIVER:
        e->up->giver_ready(e);
        return;
    case TAG_LISTEN:
        e->up->listener_ready(lane);
        return;
    case TAG_LIFELINE:
        lifeline_ended(e);
        return;
    case TAG_TIMER:
        timer_rang(lane);
        return;
    }
    if (tag & TAG_WIRE)
        e->up->wire_ready(lane, (uint32_t)tag, event->events);
    else if (tag & TAG_PEER)
        e->up->peer_ended(e, (uint32_t)tag);
}

/* Reads the connection that mostly brings the next input at once, which spares a system call on the way of each
 * answer. */
bool reactor_look(acp_engine *e)
{
    acp_lane *lane = &e->lanes[LANE_LEADER];
    bool interrupted;
    if (!atomic_load_explicit(&e->tcp.talker, memory_order_relaxed) || ++e->progress.looks % ASK_ALL == 0)
        return reactor_take(e, 0, &interrupted);
    if (e->stopping)
        return false;
    pthread_mutex_lock(&e->lock);
    bool any = e->up->talker_ask(lane);
    if (any)
        e->up->settle(lane);
    pthread_mutex_unlock(&e->lock);
    return any;
}

bool reactor_take(acp_engine *e, int64_t timeout_ns, bool *interrupted)
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
    e->up->settle(lane);
    pthread_mutex_unlock(&e->lock);
    return true;
}

int reactor_open(acp_engine *e)
{
    struct epoll_event inner = {.events = EPOLLIN, .data.u64 = TAG_INNER};
    e->progress.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    e->progress.outer_fd = epoll_create1(EPOLL_CLOEXEC);
    e->progress.door_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    e->progress.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    /* Every ring is an event of its own, so that the count is never read. */
    if (e->progress.epoll_fd < 0 || e->progress.outer_fd < 0 || e->progress.door_fd < 0 ||
        e->progress.timer_fd < 0 ||
        reactor_add(e, e->progress.door_fd, EPOLLIN | EPOLLET, TAG_DOOR) ||
        reactor_add(e, e->progress.timer_fd, EPOLLIN, TAG_TIMER) ||
        epoll_ctl(e->progress.outer_fd, EPOLL_CTL_ADD, e->progress.epoll_fd, &inner))
        return ACP_E_SYSTEM;
    e->progress.armed = true;
    return ACP_OK;
}

void reactor_close(acp_engine *e)
{
    int *descriptors[] = {&e->progress.epoll_fd, &e->progress.outer_fd, &e->progress.door_fd,
                          &e->progress.timer_fd, &e->progress.lifeline_fd};
    for (size_t i = 0; i < sizeof descriptors / sizeof *descriptors; i++)
        linux_shut(descriptors[i]);
}
