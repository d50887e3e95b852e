/* Blocks of the heap: taken and given back, one or several side by side. */
#include "memory/heap.h"
#include "base/word.h"
#include "core/lane.h"
#include "memory/heap_pages.h"
#include "memory/size_class.h"
#include "memory/transaction.h"

static uint64_t *foot(const struct heap *h, uint64_t at, uint64_t size)
{
    return (uint64_t *)(void *)(h->base + at + size - 8);
}

static void behind_free(struct hold *hold, uint64_t at, bool is)
{
    struct heap *h = hold->heap;
    if (at == h->end)
        return;
    uint64_t size = heap_block(h, at)->size & ~BLOCK_BEHIND_FREE;
    transaction_set(hold, &heap_block(h, at)->size, size | (is ? BLOCK_BEHIND_FREE : 0));
}

void heap_block_reserve(struct hold *hold, uint64_t at)
{
    struct heap *h = hold->heap;
    uint64_t size = heap_block_size(h, at);
    size_class_remove(hold, at);
    transaction_set(hold, &heap_block(h, at)->size, size);
    transaction_set(hold, &heap_block(h, at)->mark, size_class_mark(h, at));
    behind_free(hold, at + size, false);
    transaction_set(hold, &h->head->used, h->head->used + size);
    transaction_set(hold, &h->head->blocks, h->head->blocks + 1);
    transaction_set(hold, &h->head->fragments, h->head->fragments - 1);
}

/* The first `size` bytes of a free block; the rest stays free. */
static void carve(struct hold *hold, uint64_t at, uint64_t size)
{
    struct heap *h = hold->heap;
    struct heap_head *head = h->head;
    uint64_t rest = heap_block_size(h, at) - size;
    if (rest < BLOCK_LEAST) {
        heap_block_reserve(hold, at);
    } else {
        bool stays = size_class_same(size + rest, rest);
        if (stays)
            size_class_replace(hold, at, at + size);
        else
            size_class_remove(hold, at);
        transaction_set(hold, &heap_block(h, at)->size, size);
        transaction_set(hold, &heap_block(h, at)->mark, size_class_mark(h, at));
        transaction_store(&heap_block(h, at + size)->size, rest | BLOCK_FREE);
        if (at + size + rest < h->end)
            transaction_set(hold, foot(h, at + size, rest), rest);
        if (!stays)
            size_class_add(hold, at + size, rest);
        transaction_set(hold, &head->used, head->used + size);
        transaction_set(hold, &head->blocks, head->blocks + 1);
    }
    uint64_t top = at + heap_block_size(h, at);
    if (top > head->published) {
        top = top > h->grid ? top - h->grid : 0;
        transaction_set(hold, &head->published, h->grid + (top + GRANULE - 1) / GRANULE * GRANULE);
    }
}

/* A block that was carved becomes `count` of that size, chained; the last one has the rest. */
static void split(struct hold *hold, uint64_t at, uint64_t size, uint64_t count)
{
    struct heap *h = hold->heap;
    uint64_t last = heap_block_size(h, at) - (count - 1) * size;
    transaction_set(hold, &heap_block(h, at)->size, size);
    for (uint64_t i = 0; i < count; i++, at += size) {
        struct heap_kept *kept = heap_kept(h, at + BLOCK_HEAD);
        if (i) {
            transaction_store(&heap_block(h, at)->size, i + 1 < count ? size : last);
            transaction_set(hold, &heap_block(h, at)->mark, size_class_mark(h, at));
        }
        uint64_t next = i + 1 < count ? at + size + BLOCK_HEAD : 0;
        if (i)
            transaction_store(&kept->next, next);
        else
            transaction_set(hold, &kept->next, next); /* the free block had a word there */
        if (next)
            transaction_store(&kept->count, count - i);
        else
            transaction_set(hold, &kept->count, 1); /* the free block may have had its foot there */
    }
    transaction_set(hold, &h->head->blocks, h->head->blocks + count - 1);
}

/* In the heap it is part of the change. */
static void name(struct hold *hold, uint64_t *slot, uint64_t block)
{
    uintptr_t base = (uintptr_t)hold->heap->base;
    if ((uintptr_t)slot >= base && (uintptr_t)slot < base + hold->heap->span)
        transaction_set(hold, slot, block);
    else
        *slot = block;
}

static int heap_refuse(acp_lane *lane, int status, uint64_t size, uint64_t high)
{
    lane->fault = (acp_fault){.status = status, .size = size, .high = high};
    return status;
}

/* Why there is no block: none is large enough; the sweeper holds one that may be; or memory is short for one. */
enum lack { LACKS_BLOCK, LACKS_SWEPT, LACKS_MEMORY };

static int blocks_take(struct hold *hold, uint64_t one, uint64_t count, uint64_t *slot, enum lack *lack)
{
    struct heap *h = hold->heap;
    uint64_t size = one * count, at = size_class_find(h, size);
    bool swept = __atomic_load_n(&h->head->sweeper.fresh[0], __ATOMIC_RELAXED) != 0;
    *lack = swept ? LACKS_SWEPT : LACKS_BLOCK;
    if (!at)
        return heap_refuse(hold->lane, ACP_E_FULL, size, h->end - h->first);
    if (!size_class_listed(h, at))
        return heap_refuse(hold->lane, ACP_E_DAMAGED, size, 0);
    uint64_t end = heap_block_size(h, at) - size < BLOCK_LEAST ? heap_block_size(h, at)
                                                               : size + sizeof(struct block);
    int rc = heap_pages_commit(hold, at, at + end);
    *lack = LACKS_MEMORY;
    if (rc != ACP_OK)
        return rc;
    transaction_begin(hold);
    carve(hold, at, size);
    if (count > 1)
        split(hold, at, one, count);
    name(hold, slot, at + BLOCK_HEAD);
    return transaction_commit(hold);
}

/* A block that the sweeper holds comes back soon, and where memory is short the sweeper gives back more. */
static int take_swept(acp_lane *lane, struct heap *h, uint64_t one, uint64_t count, uint64_t *slot,
                      int64_t patience_ns)
{
    struct hold hold;
    for (bool swept = false;;) {
        enum lack lack;
        int rc = transaction_enter(&hold, lane, &h->head->section, h, patience_ns);
        if (rc != ACP_OK)
            return rc;
        rc = blocks_take(&hold, one, count, slot, &lack);
        transaction_leave(&hold);
        if (rc != ACP_E_FULL || lack == LACKS_BLOCK || (swept && lack == LACKS_MEMORY))
            return rc;
        swept |= lack == LACKS_MEMORY;
        rc = heap_pages_sweep(lane, h, lack == LACKS_MEMORY, patience_ns);
        if (rc != ACP_OK)
            return rc;
    }
}

int heap_take(acp_lane *lane, struct heap *h, uint64_t size, uint64_t *slot, int64_t patience_ns)
{
    uint64_t room = h->end - h->first;
    if (size > room)
        return heap_refuse(lane, ACP_E_FULL, size, room);
    return take_swept(lane, h, heap_size_for(size), 1, slot, patience_ns);
}

int heap_take_row(acp_lane *lane, struct heap *h, uint64_t size, uint64_t *first,
                  int64_t patience_ns)
{
    return take_swept(lane, h, heap_size_for(size), HEAP_ROW, first, patience_ns);
}

/* The free block before `at`; `at` itself: there is none; 0: the heap is damaged. */
static uint64_t free_before(const struct heap *h, uint64_t at)
{
    if (!(heap_block(h, at)->size & BLOCK_BEHIND_FREE))
        return at;
    uint64_t size = *foot(h, at, 0);
    if (size > at || !size_class_whole(h, at - size, true) || heap_block_size(h, at - size) != size)
        return 0;
    return size_class_listed(h, at - size) ? at - size : 0;
}

static bool given_out(const struct heap *h, uint64_t at)
{
    return size_class_plausible(h, at) && heap_pages_committed(h, at) && size_class_whole(h, at, false);
}

/* Blocks side by side, upwards or downwards: they go as one, and `*slot` becomes `rest`. */
static int blocks_give(struct hold *hold, const uint64_t *blocks, uint32_t count, uint64_t *slot,
                       uint64_t rest)
{
    struct heap *h = hold->heap;
    struct heap_head *head = h->head;
    bool up = blocks[0] < blocks[count - 1];
    uint64_t at = blocks[up ? 0 : count - 1], last = blocks[up ? count - 1 : 0];
    if (!given_out(h, at))
        return heap_refuse(hold->lane, ACP_E_BLOCK, 0, 0);
    uint64_t low = free_before(h, at), high = last + heap_block_size(h, last), size = high - at;
    bool merges = high < h->end && (heap_block(h, high)->size & BLOCK_FREE);
    if (!low || (merges ? !size_class_listed(h, high) : high < h->end && !size_class_whole(h, high, false)))
        return heap_refuse(hold->lane, ACP_E_DAMAGED, 0, 0);
    uint64_t end = merges ? high + heap_block_size(h, high) : high;
    transaction_begin(hold);
    name(hold, slot, rest);
    for (uint32_t i = 0; i < count; i++)
        transaction_set(hold, &heap_block(h, blocks[i])->mark, 0);
    bool stays = low < at && size_class_same(at - low, end - low);
    bool replaces = low == at && merges && size_class_same(end - high, end - low);
    if (low < at && !stays)
        size_class_remove(hold, low);
    if (replaces)
        size_class_replace(hold, high, low);
    else if (merges)
        size_class_remove(hold, high);
    /* The block before a free block is not free: the two would have been merged. */
    transaction_set(hold, &heap_block(h, low)->size, (end - low) | BLOCK_FREE);
    if (end < h->end)
        transaction_set(hold, foot(h, low, end - low), end - low);
    if (!stays && !replaces)
        size_class_add(hold, low, end - low);
    if (!merges)
        behind_free(hold, end, true);
    transaction_set(hold, &head->used, head->used - size);
    transaction_set(hold, &head->blocks, head->blocks - count);
    transaction_set(hold, &head->fragments, head->fragments + 1 - (low < at) - merges);
    int rc = transaction_commit(hold);
    if (low < at && merges && end - low >= SWEPT) /* two pieces have become one worth a look */
        size = SWEPT;
    __atomic_store_n(&head->freed, head->freed + size, __ATOMIC_RELAXED);
    return rc;
}

int heap_give_inside(struct hold *hold, uint64_t *slot)
{
    uint64_t at = *slot - BLOCK_HEAD;
    return blocks_give(hold, &at, 1, slot, 0);
}

int heap_give(acp_lane *lane, struct heap *h, uint64_t *slot, int64_t patience_ns)
{
    struct hold hold;
    int rc = transaction_enter(&hold, lane, &h->head->section, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    rc = heap_give_inside(&hold, slot);
    transaction_leave(&hold);
    return rc;
}

/* The first blocks of a chain that lie side by side, in one direction; `*rest`: the next one. */
static uint32_t beside(const struct heap *h, uint64_t first, uint64_t *blocks, uint64_t *rest)
{
    uint32_t count = 0;
    bool up = false;
    for (uint64_t at = first - BLOCK_HEAD; given_out(h, at) && count < HEAP_ROW;
         at = *rest - BLOCK_HEAD) {
        uint64_t before = count ? blocks[count - 1] : 0;
        bool above = count && before + heap_block_size(h, before) == at;
        if (count && !above && at + heap_block_size(h, at) != before)
            break;
        if (count > 1 && above != up)
            break;
        up = above;
        blocks[count++] = at;
        *rest = word_load(&heap_kept(h, at + BLOCK_HEAD)->next);
    }
    return count;
}

int heap_give_row(acp_lane *lane, struct heap *h, uint64_t *first, int64_t patience_ns)
{
    struct hold hold;
    uint64_t blocks[HEAP_ROW], rest = 0;
    int rc = transaction_enter(&hold, lane, &h->head->section, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    for (uint32_t given = 0, count; rc == ACP_OK && *first && given < HEAP_ROW; given += count) {
        count = beside(h, *first, blocks, &rest);
        rc = count ? blocks_give(&hold, blocks, count, first, rest) : heap_refuse(lane, ACP_E_BLOCK, 0, 0);
    }
    transaction_leave(&hold);
    return rc;
}
