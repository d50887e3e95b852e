/* Time on links: deadlines, probes for a sign of life, and the end of peers that have been silent for too long. */
#include "transport/keepalive.h"
#include "base/linux.h"
#include "progress/reactor.h"
#include "progress/wait.h"
#include "transport/connection.h"
#include "transport/link.h"
#include "transport/link_cache.h"
#include "transport/link_io.h"

#define AWAIT_NS ((uint64_t)3000000000)
#define CHECK_NS ((uint64_t)5000000) /* between two resting links that are resumed to see whether their peers live */
#define DOZE_NS ((int64_t)500000)

/* Does this process wait for a frame of the peer? A thread that runs a signal handler in its wait still does. */
static bool expects(const acp_engine *e, const struct link *link)
{
    return link->out.held || link->unanswered || link->guarded || e->progress.callers ||
           layout_doing_threads(e->control);
}

static uint64_t without_wire(acp_lane *lane, struct link *link, uint64_t now)
{
    if (now >= link->lost_at) {
        link_give_up(lane, link);
        return UINT64_MAX;
    }
    if (!link->wire && now >= link->retry_at)
        link_call(lane, link);
    if (link->state == LINK_CLOSED)
        return UINT64_MAX;
    uint64_t due = now + lane->engine->config.peer_timeout_ns / 8;
    due = link->lost_at < due ? link->lost_at : due;
    return link->retry_at > now && link->retry_at < due ? link->retry_at : due;
}

/* The probe's answer also acknowledges. */
static void probe_send(struct link *link, uint64_t now)
{
    struct message m = {.kind = ACP_PROBE};
    if (!link->asked && !link->wire->writing && link_io_send_now(link->wire, &m, link->received))
        link->asked = now;
}

/* Runs a link's due actions and returns the next due time. A peer's silence counts from its probe on: a connection
 * that takes no probe is the network's to end. The time in which this process did not run, `late`, is not silence. */
static uint64_t link_tick(acp_lane *lane, struct link *link, uint64_t now, uint64_t late)
{
    acp_engine *e = lane->engine;
    uint64_t timeout = e->config.peer_timeout_ns;
    link->lost_at += late;
    link->silent_at += late;
    if (link->resting)
        return UINT64_MAX;
    if (link->state == LINK_CALLING)
        return without_wire(lane, link, now);
    if (link->heard >= link->asked || !expects(e, link))
        link->asked = 0;
    if (!expects(e, link))
        return UINT64_MAX;
    if (link->asked) /* maybe in the middle of the probe */
        link->asked = link->asked + late < now ? link->asked + late : now;
    if (link->asked && now - link->asked >= timeout) {
        link_give_up(lane, link);
        return UINT64_MAX;
    }
    if (now - link->heard >= timeout / 8)
        probe_send(link, now);
    return now + timeout / 8;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Ends the connections on which the peer has not named its link in time; the next deadline. */
static uint64_t wires_tick(acp_lane *lane, uint64_t now)
{
    acp_engine *e = lane->engine;
    uint64_t next = connection_tick(e, now);
    for (uint32_t i = 0; i < e->tcp.wire_room; i++) {
        struct wire *wire = e->tcp.wires[i];
        if (!wire || wire->state == WIRE_CLOSED || !wire->deadline)
            continue;
        if (now >= wire->deadline)
            link_broken(lane, wire);
        else if (wire->deadline < next)
            next = wire->deadline;
    }
    return next;
}

/* A resting link has no connection that would end with the peer's process: those whose peers a thread may wait for are
 * resumed now and then, one at a time, the one that has been silent for the longest time first. */
static uint64_t rested_tick(acp_engine *e, uint64_t now)
{
    uint64_t pause = e->config.peer_timeout_ns / 8;
    struct link *oldest = NULL;
    for (struct link *link = e->tcp.cache.resting ? e->tcp.links : NULL; link; link = link->next)
        if (link->resting && expects(e, link) && (!oldest || link->heard < oldest->heard))
            oldest = link;
    if (!oldest)
        return UINT64_MAX;
    uint64_t due = oldest->heard + pause;
    due = due > e->tcp.cache.checked_at + CHECK_NS ? due : e->tcp.cache.checked_at + CHECK_NS;
    if (now < due)
        return due;
    e->tcp.cache.checked_at = now;
    link_wake(e, oldest);
    return now + CHECK_NS;
}

void keepalive_tick(acp_lane *lane, uint64_t late)
{
    acp_engine *e = lane->engine;
    uint64_t now = linux_now_ns(), next = wires_tick(lane, now);
    next = earlier(next, link_cache_tick(e, now));
    next = earlier(next, rested_tick(e, now));
    for (struct link *link = e->tcp.links, *after; link; link = after) {
        after = link->next;
        uint64_t at = link_tick(lane, link, now, late);
        next = earlier(next, at);
    }
    if (next != UINT64_MAX)
        reactor_timer(e, next);
}

void keepalive_watch(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    if (e->tcp.links)
        reactor_timer(e, linux_now_ns() + e->config.peer_timeout_ns / 8);
    pthread_mutex_unlock(&e->lock);
}

/* A link that is lost, or refused, does not count. */
bool keepalive_arrived(acp_engine *e)
{
    bool arrived = true;
    for (struct link *link = e->tcp.links; link; link = link->next) {
        if (!link->out.held)
            continue;
        arrived = false;
        if (link->heard >= link->asked)
            link->asked = 0;
        if (link->state == LINK_OPEN)
            probe_send(link, linux_now_ns());
    }
    return arrived;
}

static bool all_arrived(void *context)
{
    acp_engine *e = context;
    pthread_mutex_lock(&e->lock);
    bool arrived = keepalive_arrived(e);
    pthread_mutex_unlock(&e->lock);
    return arrived;
}

/* Bounded: the last frame may be a mere notice, and to a host that is out of reach. Signals are for later. */
void keepalive_await(acp_engine *e)
{
    uint64_t end = linux_now_ns() + AWAIT_NS;
    link_io_release(e);
    while (!all_arrived(e) && linux_now_ns() < end)
        wait_doze(e, all_arrived, e, DOZE_NS);
}
