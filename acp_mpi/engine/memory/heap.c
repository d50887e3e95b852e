/* Blocks of the heap: taken and given back, one or several side by side. */
#include "memory/heap.h"
#include "base/atomic_words.h"
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
    uint64_t size = block_at(h, at)->size & ~BLOCK_BEHIND_FREE;
    section_set(hold, &block_at(h, at)->size, size | (is ? BLOCK_BEHIND_FREE : 0));
}

void block_reserve(struct hold *hold, uint64_t at)
{
    struct heap *h = hold->heap;
    uint64_t size = block_size(h, at);
    list_remove(hold, at);
    section_set(hold, &block_at(h, at)->size, size);
    section_set(hold, &block_at(h, at)->mark, block_mark(h, at));
    behind_free(hold, at + size, false);
    section_set(hold, &h->head->used, h->head->used + size);
    section_set(hold, &h->head->blocks, h->head->blocks + 1);
    section_set(hold, &h->head->fragments, h->head->fragments - 1);
}

/* The first `size` bytes of a free block; the rest stays free. */
static void carve(struct hold *hold, uint64_t at, uint64_t size)
{
    struct heap *h = hold->heap;
    struct heap_head *head = h->head;
    uint64_t rest = block_size(h, at) - size;
    if (rest < BLOCK_LEAST) {
        block_reserve(hold, at);
    } else {
        bool stays = same_class(size + rest, rest);
        if (stays)
            list_replace(hold, at, at + size);
        else
            list_remove(hold, at);
        section_set(hold, &block_at(h, at)->size, size);
        section_set(hold, &block_at(h, at)->mark, block_mark(h, at));
        store(&block_at(h, at + size)->size, rest | BLOCK_FREE);
        if (at + size + rest < h->end)
            section_set(hold, foot(h, at + size, rest), rest);
        if (!stays)
            list_add(hold, at + size, rest);
        section_set(hold, &head->used, head->used + size);
        section_set(hold, &head->blocks, head->blocks + 1);
    }
    uint64_t top = at + block_size(h, at);
    if (top > head->published) {
        top = top > h->grid ? top - h->grid : 0;
        section_set(hold, &head->published, h->grid + (top + GRANULE - 1) / GRANULE * GRANULE);
    }
}

/* A block that was carved becomes `count` of that size, chained; the last one has the rest. */
static void split(struct hold *hold, uint64_t at, uint64_t size, uint64_t count)
{
    struct heap *h = hold->heap;
    uint64_t last = block_size(h, at) - (count - 1) * size;
    section_set(hold, &block_at(h, at)->size, size);
    for (uint64_t i = 0; i < count; i++, at += size) {
        struct heap_kept *kept = heap_kept(h, at + BLOCK_HEAD);
        if (i) {
            store(&block_at(h, at)->size, i + 1 < count ? size : last);
            section_set(hold, &block_at(h, at)->mark, block_mark(h, at));
        }
        uint64_t next = i + 1 < count ? at + size + BLOCK_HEAD : 0;
        if (i)
            store(&kept->next, next);
        else
            section_set(hold, &kept->next, next); /* the free block had a word there */
        if (next)
            store(&kept->count, count - i);
        else
            section_set(hold, &kept->count, 1); /* the free block may have had its foot there */
    }
    section_set(hold, &h->head->blocks, h->head->blocks + count - 1);
}

/* In the heap it is part of the change. */
static void name(struct hold *hold, uint64_t *slot, uint64_t block)
{
    uintptr_t base = (uintptr_t)hold->heap->base;
    if ((uintptr_t)slot >= base && (uintptr_t)slot < base + hold->heap->span)
        section_set(hold, slot, block);
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
    uint64_t size = one * count, at = list_find(h, size);
    bool swept = __atomic_load_n(&h->head->sweeper.fresh[0], __ATOMIC_RELAXED) != 0;
    *lack = swept ? LACKS_SWEPT : LACKS_BLOCK;
    if (!at)
        return heap_refuse(hold->lane, ACP_E_FULL, size, h->end - h->first);
    if (!block_listed(h, at))
        return heap_refuse(hold->lane, ACP_E_DAMAGED, size, 0);
    uint64_t end = block_size(h, at) - size < BLOCK_LEAST ? block_size(h, at)
                                                          : size + sizeof(struct block);
    int rc = granules_need(hold, at, at + end);
    *lack = LACKS_MEMORY;
    if (rc != ACP_OK)
        return rc;
    section_begin(hold);
    carve(hold, at, size);
    if (count > 1)
        split(hold, at, one, count);
    name(hold, slot, at + BLOCK_HEAD);
    return section_commit(hold);
}

/* A block that the sweeper holds comes back soon, and where memory is short the sweeper gives back more. */
static int take_swept(acp_lane *lane, struct heap *h, uint64_t one, uint64_t count, uint64_t *slot,
                      int64_t patience_ns)
{
    struct hold hold;
    for (bool swept = false;;) {
        enum lack lack;
        int rc = section_enter(&hold, lane, &h->head->section, h, patience_ns);
        if (rc != ACP_OK)
            return rc;
        rc = blocks_take(&hold, one, count, slot, &lack);
        section_leave(&hold);
        if (rc != ACP_E_FULL || lack == LACKS_BLOCK || (swept && lack == LACKS_MEMORY))
            return rc;
        swept |= lack == LACKS_MEMORY;
        rc = heap_sweep(lane, h, lack == LACKS_MEMORY, patience_ns);
        if (rc != ACP_OK)
            return rc;
    }
}

int heap_take(acp_lane *lane, struct heap *h, uint64_t size, uint64_t *slot, int64_t patience_ns)
{
    uint64_t room = h->end - h->first;
    if (size > room)
        return heap_refuse(lane, ACP_E_FULL, size, room);
    return take_swept(lane, h, block_for(size), 1, slot, patience_ns);
}

int heap_take_row(acp_lane *lane, struct heap *h, uint64_t size, uint64_t *first,
                  int64_t patience_ns)
{
    return take_swept(lane, h, block_for(size), HEAP_ROW, first, patience_ns);
}

/* The free block before `at`; `at` itself: there is none; 0: the heap is damaged. */
static uint64_t free_before(const struct heap *h, uint64_t at)
{
    if (!(block_at(h, at)->size & BLOCK_BEHIND_FREE))
        return at;
    uint64_t size = *foot(h, at, 0);
    if (size > at || !block_whole(h, at - size, true) || block_size(h, at - size) != size)
        return 0;
    return block_listed(h, at - size) ? at - size : 0;
}

static bool given_out(const struct heap *h, uint64_t at)
{
    return block_plausible(h, at) && granule_there(h, at) && block_whole(h, at, false);
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
    uint64_t low = free_before(h, at), high = last + block_size(h, last), size = high - at;
    bool merges = high < h->end && (block_at(h, high)->size & BLOCK_FREE);
    if (!low || (merges ? !block_listed(h, high) : high < h->end && !block_whole(h, high, false)))
        return heap_refuse(hold->lane, ACP_E_DAMAGED, 0, 0);
    uint64_t end = merges ? high + block_size(h, high) : high;
    section_begin(hold);
    name(hold, slot, rest);
    for (uint32_t i = 0; i < count; i++)
        section_set(hold, &block_at(h, blocks[i])->mark, 0);
    bool stays = low < at && same_class(at - low, end - low);
    bool replaces = low == at && merges && same_class(end - high, end - low);
    if (low < at && !stays)
        list_remove(hold, low);
    if (replaces)
        list_replace(hold, high, low);
    else if (merges)
        list_remove(hold, high);
    /* The block before a free block is not free: the two would have been merged. */
    section_set(hold, &block_at(h, low)->size, (end - low) | BLOCK_FREE);
    if (end < h->end)
        section_set(hold, foot(h, low, end - low), end - low);
    if (!stays && !replaces)
        list_add(hold, low, end - low);
    if (!merges)
        behind_free(hold, end, true);
    section_set(hold, &head->used, head->used - size);
    section_set(hold, &head->blocks, head->blocks - count);
    section_set(hold, &head->fragments, head->fragments + 1 - (low < at) - merges);
    int rc = section_commit(hold);
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
    int rc = section_enter(&hold, lane, &h->head->section, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    rc = heap_give_inside(&hold, slot);
    section_leave(&hold);
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
        bool above = count && before + block_size(h, before) == at;
        if (count && !above && at + block_size(h, at) != before)
            break;
        if (count > 1 && above != up)
            break;
        up = above;
        blocks[count++] = at;
        *rest = load(&heap_kept(h, at + BLOCK_HEAD)->next);
    }
    return count;
}

int heap_give_row(acp_lane *lane, struct heap *h, uint64_t *first, int64_t patience_ns)
{
    struct hold hold;
    uint64_t blocks[HEAP_ROW], rest = 0;
    int rc = section_enter(&hold, lane, &h->head->section, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    for (uint32_t given = 0, count; rc == ACP_OK && *first && given < HEAP_ROW; given += count) {
        count = beside(h, *first, blocks, &rest);
        rc = count ? blocks_give(&hold, blocks, count, first, rest) : heap_refuse(lane, ACP_E_BLOCK, 0, 0);
    }
    section_leave(&hold);
    return rc;
}
