/* The end of an engine: peers are told, threads end, addresses die; mappings stay until their last user has let go of
 * them. docs/architecture.md ("Locks, and the end") tells what other threads may do. */
#include "base/linux.h"
#include "channels/channel_notes.h"
#include "close.h"
#include "collectives/background.h"
#include "core/membarrier.h"
#include "core/state/peer.h"
#include "device_copies/op_device.h"
#include "device_copies/op_relay.h"
#include "devices/device_block.h"
#include "devices/device_import.h"
#include "membership/leave.h"
#include "membership/name_service.h"
#include "membership/team.h"
#include "memory/arena.h"
#include "memory/unmap.h"
#include "messages/flows.h"
#include "messages/request.h"
#include "mpi_window/window.h"
#include "operations/notices.h"
#include "operations/op_table.h"
#include "peers/attach.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/progress.h"
#include "progress/reactor.h"
#include "transport/connection.h"
#include "transport/keepalive.h"
#include "transport/link.h"
#include "transport/link_io.h"
#include "transport/listen.h"
#include "transport/shm_ring.h"

#include <stdlib.h>
#include <time.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINGER_NS ((uint64_t)1000000000)

/* Does a living peer still read a ring that had no room? */
static bool is_read(acp_engine *e)
{
    bool any = false;
    for (struct peer *p = NULL; !any && (p = peer_next(e, p));)
        any = p->ring.backlog && p->shm.control->phase != PHASE_CLOSED;
    return any;
}

/* A peer that has not run for a while has a second to read, or it would never learn of the end. */
static void rings_flush(acp_engine *e)
{
    uint64_t end = linux_now_ns() + LINGER_NS;
    struct timespec soon = {.tv_nsec = 1000000};
    while (shm_ring_backlog_push(&e->lanes[LANE_LOCKED]) && is_read(e) && linux_now_ns() < end)
        nanosleep(&soon, NULL);
}

/* The farewell of a broken connection is not repeated: a peer that has this announcement does not miss it. A resting
 * link is resumed for that, unless its peer ends, too. */
static void announce_end(acp_engine *e)
{
    struct message m = newcomers_leaving(e, ENDING);
    pthread_mutex_lock(&e->lock);
    for (struct link *link = e->tcp.links; link; link = link->next)
        if (!link->resting || !link->peer->ending)
            link_io_send(&e->lanes[LANE_LOCKED], link, &m, NULL, 0);
    pthread_mutex_unlock(&e->lock);
}

static void descriptors_close(acp_engine *e)
{
    listen_close(e);
    attach_close(e);
    reactor_close(e);
}

void acp_engine_close(acp_engine *e)
{
    announce_end(e);
    keepalive_await(e);
    if (e->control) { /* else there never was memory, and no peer waits */
        pthread_mutex_lock(&e->lock);
        atomic_store(&e->control->phase, PHASE_CLOSED); /* a process that opens it after that sees it */
        leave_attach(e);
        pthread_mutex_unlock(&e->lock);
    }
    atomic_store(&e->stopping, true);
    if (e->control)
        progress_wake(e); /* threads that wait end with ACP_E_CLOSED */
    progress_join(e);
    membarrier_join(e);
    background_close(e);
    op_device_close(e);
    device_import_close(e);
    pthread_mutex_lock(&e->progress.leader);
    pthread_mutex_lock(&e->lock);
    if (e->job.peers) {
        struct message m = newcomers_leaving(e, FAREWELL);
        notices_send_all(&e->lanes[LANE_LOCKED], &m);
    }
    rings_flush(e);
    links_flush(e);
    links_close(e);
    arena_await(e);
    pthread_mutex_lock(&e->space); /* threads that map or watch peers have this lock, and may ring */
    pthread_mutex_lock(&e->progress.bell);
    if (e->job.peers)
        peers_close(e);
    rank_table_close(e);
    descriptors_close(e);
    pthread_mutex_unlock(&e->progress.bell);
    if (e->control)
        arena_close(e);
    pthread_mutex_unlock(&e->space);
    pthread_mutex_unlock(&e->lock);
    pthread_mutex_unlock(&e->progress.leader);
}

bool acp_engine_closed(const acp_engine *e)
{
    return e->control->phase == PHASE_CLOSED;
}

/* A child keeps mappings, but no descriptor: a link of a dead parent must end. A wait in which a signal handler has
 * forked ends in the child, too. */
void acp_engine_forked(acp_engine *e)
{
    atomic_store(&e->stopping, true);
    pthread_mutex_init(&e->progress.leader, NULL); /* the leader may have been a thread that the child does not have */
    for (uint32_t i = 0; i < e->tcp.wire_room; i++)
        if (e->tcp.wires[i] && e->tcp.wires[i]->fd >= 0)
            close(e->tcp.wires[i]->fd);
    for (uint32_t slot = 0; slot < e->procs; slot++) {
        struct peer **page = e->job.peers[slot / PEER_PAGE];
        struct peer *p = page ? page[slot % PEER_PAGE] : NULL;
        if (!page)
            slot |= PEER_PAGE - 1;
        if (p && p->pidfd >= 0)
            close(p->pidfd);
        if (p && p->shm.fd >= 0)
            close(p->shm.fd);
        if (p && p->shm.door_fd >= 0)
            close(p->shm.door_fd);
    }
    rank_table_close(e);
    descriptors_close(e);
}

void close_destroy(acp_engine *e)
{
    device_block_close(e);
    device_kinds_close(e);
    flows_close(e);
    for (struct peer *p = NULL; (p = peer_next(e, p));)
        shm_ring_backlog_free(p);
    unmap_all(e);
    peers_free(e);
    rank_table_free(e);
    arena_free(e);
    team_close(e);
    name_service_close(e);
    window_free(e);
    op_table_close(e);
    op_relay_close(e);
    requests_close(e);
    channel_notes_end(e);
    pthread_mutex_destroy(&e->space);
    pthread_mutex_destroy(&e->progress.bell);
    pthread_mutex_destroy(&e->lock);
    pthread_mutex_destroy(&e->mail.lock);
    pthread_mutex_destroy(&e->devices.lock);
    pthread_mutex_destroy(&e->devices.opening);
    pthread_mutex_destroy(&e->collectives.lock);
    pthread_mutex_destroy(&e->progress.leader);
    pthread_mutex_destroy(&e->progress.waiters_lock);
    munmap(e, sizeof *e);
}
