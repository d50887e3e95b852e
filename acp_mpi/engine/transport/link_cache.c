/* Links are a cache: where more have a connection than may have one the idle ones rest, the least used first. A
 * resting link has no connection; a frame to send, or a call of the peer, resumes it (link.c). link_cache_tick is the
 * entry, called by the leader with the lock held. */
#include "transport/link_cache.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "transport/connection.h"
#include "transport/link.h"
#include "transport/link_io.h"
#include "transport/link_session.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>

#define RESERVED 16u /* descriptors that this process has for other purposes, beside the program's share */
#define LEAST 4u
#define PAUSE_LEAST_NS ((uint64_t)1000000) /* between two looks for idle links, if there was none */
#define PAUSE_LACKING_NS ((uint64_t)16000000)
#define PAUSE_MOST_NS ((uint64_t)1000000000)

/* The program gets as many descriptors as links do. */
void link_cache_limit(acp_engine *e)
{
    struct rlimit files = {0};
    getrlimit(RLIMIT_NOFILE, &files);
    uint64_t share = files.rlim_cur > RESERVED + 2 * LEAST ? (files.rlim_cur - RESERVED) / 2 : LEAST;
    share = e->config.links_open ? e->config.links_open : share;
    e->tcp.cache.open_most = share < UINT32_MAX ? (uint32_t)share : UINT32_MAX;
}

/* Nothing is under way on the link, as far as this process knows. */
static bool is_idle(const struct link *link)
{
    return link->state == LINK_OPEN && link->known && link->received >= link->expected && !link->out.held &&
           !link->unanswered && !link->done.count && !link->corked && !link->peer->gone && !link->wire->writing &&
           !link->wire->fasts && !link->wire->in;
}

static bool has_input(const struct link *link)
{
    char byte;
    return recv(link->wire->fd, &byte, sizeof byte, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

/* The idle link of before `now` that has been silent for the longest time. Unread input counts as heard now. */
static struct link *least_used(acp_engine *e, uint64_t now)
{
    for (;;) {
        struct link *oldest = NULL;
        for (struct link *link = e->tcp.links; link; link = link->next)
            if (is_idle(link) && link->heard < now && (!oldest || link->heard < oldest->heard))
                oldest = link;
        if (!oldest || !has_input(oldest))
            return oldest;
        oldest->heard = now;
    }
}

/* The last frame of a link is not acknowledged before that is asked for. */
static void ask(acp_engine *e)
{
    struct message m = {.kind = ACP_PROBE};
    for (struct link *link = e->tcp.links; link; link = link->next)
        if (link->state == LINK_OPEN && link->out.held && !link->out.unsent && !link->wire->writing)
            link_io_send_now(link->wire, &m, link->received);
}

bool link_cache_spare(acp_engine *e)
{
    struct link *link = least_used(e, linux_now_ns());
    if (!link || !link_session_rest(link)) {
        ask(e);
        return false;
    }
    e->tcp.cache.rested++;
    link_rest(e, link);
    return true;
}

static bool lacks(const struct link *link)
{
    return !link->wire && (link->shortage == EMFILE || link->shortage == ENFILE);
}

/* Links without a descriptor call again as soon as one is free for each. */
static bool serve(acp_engine *e, uint64_t now)
{
    for (struct link *link = e->tcp.links; link; link = link->next) {
        if (!lacks(link) || link->retry_at <= now)
            continue;
        if (!link_cache_spare(e))
            return false;
        link->retry_at = now;
    }
    return true;
}

static bool shrink(acp_engine *e)
{
    uint32_t count = 0;
    for (const struct link *link = e->tcp.links; link; link = link->next)
        count += link->wire != NULL;
    for (; count > e->tcp.cache.open_most; count--)
        if (!link_cache_spare(e))
            return false;
    return true;
}

uint64_t link_cache_tick(acp_engine *e, uint64_t now)
{
    struct link_cache *c = &e->tcp.cache;
    if (!c->lacking && e->tcp.wire_count <= c->open_most)
        return UINT64_MAX;
    if (now < c->spare_at)
        return c->spare_at;
    bool served = !c->lacking || serve(e, now), shrunk = served && shrink(e);
    c->lacking = !served;
    if (shrunk) {
        c->spare_at = c->pause = 0;
        return UINT64_MAX;
    }
    uint64_t most = served ? PAUSE_MOST_NS : PAUSE_LACKING_NS;
    c->pause = c->pause ? 2 * c->pause : PAUSE_LEAST_NS;
    c->pause = c->pause < most ? c->pause : most;
    c->spare_at = now + c->pause;
    return c->spare_at;
}
