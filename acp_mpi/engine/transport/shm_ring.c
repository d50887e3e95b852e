/* The owner's ring: the inbox of a process in its shared memory, written by its peers on the
 * node. Bytes that only one process can reach cross in bounce chunks of global memory.
 *
 * A writer claims a cell with its own line number in it before it writes. If it dies there,
 * the owner sees whose cell it is and skips it. */
#include "operations/reserve.h"

#include <stdlib.h>
#include <string.h>

#define DRAIN_MOST 64u
#define RESERVE 8u /* entries for answers, beside one for each task, which will have one */

struct backlog {
    struct backlog *next;
    struct message message;
};

static uint64_t cell_state(uint64_t position, uint32_t phase, uint32_t line)
{
    return (position / INBOX_CELLS) << 32 | (uint64_t)phase << 30 | line;
}

/* False: the ring is full, or, after more cells than it has, what stands in it is none. */
static bool push(struct peer *p, const struct message *m)
{
    for (uint32_t cells = 0; cells < 2 * INBOX_CELLS; cells++) {
        uint64_t tail = atomic_load_explicit(&p->doors->tail, memory_order_acquire);
        struct cell *cell = &p->doors->cells[tail % INBOX_CELLS];
        uint64_t state = atomic_load_explicit(&cell->state, memory_order_acquire);
        uint64_t free_now = cell_state(tail, CELL_FREE, 0);
        if (state == free_now) {
            if (!atomic_compare_exchange_strong(&cell->state, &state,
                                                cell_state(tail, CELL_CLAIMED, p->line)))
                continue;
            atomic_compare_exchange_strong(&p->doors->tail, &tail, tail + 1);
            cell->message = *m;
            atomic_store_explicit(&cell->state,
                                  (free_now | (uint64_t)CELL_FULL << 30 | p->line),
                                  memory_order_release);
            return true;
        }
        if ((uint32_t)(state >> 32) < (uint32_t)(free_now >> 32))
            return false; /* a turn behind: not read yet */
        atomic_compare_exchange_strong(&p->doors->tail, &tail, tail + 1);
    }
    return false;
}

static void wake(acp_engine *e, struct peer *p)
{
    atomic_thread_fence(memory_order_seq_cst); /* against the owner's asleep, then look again */
    if (!atomic_load_explicit(&p->control->asleep, memory_order_relaxed))
        return;
    if (e->submits && (!e->to_ring || e->to_ring == p))
        e->to_ring = p;
    else
        door_ring(e, p);
}

void submission_begin(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    e->submits = true;
}

void submission_end(acp_engine *e)
{
    const struct peer *p = e->to_ring;
    e->to_ring = NULL;
    e->submits = false;
    pthread_mutex_unlock(&e->lock);
    if (p)
        door_ring(e, p);
}

bool backlog_provide(acp_engine *e)
{
    while (e->backlog_spare_count < RESERVE + e->task_count) {
        struct backlog *entry = malloc(sizeof *entry);
        if (!entry)
            return false;
        entry->next = e->backlog_spares;
        e->backlog_spares = entry;
        e->backlog_spare_count++;
    }
    return true;
}

static int ring_send(acp_lane *lane, struct peer *to, uint32_t color, const struct message *m)
{
    (void)color;
    acp_engine *e = lane->engine;
    bool closed = m->kind < ACP_REPLY && to->control->phase == PHASE_CLOSED;
    if (to->lost || closed)
        return fail_lost(lane, to, m->src ? m->src : m->dst, m->a);
    if (!to->backlog && push(to, m)) {
        wake(e, to);
        return ACP_OK;
    }
    struct backlog *entry = malloc(sizeof *entry), **at = &to->backlog;
    if (!entry && m->kind >= ACP_REPLY && (entry = e->backlog_spares)) {
        e->backlog_spares = entry->next;
        e->backlog_spare_count--;
    }
    if (!entry)
        return fail(lane, ACP_E_SYSTEM, m->src, m->a);
    *entry = (struct backlog){.message = *m};
    while (*at)
        at = &(*at)->next;
    *at = entry;
    atomic_fetch_add(&e->backlogged, 1);
    progress_kick(e); /* the caller may go on to compute */
    return ACP_OK;
}

/* Messages that found their ring full; true while some remain. */
bool backlog_push(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    if (!e->backlogged)
        return false;
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        bool sent = false;
        while (p->backlog && (p->lost || push(p, &p->backlog->message))) {
            struct backlog *entry = p->backlog;
            p->backlog = entry->next;
            free(entry);
            atomic_fetch_sub(&e->backlogged, 1);
            sent = true;
        }
        if (sent && !p->lost)
            wake(e, p);
    }
    return e->backlogged > 0;
}

void backlog_free(struct peer *p)
{
    while (p->backlog) {
        struct backlog *entry = p->backlog;
        p->backlog = entry->next;
        free(entry);
    }
}

void backlog_close(acp_engine *e)
{
    while (e->backlog_spares) {
        struct backlog *entry = e->backlog_spares;
        e->backlog_spares = entry->next;
        free(entry);
    }
}

static uint32_t head_phase(const acp_engine *e)
{
    if (!atomic_load_explicit(&e->joined, memory_order_acquire))
        return CELL_FREE;
    const struct cell *cell = &e->doors->cells[e->inbox_head % INBOX_CELLS];
    uint64_t state = atomic_load_explicit(&cell->state, memory_order_acquire);
    bool now = state >> 32 == (e->inbox_head / INBOX_CELLS & 0xffffffff);
    return now ? (uint32_t)(state >> 30) & 3 : CELL_FREE;
}

bool inbox_waiting(const acp_engine *e)
{
    return head_phase(e) == CELL_FULL;
}

/* Its writer is about to fill it, and will ring; or has died there, or been stopped. */
bool inbox_claimed(const acp_engine *e)
{
    return head_phase(e) == CELL_CLAIMED;
}

/* Handles what has arrived; true if there was anything. */
bool inbox_drain(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    uint32_t handled = 0;
    if (!e->joined)
        return false; /* who sends is not known yet */
    for (; handled < DRAIN_MOST; handled++) {
        uint64_t head = e->inbox_head;
        struct cell *cell = &e->doors->cells[head % INBOX_CELLS];
        uint64_t state = atomic_load_explicit(&cell->state, memory_order_acquire);
        uint32_t phase = (uint32_t)(state >> 30) & 3, line = (uint32_t)state & 0x3fffffff;
        if (phase == CELL_CLAIMED &&
            (line >= ATTACH_LINES || peer_line_dead(e, e->doors, line))) {
            /* Its writer died in between; or it has filled the cell since, and ended. */
            if (atomic_compare_exchange_strong(&cell->state, &state,
                                               cell_state(head + INBOX_CELLS, CELL_FREE, 0)))
                e->inbox_head = head + 1;
            continue;
        }
        uint32_t turn = (uint32_t)(head / INBOX_CELLS);
        if (unlikely((uint32_t)(state >> 32) != turn || phase > CELL_FULL)) {
            /* No writer leaves it so: something has written over it. Those behind it come through. */
            if (atomic_compare_exchange_strong(&cell->state, &state,
                                               cell_state(head + INBOX_CELLS, CELL_FREE, 0)))
                e->inbox_head = head + 1;
            continue;
        }
        if (phase != CELL_FULL || !provided(e))
            break;
        struct message m = cell->message;
        e->inbox_head = head + 1;
        atomic_store_explicit(&cell->state, cell_state(head + INBOX_CELLS, CELL_FREE, 0),
                              memory_order_release);
        struct peer *from = growth_reaches(e, m.from) ? peer_of_slot(e, m.from) : NULL;
        if (from)
            message_arrived(lane, from, NULL, &m, NULL, 0);
    }
    return handled > 0;
}

static struct bounce *bounce_take(acp_lane *lane, struct op *op, uint64_t at, uint64_t size)
{
    acp_engine *e = lane->engine;
    struct bounce *b = e->bounce_pool;
    if (b) {
        e->bounce_pool = b->next;
    } else {
        void *address;
        b = calloc(1, sizeof *b);
        if (!b || acp_memory_alloc(lane, CHUNK_BYTES, 0, &b->ga, &address) != ACP_OK) {
            free(b);
            return NULL;
        }
        b->data = address;
        e->bounce_count++;
    }
    b->at = at;
    b->size = size;
    b->next = op->bounces;
    op->bounces = b;
    return b;
}

struct bounce *bounce_of(struct op *op, const struct message *reply)
{
    for (struct bounce *b = op->bounces; b; b = b->next)
        if (b->ga == reply->dst || b->ga == reply->src)
            return b;
    return NULL;
}

void bounce_give(acp_engine *e, struct op *op, struct bounce *b)
{
    for (struct bounce **at = &op->bounces; *at; at = &(*at)->next) {
        if (*at == b) {
            *at = b->next;
            break;
        }
    }
    b->next = e->bounce_pool;
    e->bounce_pool = b;
}

static bool ring_room(acp_lane *lane, struct peer *to, uint32_t color)
{
    (void)color;
    return !to->backlog && (lane->engine->bounce_pool ||
                            lane->engine->bounce_count < BOUNCE_CHUNKS);
}

static int ring_part(acp_lane *lane, struct op *op, struct bounce *b, acp_ga_t dst, acp_ga_t src)
{
    struct message m = {.kind = ACP_COPY, .id = op_id(op), .from = lane->engine->self,
                        .dst = dst, .src = src, .a = b->size,
                        .after = op->sent_after ? op->order : 0};
    int rc = ring_send(lane, op->target, 0, &m);
    if (rc != ACP_OK)
        bounce_give(lane->engine, op, b);
    return rc;
}

/* No part is silent here: the answer gives the chunk back. */
static int ring_put(acp_lane *lane, struct op *op, uint64_t at, uint64_t size, bool silent)
{
    (void)silent;
    struct bounce *b = bounce_take(lane, op, at, size);
    if (!b)
        return lane->fault.status;
    int rc = part_read(lane, op, at, size, b->data, NULL);
    if (rc != ACP_OK) {
        bounce_give(lane->engine, op, b);
        return rc;
    }
    return ring_part(lane, op, b, op->command.dst + at, b->ga);
}

static int ring_get(acp_lane *lane, struct op *op, uint64_t at, uint64_t size)
{
    struct bounce *b = bounce_take(lane, op, at, size);
    if (!b)
        return lane->fault.status;
    return ring_part(lane, op, b, b->ga, op->command.src + at);
}

/* Bytes cross in one chunk: those that the method takes, then those that it brings. */
static int ring_call(acp_lane *lane, struct op *op)
{
    const struct acp_call *c = op->call;
    struct message m = call_message(lane, op);
    struct bounce *b = NULL;
    if (c->in_size || c->out_room) {
        if (!(b = bounce_take(lane, op, 0, c->in_size)))
            return lane->fault.status;
        m.dst = b->ga;
        if (c->in_size)
            memcpy(b->data, c->in, c->in_size);
    }
    int rc = ring_send(lane, op->target, 0, &m);
    if (rc != ACP_OK && b)
        bounce_give(lane->engine, op, b);
    return rc;
}

/* After a reset the pool's addresses are dead; its memory goes back. */
void inbox_close(acp_engine *e)
{
    while (e->bounce_pool) {
        struct bounce *b = e->bounce_pool;
        e->bounce_pool = b->next;
        acp_memory_drop(&e->lanes[LANE_CALLER], b->data, CHUNK_BYTES);
        free(b);
        e->bounce_count--;
    }
}

const struct road road_ring = {
    .send = ring_send, .put = ring_put, .get = ring_get, .call = ring_call, .room = ring_room,
    .parts = 8, .group = 1,
};
