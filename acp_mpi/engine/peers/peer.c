/* The other processes of the job as this one knows them: only peers it has talked to have a structure; memory of a
 * process of the node is mapped when it is first used. */
#include "peers/peer.h"
#include "base/likely.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "peers/attach.h"
#include "peers/newcomers.h"
#include "peers/rank_table.h"
#include "progress/doorbell.h"
#include "progress/reactor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#define ATTACH_AGAIN_NS ((uint64_t)500000000)
/* Time after which a rank in finalize counts as one that does not come, where nothing better is known: whether it has
 * passed a barrier over a list, what it still has to send while a receiver has no room or a collective runs on, or
 * whether the notice of a loss comes behind that of its end. */
#define PASSED_NS ((uint64_t)3000000000)

int peers_join(acp_engine *e, uint32_t count, uint32_t own_slot)
{
    uint32_t before = e->procs;
    if (count > ACP_RANKS_MAX - before)
        return ACP_E_ARGUMENT;
    uint32_t procs = before + count;
    pthread_mutex_lock(&e->space);
    uint32_t pages = (procs + PEER_PAGE - 1) / PEER_PAGE;
    struct peer ***index = realloc(e->job.peers, pages * sizeof *index);
    if (!index) {
        pthread_mutex_unlock(&e->space);
        return ACP_E_SYSTEM;
    }
    uint32_t had = (before + PEER_PAGE - 1) / PEER_PAGE;
    memset(index + had, 0, (pages - had) * sizeof *index);
    e->job.peers = index;
    e->procs = procs;
    pthread_mutex_unlock(&e->space);
    if (!e->job.own) {
        struct peer *own = peer_of_slot(e, own_slot);
        if (!own)
            return ACP_E_SYSTEM;
        own->shm.control = e->control;
        own->shm.doors = e->doors;
        own->shm.span = e->memory.span;
        own->shm.opened = OPENED_SELF;
        own->shm.line = 0;
        own->relation = RELATION_SELF;
        e->self = e->rank = own_slot;
        e->job.own = own;
        if (!e->job.founders) /* not told with which members: with all */
            acp_engine_joined(e, 0, procs, procs);
        newcomers_publish_table(e);
        atomic_store(&e->job.joined, true); /* from now on messages are read */
        doorbell_kick(e);
    }
    return ACP_OK;
}

struct peer *peer_of_slot(acp_engine *e, uint32_t slot)
{
    struct peer *p = NULL;
    pthread_mutex_lock(&e->space);
    if (slot < e->procs) {
        struct peer ***page = &e->job.peers[slot / PEER_PAGE];
        if (!*page)
            *page = calloc(PEER_PAGE, sizeof **page);
        if (*page && !(p = (*page)[slot % PEER_PAGE]) && (p = calloc(1, sizeof *p))) {
            p->row = rank_table_row(e, slot);
            p->slot = slot;
            p->shm.fd = p->pidfd = p->shm.door_fd = -1;
            p->lost = e->job.outcast;
            (*page)[slot % PEER_PAGE] = p;
        }
    }
    pthread_mutex_unlock(&e->space);
    return p;
}

struct peer *peer_known(acp_engine *e, uint32_t slot)
{
    struct peer *p = NULL;
    pthread_mutex_lock(&e->space);
    if (slot < e->procs && e->job.peers[slot / PEER_PAGE])
        p = e->job.peers[slot / PEER_PAGE][slot % PEER_PAGE];
    pthread_mutex_unlock(&e->space);
    return p;
}

struct peer *peer_next(acp_engine *e, struct peer *after)
{
    struct peer *found = NULL;
    pthread_mutex_lock(&e->space);
    for (uint32_t slot = after ? after->slot + 1 : 0; slot < e->procs && !found; slot++) {
        struct peer **page = e->job.peers[slot / PEER_PAGE];
        if (page)
            found = page[slot % PEER_PAGE];
        else
            slot |= PEER_PAGE - 1;
    }
    pthread_mutex_unlock(&e->space);
    return found;
}

/* The death of a peer outside `everybody` counts as a loss only if we have used it, that of a service never. A peer that
 * ends in order announces that only to ranks it is in touch with itself; its control page has the fact, too. */
static bool is_missed(const acp_engine *e, const struct peer *p)
{
    bool used = p->relation == RELATION_NODE || p->met;
    return !p->left && !(p->row.flags & ROW_SERVICE) &&
           (span_has(e->job.everybody, p->slot) || (used && !peer_left(p)));
}

void peer_mark_lost(acp_engine *e, struct peer *p)
{
    pthread_mutex_lock(&e->space);
    bool news = p != e->job.own && !p->lost;
    if (news) {
        p->missed = is_missed(e, p);
        atomic_store(&p->lost, 1);
        atomic_fetch_add(&e->job.departed, 1);
        atomic_fetch_add(&e->job.losses, p->missed);
        atomic_fetch_add(&e->job.loss_news, 1);
    }
    pthread_mutex_unlock(&e->space);
    if (news)
        doorbell_kick(e);
}

void peer_said_lost(acp_engine *e, struct peer *p)
{
    if (p == e->job.own)
        peers_cast_out(e);
    else if (p->row.node != e->config.node || peers_apart(e) || !linux_process_lives(p->row.pid, p->row.start_time))
        peer_mark_lost(e, p); /* at once: the caller may accept the loss next */
    else
        peer_watch(e, p); /* this process can see for itself */
}

bool peer_left(const struct peer *p)
{
    /* The peer may have ended before its announcement was read. */
    return p->left || (p->relation == RELATION_NODE && p->shm.control->phase == PHASE_CLOSED);
}

bool peer_leaves(const struct peer *p)
{
    uint64_t since = p->leaving;
    return since && linux_now_ns() - since > PASSED_NS;
}

int peer_gone(const acp_engine *e, const struct peer *p)
{
    if (p->lost)
        return ACP_E_LOST;
    if ((!p->said_all || e->mail.late) && !peer_leaves(p))
        return ACP_OK;
    return p->left ? ACP_E_LOST : ACP_E_FINALIZING;
}

/* The other members treat this process as dead: it must not touch them any more. */
void peers_cast_out(acp_engine *e)
{
    atomic_store(&e->job.outcast, true);
    for (struct peer *p = NULL; (p = peer_next(e, p));)
        peer_mark_lost(e, p);
}

void peer_said_leaving(acp_engine *e, struct peer *p)
{
    if (p->leaving)
        return;
    p->leaving = linux_now_ns();
    atomic_fetch_add(&e->job.leavers, 1);
}

bool peer_vm_refused(struct peer *p, int error)
{
    bool refused = error == EPERM || error == ENOSYS || error == EACCES;
    if (refused)
        p->shm.vm_refused = 1;
    return refused;
}

void peer_must_look(acp_engine *e, const struct peer *p, uint32_t at)
{
    atomic_fetch_or(&p->shm.doors->looks, at);
    doorbell_ring(e, p);
}

/* While the mark of this process is there the leader of the peer has been rung, or looks before it sleeps. The mark of
 * another process does not spare a ring: that process may die, or be stopped, before it rings. */
void peer_channel_changed(acp_engine *e, const struct peer *p)
{
    uint32_t mark = e->self + 1;
    if (atomic_exchange(&p->shm.doors->channels, mark) == mark)
        return;
    doorbell_wake(p->shm.doors);
    if (atomic_load(&p->shm.control->asleep))
        doorbell_ring(e, p);
}

bool peer_own_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

/* Registers for the death of a process of this machine, whether or not its memory is in use. */
void peer_watch(acp_engine *e, struct peer *p)
{
    pthread_mutex_lock(&e->space);
    bool watch = !p->watched && p != e->job.own && p->row.node == e->config.node &&
                 !peers_apart(e) && !p->lost && !e->stopping;
    if (watch) {
        p->watched = true;
        p->pidfd = linux_pidfd_open(p->row.pid);
        /* The number may have gone to another process since. */
        if (!linux_process_lives(p->row.pid, p->row.start_time)) {
            peer_mark_lost(e, p);
        } else if (p->pidfd < 0 || reactor_add(e, p->pidfd, EPOLLIN, TAG_PEER | p->slot)) {
            p->looked_at = true;
            atomic_store(&e->job.looking, true);
            doorbell_kick(e);
        }
    }
    pthread_mutex_unlock(&e->space);
}

/* Claims a line of flags in the doors of the peer; false: none is free. */
static bool claim_line(acp_engine *e, struct peer *p)
{
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < ATTACH_LINES; i++) {
            struct attach_line *l = &p->shm.doors->lines[i];
            uint64_t holder = l->holder;
            if (holder && (round == 0 || !peer_line_dead(e, p->shm.doors, i)))
                continue;
            /* Until the line is filled in, its holder is known by its process id alone. */
            if (!atomic_compare_exchange_strong(&l->holder, &holder, CLAIMING | e->row.pid))
                continue;
            for (uint32_t flag = 0; flag < BUSY_FLAGS; flag++)
                l->busy[flag] &= ~1u;
            l->start_time = e->row.start_time;
            l->pid = e->row.pid;
            l->nonce = e->row.nonce;
            l->table_fd = e->job.table.fd;
            l->table_nonce = e->job.table.head->nonce;
            l->holder = e->self + 1;
            p->shm.line = i;
            return true;
        }
    }
    return false;
}

/* With the bell's lock: other threads may ring. */
static void shut_all(struct peer *p)
{
    linux_shut(&p->pidfd);
    linux_shut(&p->shm.fd);
    linux_shut(&p->shm.door_fd);
}

void peers_close(acp_engine *e)
{
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        if (p->shm.doors && p->relation == RELATION_NODE)
            p->shm.doors->lines[p->shm.line].holder = 0;
        shut_all(p);
    }
}

void peers_free(acp_engine *e)
{
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        attach_unmap(e, p);
        free(p->ops.chain_failures);
    }
    for (uint32_t page = 0; page * PEER_PAGE < e->procs; page++) {
        for (uint32_t i = 0; e->job.peers[page] && i < PEER_PAGE; i++)
            free(e->job.peers[page][i]);
        free(e->job.peers[page]);
    }
    free(e->job.peers);
    free(e->job.ends);
    e->job.peers = NULL;
    e->procs = 0;
}

bool peer_line_dead(acp_engine *e, struct doors *doors, uint32_t line)
{
    struct attach_line *l = &doors->lines[line];
    uint64_t holder = l->holder;
    uint32_t pid = holder & CLAIMING ? (uint32_t)holder : l->pid;
    if (!holder)
        return true;
    if (holder & CLAIMING && pid != e->row.pid) {
        bool dead;
        linux_start_time(pid, &dead);
        return dead;
    }
    if (pid == 0 || pid == e->row.pid)
        return false;
    return !linux_process_lives(pid, l->start_time);
}

/* May this process read the peer's private memory, and is it that process's? */
static bool vm_allowed(const struct peer *p)
{
    uint64_t magic = 0;
    struct iovec here = {&magic, sizeof magic};
    struct iovec there = {(void *)(uintptr_t)p->shm.control->base, sizeof magic};
    return p->shm.control->ptracer &&
           process_vm_readv((pid_t)p->row.pid, &here, 1, &there, 1, 0) == sizeof magic &&
           magic == LAYOUT_MAGIC;
}

/* Once closing has begun no peer is attached any more, for nothing would close its memory: a peer not used before is
 * out of reach. A peer that has left is out of reach, too, for another process may get its abstract name. */
int peer_attach(acp_engine *e, struct peer *p)
{
    uint32_t relation = atomic_load_explicit(&p->relation, memory_order_acquire);
    if (likely(relation != RELATION_UNKNOWN))
        return (int)relation;
    if (p->row.node != e->config.node || peers_apart(e)) {
        atomic_store(&p->relation, RELATION_REMOTE);
        return RELATION_REMOTE;
    }
    peer_watch(e, p);
    pthread_mutex_lock(&e->space);
    relation = p->relation;
    if (relation == RELATION_UNKNOWN && (e->stopping || p->gone || (p->left && !p->alone))) {
        relation = RELATION_REMOTE;
    } else if (relation == RELATION_UNKNOWN && !p->lost && linux_now_ns() >= p->shm.attach_at) {
        uint8_t opened = OPENED_NOT;
        bool later = false; /* until then it is as if it were on another node */
        int rc = attach_open(e, p, &opened, &later);
        relation = RELATION_REMOTE;
        if (later) {
            p->shm.attach_at = linux_now_ns() + ATTACH_AGAIN_NS;
        } else if (rc == ACP_OK && claim_line(e, p)) {
            p->shm.opened = opened;
            p->shm.vm_refused = !vm_allowed(p);
            relation = RELATION_NODE;
        } else if (rc == ACP_E_LOST) {
            relation = RELATION_UNKNOWN;
            peer_mark_lost(e, p);
        }
        if (!later)
            atomic_store_explicit(&p->relation, relation, memory_order_release);
        bool stays = p->left || !span_has(e->job.joined_with, p->slot); /* does this process, without it? */
        if (stays && relation == RELATION_NODE && p->shm.control->phase == PHASE_CLOSED) {
            p->left = true; /* its last look for mates to tell may have been before */
            peer_mark_lost(e, p);
        }
    } else if (relation == RELATION_UNKNOWN && !p->lost) {
        relation = RELATION_REMOTE;
    }
    pthread_mutex_unlock(&e->space);
    return (int)relation;
}

void peer_detach(acp_engine *e, struct peer *p)
{
    pthread_mutex_lock(&e->progress.bell);
    shut_all(p);
    pthread_mutex_unlock(&e->progress.bell);
    p->left = peer_left(p); /* its memory cannot tell that any more */
    attach_unmap(e, p);
    atomic_store(&p->relation, RELATION_UNKNOWN);
}
