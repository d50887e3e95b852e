/* The file behind the heap: committed by granules before they are needed, and given back to the
 * system where a mebibyte and more is free. */
#include "memory/heap_pages.h"
#include "base/cgroup.h"
#include "core/lane.h"
#include "memory/arena.h"
#include "memory/heap.h"
#include "memory/size_class.h"
#include "memory/transaction.h"
#include "memory/transaction_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#if !defined(MADV_POPULATE_READ) /* Linux 5.14, glibc 2.35 */
#define MADV_POPULATE_READ 22
#endif

#define CHECK_BYTES ((uint64_t)4 << 20) /* growth after which the free memory is measured again */
#define KEPT_MOST ((uint64_t)16 << 20)  /* lies idle, beside an eighth of the used bytes */
#define BATCH 16u                       /* words of the map that one change sets */
#define SWEEP 64u                       /* granules that the sweeper gives back at a time */
#define FAULTED 4u                      /* granules, at the most, that this process maps at once with all pages */
#define TRIES 64u                       /* blocks that the sweeper looks at */

static uint64_t last_granule(const struct heap *h)
{
    return (h->end - h->grid) / GRANULE;
}

/* The granules that [low, high) touches. */
static void touched(const struct heap *h, uint64_t low, uint64_t high, uint64_t *from,
                    uint64_t *to)
{
    uint64_t grid = h->grid;
    *from = low > grid ? (low - grid) / GRANULE : 0;
    *to = high > grid ? (high - grid + GRANULE - 1) / GRANULE : 0;
}

/* The bits of granules [from, to) in one word of the map. */
static uint64_t mask_of(uint64_t word, uint64_t from, uint64_t to)
{
    uint64_t low = word * 64, mask = ~0ull;
    if (from > low)
        mask &= ~0ull << (from - low);
    if (to < low + 64)
        mask &= ~(~0ull << (to - low));
    return mask;
}

/* The first granule that may go back: the one before may be pinned in part. */
static uint64_t unpinned(const struct heap *h)
{
    uint64_t pinned = h->head->pinned, last = last_granule(h); /* whatever a wild pointer has written there */
    return !pinned ? 0 : pinned < last ? pinned + 1 : last;
}

/* Whole granules inside a free block that hold none of its words. */
static void interior(const struct heap *h, uint64_t low, uint64_t high, uint64_t *from,
                     uint64_t *to)
{
    uint64_t grid = h->grid;
    touched(h, 0, low + sizeof(struct block), to, from);
    if (*from < unpinned(h))
        *from = unpinned(h);
    *to = high > grid + 8 ? (high - 8 - grid) / GRANULE : 0;
    if (high == h->end)
        *to = last_granule(h);
    if (*to < *from)
        *to = *from;
}

/* The end of a block, whatever stands in its head by now. */
static uint64_t end_of(const struct heap *h, uint64_t at)
{
    uint64_t size = heap_block_size(h, at);
    return size < h->end - at ? at + size : h->end;
}

/* Committed ones that may go back. */
static uint64_t granules_in(const struct heap *h, uint64_t low, uint64_t high)
{
    uint64_t from, to, count = 0;
    interior(h, low, high, &from, &to);
    for (uint64_t word = from / 64; word * 64 < to; word++)
        count += (uint64_t)__builtin_popcountll(h->head->granules[word] & mask_of(word, from, to));
    return count;
}

static bool allocate(const struct heap *h, uint64_t place, uint64_t size)
{
    int rc;
    do
        rc = fallocate(h->fd, 0, (off_t)(h->position + place), (off_t)size);
    while (rc && errno == EINTR);
    return rc == 0;
}

/* Granules of one word of the map; 0 or the system's error. */
static int pages_commit(const struct heap *h, uint64_t word, uint64_t mask)
{
    while (mask) {
        uint64_t low = (uint64_t)__builtin_ctzll(mask), run = ~(mask >> low);
        uint64_t length = run ? (uint64_t)__builtin_ctzll(run) : 64;
        uint64_t place = h->grid + (word * 64 + low) * GRANULE;
        bool few = length <= FAULTED; /* else, or on old kernels, pages come one by one */
        for (uint32_t i = 0; i <= few; i++) /* the second time Linux clears them */
            if (!allocate(h, place, length * GRANULE))
                return errno;
        if (few) /* pages that are cleared are mapped sixteen at a time, and for writing as well */
            madvise(h->base + place, length * GRANULE, MADV_POPULATE_READ);
        mask &= length + low < 64 ? ~0ull << (length + low) : 0;
    }
    return 0;
}

static int full(acp_lane *lane, uint64_t size, uint64_t high, int error)
{
    int status = error && error != ENOSPC && error != ENOMEM ? ACP_E_SYSTEM : ACP_E_FULL;
    lane->fault = (acp_fault){.status = status, .size = size, .high = high, .error = error};
    return status;
}

/* Counts the bytes first and looks then, as the owner does for its arrays: of two that would pass
 * the limit together one at least sees it. */
static int reserve(struct hold *hold, uint64_t size)
{
    struct heap_head *head = hold->heap->head;
    uint64_t all = head->committed + size;
    transaction_set(hold, &head->committed, all);
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t others = atomic_load(hold->heap->others);
    uint64_t limit = __atomic_load_n(&head->limit, __ATOMIC_SEQ_CST); /* its owner lowers it */
    if (all > limit || others > limit - all)
        return full(hold->lane, size, limit, 0);
    if (all >= head->next_check || size >= CHECK_BYTES) {
        uint64_t left = cgroup_available();
        if (size > left)
            return full(hold->lane, size, left, ENOMEM);
        head->next_check = all + CHECK_BYTES;
    }
    return ACP_OK;
}

/* Memory that went back and is wanted again had better stayed: from now on that much more stays. */
static void regain(struct heap_head *head, uint64_t size)
{
    uint64_t again = size < head->returned ? size : head->returned;
    uint64_t most = head->limit / 16 < KEPT_MOST ? head->limit / 16 : KEPT_MOST;
    head->returned -= again;
    if (head->kept < most)
        __atomic_store_n(&head->kept, head->kept + again < most ? head->kept + again : most,
                         __ATOMIC_RELAXED);
}

static int commit_batch(struct hold *hold, uint64_t first, uint64_t last, uint64_t from,
                        uint64_t to)
{
    acp_engine *e = hold->lane->engine;
    struct heap *h = hold->heap;
    uint64_t *map = h->head->granules, missing = 0;
    for (uint64_t word = first; word < last; word++) {
        uint64_t mask = mask_of(word, from, to) & ~map[word];
        missing += mask ? (uint64_t)__builtin_popcountll(mask) : 0;
    }
    if (!missing)
        return ACP_OK;
    if (!arena_enter(e))
        return lane_fail(hold->lane, ACP_E_CLOSED, 0, 0);
    transaction_begin(hold);
    int rc = reserve(hold, missing * GRANULE);
    for (uint64_t word = first; word < last && rc == ACP_OK; word++) {
        uint64_t mask = mask_of(word, from, to) & ~map[word];
        int error = pages_commit(h, word, mask);
        if (error)
            rc = full(hold->lane, missing * GRANULE, cgroup_available(), error);
        else if (mask)
            transaction_set(hold, &map[word], map[word] | mask);
    }
    if (rc == ACP_OK) {
        transaction_commit(hold);
        regain(h->head, missing * GRANULE);
    } else {
        transaction_cancel(hold);
    }
    arena_leave(e);
    return rc;
}

int heap_pages_commit(struct hold *hold, uint64_t low, uint64_t high)
{
    uint64_t from, to;
    int rc = ACP_OK;
    touched(hold->heap, low, high, &from, &to);
    for (uint64_t word = from / 64; word * 64 < to && rc == ACP_OK; word += BATCH) {
        uint64_t last = to / 64 + 1 < word + BATCH ? to / 64 + 1 : word + BATCH;
        rc = commit_batch(hold, word, last, from, to);
    }
    return rc;
}

/* A free block with a mebibyte or more to give back; 0: none was found. */
static uint64_t candidate(const struct heap *h)
{
    const struct heap_head *head = h->head;
    uint32_t least, width, tries = 0;
    size_class_of(SWEPT, &least, &width);
    for (uint32_t level = HEAP_LEVELS; level-- > least;) {
        for (uint64_t map = head->class_map[level]; map; map &= map - 1) {
            uint64_t at = head->lists[level][__builtin_ctzll(map) % HEAP_WIDTH]; /* the word may be damaged */
            for (; at && tries < TRIES; tries++, at = heap_block(h, at)->mark) {
                if (at % 16 || at < h->first || at > h->end - BLOCK_LEAST ||
                    heap_block_size(h, at) > h->end - at)
                    return 0;
                if (granules_in(h, at, end_of(h, at)) * GRANULE >= SWEPT)
                    return at;
            }
        }
    }
    return 0;
}

/* The first committed granules of a free block that may go back: few at a time, because the block cannot be used
 * meanwhile. */
static void next_batch(const struct heap *h, uint64_t at, uint64_t *from, uint64_t *to)
{
    interior(h, at, end_of(h, at), from, to);
    while (*from < *to && !(h->head->granules[*from / 64] >> *from % 64))
        *from = *from / 64 * 64 + 64;
    if (*from < *to)
        *from += (uint64_t)__builtin_ctzll(h->head->granules[*from / 64] >> *from % 64);
    if (*to > *from + SWEEP)
        *to = *from + SWEEP;
}

static void uncommit(struct hold *hold, uint64_t from, uint64_t to)
{
    struct heap_head *head = hold->heap->head;
    uint64_t count = 0;
    transaction_begin(hold);
    for (uint64_t word = from / 64; word * 64 < to; word++) {
        uint64_t mask = mask_of(word, from, to) & head->granules[word];
        count += (uint64_t)__builtin_popcountll(mask);
        transaction_set(hold, &head->granules[word], head->granules[word] & ~mask);
    }
    transaction_set(hold, &head->committed, head->committed - count * GRANULE);
    transaction_commit(hold);
    head->next_check = 0;
    head->returned += count * GRANULE;
}

static void punch(const struct heap *h, uint64_t from, uint64_t to)
{
    if (from < to)
        fallocate(h->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  (off_t)(h->position + h->grid + from * GRANULE),
                  (off_t)((to - from) * GRANULE));
}

void heap_pages_drop(const struct heap *h)
{
    punch(h, unpinned(h), last_granule(h));
}

bool heap_pages_sweep_due(const struct heap *h)
{
    uint64_t used = __atomic_load_n(&h->head->used, __ATOMIC_RELAXED);
    return __atomic_load_n(&h->head->freed, __ATOMIC_RELAXED) >= SWEPT &&
           __atomic_load_n(&h->head->committed, __ATOMIC_RELAXED) >
               used + used / 8 + __atomic_load_n(&h->head->kept, __ATOMIC_RELAXED);
}

/* Takes a free block out of use and punches its interior without the heap's lock: 0.2 ms a mebibyte. If the process
 * dies meanwhile the block stays in the sweeper's section, and that one's next holder gives it back. */
static int sweep_one(struct hold *sweep, int64_t patience_ns)
{
    acp_engine *e = sweep->lane->engine;
    struct heap *h = sweep->heap;
    struct heap_head *head = h->head;
    struct hold hold;
    uint64_t from, to;
    int rc = transaction_enter(&hold, sweep->lane, &head->section, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    uint64_t at = candidate(h);
    if (!at) {
        __atomic_store_n(&head->freed, 0, __ATOMIC_RELAXED);
        transaction_leave(&hold);
        return ACP_E_FULL;
    }
    transaction_begin(sweep);
    transaction_begin(&hold);
    heap_block_reserve(&hold, at);
    transaction_set(&hold, &head->sweeper.fresh[0], at + BLOCK_HEAD);
    transaction_commit(&hold);
    next_batch(h, at, &from, &to);
    transaction_leave(&hold);
    bool open = arena_enter(e);
    if (open) {
        punch(h, from, to);
        arena_leave(e);
    }
    rc = open ? transaction_enter(&hold, sweep->lane, &head->section, h, patience_ns)
              : lane_fail(sweep->lane, ACP_E_CLOSED, 0, 0);
    if (rc == ACP_OK) {
        uncommit(&hold, from, to); /* afterwards: memory that is not counted must not exist */
        transaction_leave(&hold);
    }
    transaction_cancel(sweep); /* the block goes back, now or, while others hold the heap, with the next sweep */
    return sweep->section->version & 1 ? ACP_E_BUSY : rc;
}

static int sweep_all(acp_lane *lane, struct heap *h, bool all, int64_t patience_ns)
{
    struct hold sweep;
    int rc = transaction_enter(&sweep, lane, &h->head->sweeper, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    do
        rc = all || heap_pages_sweep_due(h) ? sweep_one(&sweep, HEAP_PATIENCE_NS) : ACP_E_FULL;
    while (rc == ACP_OK && lane_may_wait(lane));
    transaction_leave(&sweep);
    return rc == ACP_E_FULL ? ACP_OK : rc;
}

int heap_pages_sweep(acp_lane *lane, struct heap *h, bool all, int64_t patience_ns)
{
    int rc;
    do
        rc = sweep_all(lane, h, all, patience_ns);
    while (rc == ACP_E_BUSY && (rc = transaction_lock_retry(lane, patience_ns)) == ACP_OK);
    return rc;
}
