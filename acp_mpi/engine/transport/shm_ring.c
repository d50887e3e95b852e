/* The owner's ring: the inbox of a process in its shared memory, written by its peers on the node.
 *
 * A writer claims a cell with its own line number in it before it writes. If it dies there, the owner knows the dead
 * writer from the cell and skips it. */
#include "transport/shm_ring.h"
#include "base/likely.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "core/upcalls.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/peer_liveness.h"
#include "progress/doorbell.h"

#include <stdlib.h>
#include <string.h>

#define DRAIN_MOST 64u
#define NOTES_MOST (INBOX_CELLS / 4) /* that lie in a ring without waking its owner */
#define RESERVE 8u /* entries for answers, beside one for each task, which will have one */

struct backlog {
    struct backlog *next;
    struct message message;
};

static uint64_t cell_state(uint64_t position, uint32_t phase, uint32_t line)
{
    return (position / INBOX_CELLS) << 32 | (uint64_t)phase << 30 | line;
}

/* False: the ring is full, or, after more cells than it has, its contents are damaged. */
static bool push(struct peer *p, const struct message *m)
{
    struct doors *doors = p->shm.doors;
    for (uint32_t cells = 0; cells < 2 * INBOX_CELLS; cells++) {
        uint64_t tail = atomic_load_explicit(&doors->tail, memory_order_acquire);
        struct cell *cell = &doors->cells[tail % INBOX_CELLS];
        uint64_t state = atomic_load_explicit(&cell->state, memory_order_acquire);
        uint64_t free_now = cell_state(tail, CELL_FREE, 0);
        if (state == free_now) {
            if (!atomic_compare_exchange_strong(&cell->state, &state,
                                                cell_state(tail, CELL_CLAIMED, p->shm.line)))
                continue;
            atomic_compare_exchange_strong(&doors->tail, &tail, tail + 1);
            cell->message = *m;
            atomic_store_explicit(&cell->state,
                                  (free_now | (uint64_t)CELL_FULL << 30 | p->shm.line),
                                  memory_order_release);
            return true;
        }
        if ((uint32_t)(state >> 32) < (uint32_t)(free_now >> 32))
            return false; /* a turn behind: not read yet */
        atomic_compare_exchange_strong(&doors->tail, &tail, tail + 1);
    }
    return false;
}

static bool attends(const struct control *owner)
{
    return atomic_load_explicit(&owner->attends, memory_order_relaxed);
}

/* A note of a channel has time until a thread of the owner leads, unless something waits for notes there, or many
 * messages lie in the ring. */
static bool may_lie(const struct peer *owner)
{
    const struct doors *doors = owner->shm.doors;
    uint64_t early = atomic_load_explicit(&doors->tail, memory_order_relaxed) - NOTES_MOST;
    uint64_t state = atomic_load_explicit(&doors->cells[early % INBOX_CELLS].state, memory_order_relaxed);
    bool many = state >= cell_state(early, CELL_FULL, 0) && state < cell_state(early, CELL_FULL, ATTACH_LINES);
    return !many && !attends(owner->shm.control);
}

static void wake(acp_engine *e, struct peer *p, bool by_note)
{
    atomic_thread_fence(memory_order_seq_cst); /* against the owner's asleep or attends, then look again */
    if (!atomic_load_explicit(&p->shm.control->asleep, memory_order_relaxed) || (by_note && may_lie(p)))
        return;
    if (e->shm.submits && (!e->shm.to_ring || e->shm.to_ring == p))
        e->shm.to_ring = p;
    else
        doorbell_ring(e, p);
}

void shm_ring_submit_begin(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->shm.submits = true;
}

void shm_ring_submit_end(acp_engine *e)
{
    const struct peer *p = e->shm.to_ring;
    e->shm.to_ring = NULL;
    e->shm.submits = false;
    pthread_mutex_unlock(&e->lock);
    if (p)
        doorbell_ring(e, p);
}

bool shm_ring_backlog_provide(acp_engine *e)
{
    while (e->shm.backlog_spare_count < RESERVE + e->ops.task_count) {
        struct backlog *entry = malloc(sizeof *entry);
        if (!entry)
            return false;
        entry->next = e->shm.backlog_spares;
        e->shm.backlog_spares = entry;
        e->shm.backlog_spare_count++;
    }
    return true;
}

int shm_ring_send(acp_lane *lane, struct peer *to, uint32_t color, const struct message *m)
{
    (void)color;
    acp_engine *e = lane->engine;
    bool closed = m->kind < ACP_REPLY && to->shm.control->phase == PHASE_CLOSED;
    if (to->lost || closed)
        return peer_liveness_fail(lane, to, m->src ? m->src : m->dst, m->a);
    if (!to->ring.backlog && push(to, m)) {
        wake(e, to, m->kind == ACP_CHANNEL);
        return ACP_OK;
    }
    struct backlog *entry = malloc(sizeof *entry), **at = &to->ring.backlog;
    if (!entry && m->kind >= ACP_REPLY && (entry = e->shm.backlog_spares)) {
        e->shm.backlog_spares = entry->next;
        e->shm.backlog_spare_count--;
    }
    if (!entry)
        return lane_fail(lane, ACP_E_SYSTEM, m->src, m->a);
    *entry = (struct backlog){.message = *m};
    while (*at)
        at = &(*at)->next;
    *at = entry;
    atomic_fetch_add(&e->shm.backlogged, 1);
    doorbell_kick(e); /* the caller may go on to compute */
    return ACP_OK;
}

/* Messages that found their ring full; true while some remain. */
bool shm_ring_backlog_push(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    if (!e->shm.backlogged)
        return false;
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        bool sent = false;
        while (p->ring.backlog && (p->lost || push(p, &p->ring.backlog->message))) {
            struct backlog *entry = p->ring.backlog;
            p->ring.backlog = entry->next;
            free(entry);
            atomic_fetch_sub(&e->shm.backlogged, 1);
            sent = true;
        }
        if (sent && !p->lost)
            wake(e, p, false);
    }
    return e->shm.backlogged > 0;
}

void shm_ring_backlog_free(struct peer *p)
{
    while (p->ring.backlog) {
        struct backlog *entry = p->ring.backlog;
        p->ring.backlog = entry->next;
        free(entry);
    }
}

void shm_ring_backlog_close(acp_engine *e)
{
    while (e->shm.backlog_spares) {
        struct backlog *entry = e->shm.backlog_spares;
        e->shm.backlog_spares = entry->next;
        free(entry);
    }
}

static uint64_t head_of(const acp_engine *e)
{
    return atomic_load_explicit(&e->shm.inbox_head, memory_order_relaxed);
}

static void head_set(acp_engine *e, uint64_t head)
{
    atomic_store_explicit(&e->shm.inbox_head, head, memory_order_relaxed);
}

static uint32_t phase_at(const acp_engine *e, uint64_t at)
{
    if (!atomic_load_explicit(&e->job.joined, memory_order_acquire))
        return CELL_FREE;
    const struct cell *cell = &e->doors->cells[at % INBOX_CELLS];
    uint64_t state = atomic_load_explicit(&cell->state, memory_order_acquire);
    bool now = state >> 32 == (at / INBOX_CELLS & 0xffffffff);
    return now ? (uint32_t)(state >> 30) & 3 : CELL_FREE;
}

bool shm_ring_has_any(const acp_engine *e)
{
    return phase_at(e, head_of(e)) != CELL_FREE;
}

/* The writer of a claimed cell is about to fill it, and will ring; or has died there, or been stopped. */
enum due shm_ring_due(const acp_engine *e)
{
    uint64_t head = head_of(e), at = head;
    uint32_t phase;
    while ((phase = phase_at(e, at)) == CELL_FULL && at - head < NOTES_MOST &&
           e->doors->cells[at % INBOX_CELLS].message.kind == ACP_CHANNEL && !attends(e->control))
        at++;
    return phase == CELL_FULL                             ? DUE_NOW
           : phase == CELL_CLAIMED || e->shm.backlogged ? DUE_SOON
           : at != head                                   ? DUE_AWAKE
                                                          : DUE_NOT;
}

/* Handles the messages in the ring; true if there were any. */
bool shm_ring_drain(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    uint32_t handled = 0;
    if (!e->job.joined)
        return false; /* the sender is not in the table yet */
    for (; handled < DRAIN_MOST; handled++) {
        uint64_t head = head_of(e);
        struct cell *cell = &e->doors->cells[head % INBOX_CELLS];
        uint64_t state = atomic_load_explicit(&cell->state, memory_order_acquire);
        uint32_t phase = (uint32_t)(state >> 30) & 3, line = (uint32_t)state & 0x3fffffff;
        if (phase == CELL_CLAIMED &&
            (line >= ATTACH_LINES || peer_line_dead(e, e->doors, line))) {
            /* Its writer died in between; or it has filled the cell since, and ended. */
            if (atomic_compare_exchange_strong(&cell->state, &state,
                                               cell_state(head + INBOX_CELLS, CELL_FREE, 0)))
                head_set(e, head + 1);
            continue;
        }
        uint32_t turn = (uint32_t)(head / INBOX_CELLS);
        if (unlikely((uint32_t)(state >> 32) != turn || phase > CELL_FULL)) {
            /* No writer leaves it so: something has written over it. Those behind it come through. */
            if (atomic_compare_exchange_strong(&cell->state, &state,
                                               cell_state(head + INBOX_CELLS, CELL_FREE, 0)))
                head_set(e, head + 1);
            continue;
        }
        if (phase != CELL_FULL || !e->up->provided(e))
            break;
        struct message m = cell->message;
        head_set(e, head + 1);
        atomic_store_explicit(&cell->state, cell_state(head + INBOX_CELLS, CELL_FREE, 0),
                              memory_order_release);
        struct peer *from = newcomers_find(e, m.from) ? peer_of_slot(e, m.from) : NULL;
        if (from)
            e->up->arrived(lane, from, NULL, &m, NULL, 0);
    }
    return handled > 0;
}

bool shm_ring_poll(acp_lane *lane)
{
    bool any = shm_ring_drain(lane);
    shm_ring_backlog_push(lane);
    return any;
}

void shm_ring_doubt(acp_engine *e, const struct peer *p)
{
    struct doors *doors = p->shm.doors;
    atomic_fetch_or(&doors->looks, LOOK_RING);
    doorbell_ring(e, p);
}

/* Has a writer passed the cell at the head? It has if it has claimed a later one: `line`, if it has filled one, for it
 * fills each before it claims the next. */
static bool passed(const acp_engine *e, uint64_t head, bool any, uint32_t line)
{
    for (uint64_t at = head + 1; at < head + INBOX_CELLS; at++) {
        uint64_t state = atomic_load(&e->doors->cells[at % INBOX_CELLS].state);
        if (any ? state >= cell_state(at, CELL_CLAIMED, 0) && state < cell_state(at, CELL_FULL, ATTACH_LINES)
                : state == cell_state(at, CELL_FULL, line))
            return true;
    }
    return false;
}

/* A process that is said to have claimed a cell long ago is made to fill another one: a question that names no command
 * has an answer, too. */
static void provoke(acp_lane *lane, uint32_t line)
{
    acp_engine *e = lane->engine;
    uint64_t slot = e->doors->lines[line].holder - 1;
    struct peer *p = newcomers_find(e, slot) ? peer_of_slot(e, (uint32_t)slot) : NULL;
    struct message m = {.kind = ACP_DOUBT, .from = e->self};
    if (p && p != e->job.own && p->shm.doors && !p->ring.backlog)
        shm_ring_send(lane, p, 0, &m);
}

/* Skips the cell at the head, from which nothing can be read, if no writer is about to fill it. A writer that is there
 * after all has changed the state of the cell, or the tail, by the time that this changes them. */
static bool unblock(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    uint64_t tail = atomic_load(&e->doors->tail), head = head_of(e);
    struct cell *cell = &e->doors->cells[head % INBOX_CELLS];
    uint64_t state = atomic_load(&cell->state);
    uint32_t line = (uint32_t)state & 0x3fffffff;
    bool is_free = state == cell_state(head, CELL_FREE, 0);
    if (is_free ? tail == head : state != cell_state(head, CELL_CLAIMED, line) || line >= ATTACH_LINES)
        return false;
    if (passed(e, head, is_free, line) || (!is_free && line == e->job.own->shm.line)) { /* which claims none here */
        bool skips = atomic_compare_exchange_strong(&cell->state, &state, cell_state(head + INBOX_CELLS, CELL_FREE, 0));
        head_set(e, head + skips);
        return skips;
    }
    if (is_free) /* a writer claims a cell before it moves the tail past it */
        atomic_compare_exchange_strong(&e->doors->tail, &tail, head);
    else
        provoke(lane, line);
    return false;
}

void shm_ring_mend(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    if (!(atomic_load(&e->doors->looks) & LOOK_RING))
        return;
    atomic_fetch_and(&e->doors->looks, ~LOOK_RING);
    pthread_mutex_lock(&e->lock);
    do
        shm_ring_drain(lane);
    while (atomic_load(&e->job.joined) && unblock(lane));
    pthread_mutex_unlock(&e->lock);
}
