/* Calls of peers. Handshakes have a number of places, most of them for hosts of the job. A call that finds no descriptor
 * takes that of an idle link; if there is none the peer hears to call later. */
#include "transport/accept.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "peers/attach.h"
#include "peers/peer.h"
#include "transport/connection.h"
#include "transport/link_cache.h"
#include "transport/listen.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PENDING_EACH 32u /* from one address outside the job's hosts */
#define CROWD_NS ((uint64_t)500000000) /* of a handshake, while others wait for its place */
#define CROWD_STRANGER_NS ((uint64_t)100000000) /* of a handshake from an address outside the job's hosts */
#define AT_A_TIME 64u /* connections accepted before open ones get their turn */
#define LISTEN_AGAIN_NS ((uint64_t)1000000000)

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

/* One that finds no descriptor lets an idle link rest. */
static int accept_one(acp_engine *e, uint8_t *source, bool *neighbour)
{
    int fd = listen_accept(e, source, neighbour), error = errno;
    if (fd >= 0 || (error != EMFILE && error != ENFILE))
        return fd;
    if (link_cache_spare(e))
        return listen_accept(e, source, neighbour);
    errno = error;
    return fd;
}

void accept_ready(acp_lane *lane)
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
            connection_listen_later(e, due);
            return;
        }
        int fd = accept_one(e, source, &neighbour);
        if (fd < 0 && errno == EAGAIN)
            return;
        bool spare = fd < 0 && peer_own_shortage(errno);
        if (spare) {
            connection_short_begins(e, errno);
            fd = accept_spare(e, source, &neighbour);
            if (fd < 0 && errno == EAGAIN)
                return; /* nobody calls */
        }
        if (fd >= 0 && !welcome(e, source, neighbour)) {
            close(fd);
            continue;
        }
        if (leaves && e->tcp.pending_handshakes >= PENDING_MOST)
            connection_close(e, leaves);
        if (fd < 0 || !connection_accepted(e, fd, source, neighbour, spare)) {
            /* no descriptor or memory is left: the listener would ring for ever */
            if (fd >= 0)
                close(fd);
            if (fd >= 0 && spare)
                connection_spare_over(e);
            connection_listen_later(e, linux_now_ns() + LISTEN_AGAIN_NS);
            return;
        }
    }
}
