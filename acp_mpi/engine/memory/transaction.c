/* Transactions in shared memory: changes in a section that survive the death of their process. */
#include "memory/transaction.h"
#include "base/word.h"
#include "core/backoff.h"
#include "core/engine_state.h"
#include "memory/heap.h"
#include "memory/heap_pages.h"
#include "memory/transaction_lock.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#define SECTION_LINES 4u /* lines that change with each call: the lock, the journal, the guarded words */

#ifdef ACP_FAULTS
__attribute__((weak)) void transaction_fault_point(void) {}
#endif

static unsigned char *stored_at(const struct hold *h, uint64_t offset)
{
    return h->heap->base + offset;
}

static bool inside(const struct hold *h, uint64_t offset, uint64_t size)
{
    return size <= h->heap->span && offset <= h->heap->span - size;
}

/* Of a move, as it was when it was looked at: others may write over it. */
struct path {
    uint64_t to, from, size, chunks;
};

/* The chunk of a move that is the n-th to go: the last one first if it goes upwards. */
static uint64_t chunk(const struct path *p, uint64_t n, uint64_t *size)
{
    uint64_t done = n * SECTION_SCRATCH, left = p->size - done;
    *size = left < SECTION_SCRATCH ? left : SECTION_SCRATCH;
    return p->to > p->from ? left - *size : done;
}

static void store_copy(void *to, const void *from, uint64_t size)
{
    transaction_fault_point();
    memcpy(to, from, size);
    atomic_signal_fence(memory_order_seq_cst);
}

static bool movable(const struct hold *h, struct path *p)
{
    const struct section *s = h->section;
    *p = (struct path){word_load(&s->moving.to), word_load(&s->moving.from), word_load(&s->moving.size), 0};
    p->chunks = (p->size + SECTION_SCRATCH - 1) / SECTION_SCRATCH;
    return inside(h, p->to, p->size) && inside(h, p->from, p->size);
}

static void move_on(const struct hold *h, const struct path *p)
{
    struct section *s = h->section;
    for (uint64_t step, size; (step = word_load(&s->moving.step)) < 2 * p->chunks;) {
        uint64_t at = chunk(p, step / 2, &size);
        if (step % 2 == 0) {
            store_copy(s->scratch, stored_at(h, p->from + at), size);
            transaction_store(&s->moving.step, ++step);
        }
        store_copy(stored_at(h, p->to + at), s->scratch, size);
        transaction_store(&s->moving.step, step + 1);
    }
}

/* Each chunk has overwritten only its own source, the source of chunks that went before it, and bytes that are not
 * needed any more. */
static void move_back(const struct hold *h, const struct path *p)
{
    struct section *s = h->section;
    for (uint64_t step, size; (step = word_load(&s->moving.step)) && step <= 2 * p->chunks;) {
        uint64_t at = chunk(p, (step - 1) / 2, &size);
        if (step % 2)
            store_copy(stored_at(h, p->from + at), s->scratch, size);
        else
            store_copy(s->scratch, stored_at(h, p->to + at), size);
        transaction_store(&s->moving.step, step - 1);
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
        transaction_store(&blocks[i], 0); /* the word did not name a block: nothing can be given back */
    }
    return ACP_OK;
}

static void section_end(struct hold *h)
{
    transaction_store(&h->section->state, SECTION_IDLE);
    transaction_store(&h->section->version, h->section->version + 1);
}

/* Completes a change that has been decided. */
static int redo_finish(struct hold *h)
{
    struct section *s = h->section;
    struct path path;
    if (s->moving.kind == MOVING_LATER && movable(h, &path))
        move_on(h, &path);
    transaction_store(&s->moving.kind, MOVING_NOTHING);
    for (uint32_t i = 0; i < SECTION_BLOCKS; i++)
        transaction_store(&s->fresh[i], 0);
    int rc = give_all(h, s->stale);
    if (rc == ACP_OK)
        section_end(h);
    return rc;
}

static int redo_drop(struct hold *h)
{
    struct section *s = h->section;
    struct path path;
    uint64_t count = word_load(&s->count);
    for (uint64_t i = count < SECTION_WORDS ? count : SECTION_WORDS; i-- > 0;) {
        uint64_t at = word_load(&s->journal[i].at);
        if (inside(h, at, 8) && at % 8 == 0)
            transaction_store((uint64_t *)(void *)stored_at(h, at), s->journal[i].old);
    }
    if (s->moving.kind == MOVING_NOW && movable(h, &path))
        move_back(h, &path);
    transaction_store(&s->moving.kind, MOVING_NOTHING);
    for (uint32_t i = 0; i < SECTION_BLOCKS; i++)
        transaction_store(&s->stale[i], 0);
    int rc = give_all(h, s->fresh);
    if (rc == ACP_OK)
        section_end(h);
    return rc;
}

/* A change of the heap that was left half-way may be that of a word here: first things first. */
static int mend_heap(struct hold *h)
{
    struct hold heap;
    struct section *s = &h->heap->head->section;
    int rc = h->section == s ? ACP_OK
                             : transaction_enter(&heap, h->lane, s, h->heap, HEAP_PATIENCE_NS);
    if (rc == ACP_OK && h->section != s)
        transaction_leave(&heap);
    return rc;
}

static int recover(struct hold *h)
{
    struct section *s = h->section;
    int rc = mend_heap(h);
    if (rc != ACP_OK)
        return rc;
    if (s->state == SECTION_COMMITTED)
        return redo_finish(h);
    if (s->state == SECTION_CHANGING)
        return redo_drop(h);
    section_end(h);
    return ACP_OK;
}

static int refused(struct hold *h, int error, int64_t patience_ns)
{
    int status = error == EINTR ? ACP_E_INTERRUPTED : ACP_E_BUSY;
    if (error == ETIMEDOUT && patience_ns == ACP_FOREVER)
        status = ACP_E_CLOSED;
    h->lane->fault = (acp_fault){.status = status, .error = error,
                                 .size = __atomic_load_n(&h->section->holder, __ATOMIC_RELAXED)};
    return status;
}

int transaction_enter(struct hold *h, acp_lane *lane, struct section *s, struct heap *heap,
                      int64_t patience_ns)
{
    *h = (struct hold){.lane = lane, .section = s, .heap = heap, .base = heap->base,
                       .last = heap->span - 8};
    uint64_t self = lane->engine->row.pid;
    if (s->patient) {
        if (unlikely(__atomic_load_n(&s->holder, __ATOMIC_RELAXED) != self))
            backoff_contended(lane, &s->version, SECTION_LINES);
        backoff_visit(lane, &s->version);
    }
    int rc;
    do {
        rc = likely(transaction_lock_try(lane, s)) ? 0 : transaction_lock_wait(lane, s, patience_ns);
        if (unlikely(rc))
            return refused(h, rc, patience_ns);
        __atomic_store_n(&s->holder, self, __ATOMIC_RELAXED);
        if (likely(!(s->version & 1)) || (rc = recover(h)) == ACP_OK)
            return ACP_OK;
        transaction_leave(h);
    } while (rc == ACP_E_BUSY && (rc = transaction_lock_retry(lane, patience_ns)) == ACP_OK);
    return rc;
}

void transaction_leave(struct hold *h)
{
    bool tidy = h->blocks && h->section != &h->heap->head->sweeper && heap_pages_sweep_due(h->heap);
    transaction_lock_release(h->section);
    if (unlikely(tidy)) {
        acp_fault why = h->lane->fault; /* the caller may have failed for another reason than a busy sweeper */
        heap_pages_sweep(h->lane, h->heap, false, HEAP_PATIENCE_NS);
        h->lane->fault = why;
    }
}

/* Gives back the blocks that the change before could not give back, because the heap was busy: the next change needs
 * the words that name them. */
void transaction_settle(struct hold *h)
{
    int rc;
    do
        sched_yield();
    while ((rc = recover(h)) == ACP_E_BUSY || rc == ACP_E_INTERRUPTED);
}

void transaction_begin(struct hold *h)
{
    struct section *s = h->section;
    if (unlikely(s->version & 1))
        transaction_settle(h);
    h->blocks = h->damaged = false;
    h->count = 0;
    s->count = 0;
    transaction_store(&s->version, s->version + 1);
    transaction_store(&s->state, SECTION_CHANGING);
    atomic_thread_fence(memory_order_release); /* readers see the version before the rest */
}

int transaction_commit(struct hold *h)
{
    if (unlikely(h->damaged)) {
        redo_drop(h);
        h->lane->fault = (acp_fault){.status = ACP_E_DAMAGED};
        h->lane->damaged = true;
        return ACP_E_DAMAGED;
    }
    if (unlikely(h->blocks)) {
        transaction_store(&h->section->state, SECTION_COMMITTED);
        redo_finish(h); /* busy: the next one to enter does it */
    } else {
        section_end(h);
    }
    return ACP_OK;
}

void transaction_cancel(struct hold *h)
{
    acp_fault why = h->lane->fault;
    redo_drop(h);
    h->lane->fault = why;
}

static uint64_t *free_slot(struct hold *h, uint64_t blocks[SECTION_BLOCKS])
{
    uint32_t i = 0;
    while (i < SECTION_BLOCKS && blocks[i])
        i++;
    h->blocks = true;
    h->damaged |= i == SECTION_BLOCKS;
    return i < SECTION_BLOCKS ? &blocks[i] : &h->spill;
}

int transaction_take(struct hold *h, uint64_t size, uint64_t *block)
{
    uint64_t *slot = free_slot(h, h->section->fresh);
    int rc = heap_take(h->lane, h->heap, size, slot, HEAP_PATIENCE_NS);
    *block = *slot;
    return rc;
}

void transaction_drop(struct hold *h, uint64_t block)
{
    transaction_store(free_slot(h, h->section->stale), block);
}

static void moving(struct hold *h, uint64_t to, uint64_t from, uint64_t size, uint64_t kind)
{
    struct section *s = h->section;
    if (!inside(h, to, size) || !inside(h, from, size) || s->moving.kind) {
        h->damaged = true;
        return;
    }
    h->blocks = true;
    s->moving.to = to;
    s->moving.from = from;
    s->moving.size = size;
    transaction_store(&s->moving.step, 0);
    transaction_store(&s->moving.kind, kind);
}

void transaction_shift(struct hold *h, uint64_t to, uint64_t from, uint64_t size)
{
    const struct path path = {to, from, size, (size + SECTION_SCRATCH - 1) / SECTION_SCRATCH};
    moving(h, to, from, size, MOVING_NOW);
    if (!h->damaged)
        move_on(h, &path);
}

void transaction_move(struct hold *h, uint64_t to, uint64_t from, uint64_t size)
{
    moving(h, to, from, size, MOVING_LATER);
}
