/* Changes in a section that survive the death of who makes them. */
#include "section.h"

#include "heap.h"
#include "meeting.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SECTION_LINES 4u /* that change with each call: the lock, the journal, what is guarded */

#ifdef ACP_FAULTS
__attribute__((weak)) void fault_point(void) {}
#endif

static unsigned char *place(const struct hold *h, uint64_t offset)
{
    return h->heap->base + offset;
}

static bool inside(const struct hold *h, uint64_t offset, uint64_t size)
{
    return size <= h->heap->span && offset <= h->heap->span - size;
}

/* The chunk of a move that is the n-th to go: the last one first if it goes upwards. */
static uint64_t chunk(const struct section *s, uint64_t n, uint64_t *size)
{
    uint64_t whole = s->moving.size, done = n * SECTION_SCRATCH, left = whole - done;
    *size = left < SECTION_SCRATCH ? left : SECTION_SCRATCH;
    return s->moving.to > s->moving.from ? left - *size : done;
}

static void copy(void *to, const void *from, uint64_t size)
{
    fault_point();
    memcpy(to, from, size);
    atomic_signal_fence(memory_order_seq_cst);
}

static bool movable(const struct hold *h)
{
    const struct section *s = h->section;
    uint64_t chunks = (s->moving.size + SECTION_SCRATCH - 1) / SECTION_SCRATCH;
    return inside(h, s->moving.to, s->moving.size) && inside(h, s->moving.from, s->moving.size) &&
           s->moving.step <= 2 * chunks;
}

static void move_on(const struct hold *h)
{
    struct section *s = h->section;
    uint64_t chunks = (s->moving.size + SECTION_SCRATCH - 1) / SECTION_SCRATCH, size;
    while (s->moving.step < 2 * chunks) {
        uint64_t at = chunk(s, s->moving.step / 2, &size);
        if (s->moving.step % 2 == 0) {
            copy(s->scratch, place(h, s->moving.from + at), size);
            store(&s->moving.step, s->moving.step + 1);
        }
        copy(place(h, s->moving.to + at), s->scratch, size);
        store(&s->moving.step, s->moving.step + 1);
    }
}

/* Each chunk has overwritten only its own source, that of chunks which went before it, and what
 * nobody needs. */
static void move_back(const struct hold *h)
{
    struct section *s = h->section;
    uint64_t size;
    while (s->moving.step) {
        uint64_t at = chunk(s, (s->moving.step - 1) / 2, &size);
        if (s->moving.step % 2)
            copy(place(h, s->moving.from + at), s->scratch, size);
        else
            copy(s->scratch, place(h, s->moving.to + at), size);
        store(&s->moving.step, s->moving.step - 1);
    }
}

static int give_all(struct hold *h, uint64_t blocks[SECTION_BLOCKS])
{
    for (uint32_t i = 0; i < SECTION_BLOCKS; i++) {
        if (!blocks[i])
            continue;
        int rc = heap_give(h->lane, h->heap, &blocks[i], HEAP_PATIENCE_NS);
        if (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED)
            return rc;
        store(&blocks[i], 0); /* it was no block: nothing that can be given back */
    }
    return ACP_OK;
}

static void end(struct hold *h)
{
    store(&h->section->state, SECTION_IDLE);
    store(&h->section->version, h->section->version + 1);
}

/* It has happened: what is left of it to do. */
static int finish(struct hold *h)
{
    struct section *s = h->section;
    if (s->moving.kind == MOVING_LATER && movable(h))
        move_on(h);
    store(&s->moving.kind, MOVING_NOTHING);
    for (uint32_t i = 0; i < SECTION_BLOCKS; i++)
        store(&s->fresh[i], 0);
    int rc = give_all(h, s->stale);
    if (rc == ACP_OK)
        end(h);
    return rc;
}

static int take_back(struct hold *h)
{
    struct section *s = h->section;
    for (uint64_t i = s->count < SECTION_WORDS ? s->count : SECTION_WORDS; i-- > 0;)
        if (inside(h, s->journal[i].at, 8) && s->journal[i].at % 8 == 0)
            store((uint64_t *)(void *)place(h, s->journal[i].at), s->journal[i].old);
    if (s->moving.kind == MOVING_NOW && movable(h))
        move_back(h);
    store(&s->moving.kind, MOVING_NOTHING);
    for (uint32_t i = 0; i < SECTION_BLOCKS; i++)
        store(&s->stale[i], 0);
    int rc = give_all(h, s->fresh);
    if (rc == ACP_OK)
        end(h);
    return rc;
}

/* A change of the heap that was left half-way may be that of a word here: first things first. */
static int mend_heap(struct hold *h)
{
    struct hold heap;
    struct section *s = &h->heap->head->section;
    int rc = h->section == s ? ACP_OK
                             : section_enter(&heap, h->lane, s, h->heap, HEAP_PATIENCE_NS);
    if (rc == ACP_OK && h->section != s)
        section_leave(&heap);
    return rc;
}

static int recover(struct hold *h)
{
    struct section *s = h->section;
    int rc = mend_heap(h);
    if (rc != ACP_OK)
        return rc;
    if (s->state == SECTION_COMMITTED)
        return finish(h);
    if (s->state == SECTION_CHANGING)
        return take_back(h);
    end(h);
    return ACP_OK;
}

int section_enter(struct hold *h, acp_lane *lane, struct section *s, struct heap *heap,
                  int64_t patience_ns)
{
    *h = (struct hold){.lane = lane, .section = s, .heap = heap, .base = heap->base,
                       .last = heap->span - 8};
    uint64_t self = lane->engine->row.pid;
    if (s->patient) {
        if (unlikely(__atomic_load_n(&s->holder, __ATOMIC_RELAXED) != self))
            meeting(lane, &s->version, SECTION_LINES);
        visit(lane, &s->version);
    }
    int rc = pthread_mutex_trylock(&s->mutex);
    if (unlikely(rc == EBUSY))
        rc = section_lock(lane, s, patience_ns);
    if (unlikely(rc == EOWNERDEAD)) /* the version tells whether anything was left half-way */
        rc = pthread_mutex_consistent(&s->mutex);
    if (unlikely(rc)) {
        int status = rc == EBUSY || rc == ETIMEDOUT ? ACP_E_BUSY
                     : rc == EINTR                  ? ACP_E_INTERRUPTED
                                                    : ACP_E_SYSTEM;
        if (rc == ETIMEDOUT && patience_ns == ACP_FOREVER)
            status = ACP_E_CLOSED;
        lane->fault = (acp_fault){.status = status, .error = rc,
                                  .size = __atomic_load_n(&s->holder, __ATOMIC_RELAXED)};
        return status;
    }
    __atomic_store_n(&s->holder, self, __ATOMIC_RELAXED);
    if (unlikely(s->version & 1) && (rc = recover(h)) != ACP_OK)
        section_leave(h);
    return rc;
}

void section_leave(struct hold *h)
{
    bool tidy = h->blocks && h->section != &h->heap->head->sweeper && heap_untidy(h->heap);
    pthread_mutex_unlock(&h->section->mutex);
    if (unlikely(tidy)) {
        acp_fault why = h->lane->fault; /* the caller may have failed, and that others sweep is not why */
        heap_sweep(h->lane, h->heap, false, HEAP_PATIENCE_NS);
        h->lane->fault = why;
    }
}

/* What the change before could not give back, because the heap was busy, is given back before the
 * next one needs the places in which it is written down. */
void section_settle(struct hold *h)
{
    int rc;
    do
        sched_yield();
    while ((rc = recover(h)) == ACP_E_BUSY || rc == ACP_E_INTERRUPTED);
}

void section_begin(struct hold *h)
{
    struct section *s = h->section;
    if (unlikely(s->version & 1))
        section_settle(h);
    h->blocks = false;
    h->count = 0;
    s->count = 0;
    store(&s->version, s->version + 1);
    store(&s->state, SECTION_CHANGING);
    atomic_thread_fence(memory_order_release); /* readers see the version before the rest */
}

void section_commit(struct hold *h)
{
    if (unlikely(h->blocks)) {
        store(&h->section->state, SECTION_COMMITTED);
        finish(h); /* busy: the next one to enter does it */
    } else {
        end(h);
    }
}

void section_cancel(struct hold *h)
{
    acp_fault why = h->lane->fault;
    take_back(h);
    h->lane->fault = why;
}

static uint64_t *free_slot(struct hold *h, uint64_t blocks[SECTION_BLOCKS])
{
    uint32_t i = 0;
    while (i < SECTION_BLOCKS && blocks[i])
        i++;
    if (i == SECTION_BLOCKS)
        abort();
    h->blocks = true;
    return &blocks[i];
}

int section_take(struct hold *h, uint64_t size, uint64_t *block)
{
    uint64_t *slot = free_slot(h, h->section->fresh);
    int rc = heap_take(h->lane, h->heap, size, slot, HEAP_PATIENCE_NS);
    *block = *slot;
    return rc;
}

void section_drop(struct hold *h, uint64_t block)
{
    store(free_slot(h, h->section->stale), block);
}

static void moving(struct hold *h, uint64_t to, uint64_t from, uint64_t size, uint64_t kind)
{
    struct section *s = h->section;
    if (!inside(h, to, size) || !inside(h, from, size) || s->moving.kind)
        abort();
    h->blocks = true;
    s->moving.to = to;
    s->moving.from = from;
    s->moving.size = size;
    store(&s->moving.step, 0);
    store(&s->moving.kind, kind);
}

void section_shift(struct hold *h, uint64_t to, uint64_t from, uint64_t size)
{
    moving(h, to, from, size, MOVING_NOW);
    move_on(h);
}

void section_move(struct hold *h, uint64_t to, uint64_t from, uint64_t size)
{
    moving(h, to, from, size, MOVING_LATER);
}
