/* Blocks of the heap: taken, given back, and what is known of them. */
#include "heap.h"

#include <string.h>

#define LISTED 1024u /* blocks of one class that the statistics look at */

static uint64_t map_bytes(uint64_t span)
{
    return (span / GRANULE / 64 + 1) * 8;
}

uint64_t heap_head_size(uint64_t span)
{
    return (sizeof(struct heap_head) + map_bytes(span) + BLOCK_LEAST + PAGE - 1) & ~(PAGE - 1);
}

static uint64_t *foot(const struct heap *h, uint64_t at, uint64_t size)
{
    return (uint64_t *)(void *)(h->base + at + size - 8);
}

static void behind_free(struct hold *hold, uint64_t at, bool is)
{
    struct heap *h = hold->heap;
    if (at == h->head->end)
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
        if (at + size + rest < head->end)
            section_set(hold, foot(h, at + size, rest), rest);
        if (!stays)
            list_add(hold, at + size, rest);
        section_set(hold, &head->used, head->used + size);
        section_set(hold, &head->blocks, head->blocks + 1);
    }
    uint64_t top = at + block_size(h, at);
    if (top > head->published) {
        top = top > head->grid ? top - head->grid : 0;
        section_set(hold, &head->published, head->grid + (top + GRANULE - 1) / GRANULE * GRANULE);
    }
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

static int refuse(acp_lane *lane, int status, uint64_t size, uint64_t high)
{
    lane->fault = (acp_fault){.status = status, .size = size, .high = high};
    return status;
}

/* Why there is no block: none is large enough, or one of them, that the sweeper has just now, may
 * be; or there is nothing behind it. */
enum lack { LACKS_BLOCK, LACKS_SWEPT, LACKS_MEMORY };

static int take(struct hold *hold, uint64_t size, uint64_t *slot, enum lack *lack)
{
    struct heap *h = hold->heap;
    uint64_t at = list_find(h, size);
    bool swept = __atomic_load_n(&h->head->sweeper.fresh[0], __ATOMIC_RELAXED) != 0;
    *lack = swept ? LACKS_SWEPT : LACKS_BLOCK;
    if (!at)
        return refuse(hold->lane, ACP_E_FULL, size, h->head->end - h->head->first);
    if (!block_listed(h, at))
        return refuse(hold->lane, ACP_E_DAMAGED, size, 0);
    uint64_t end = block_size(h, at) - size < BLOCK_LEAST ? block_size(h, at)
                                                          : size + sizeof(struct block);
    int rc = granules_need(hold, at, at + end);
    *lack = LACKS_MEMORY;
    if (rc != ACP_OK)
        return rc;
    section_begin(hold);
    carve(hold, at, size);
    name(hold, slot, at + BLOCK_HEAD);
    section_commit(hold);
    return ACP_OK;
}

int heap_take(acp_lane *lane, struct heap *h, uint64_t size, uint64_t *slot, int64_t patience_ns)
{
    struct hold hold;
    uint64_t room = h->head->end - h->head->first;
    if (size > room)
        return refuse(lane, ACP_E_FULL, size, room);
    size = ((size ? size : 1) + 2 * BLOCK_HEAD - 1) & ~(BLOCK_HEAD - 1);
    for (bool swept = false;;) {
        enum lack lack;
        int rc = section_enter(&hold, lane, &h->head->section, h, patience_ns);
        if (rc != ACP_OK)
            return rc;
        rc = take(&hold, size, slot, &lack);
        section_leave(&hold);
        if (rc != ACP_E_FULL || lack == LACKS_BLOCK || (swept && lack == LACKS_MEMORY))
            return rc;
        swept |= lack == LACKS_MEMORY;
        rc = heap_sweep(lane, h, lack == LACKS_MEMORY, patience_ns);
        if (rc != ACP_OK)
            return rc;
    }
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

static int give(struct hold *hold, uint64_t at, uint64_t *slot)
{
    struct heap *h = hold->heap;
    struct heap_head *head = h->head;
    if (!block_plausible(h, at) || !granule_there(h, at) || !block_whole(h, at, false))
        return refuse(hold->lane, ACP_E_BLOCK, 0, 0);
    uint64_t size = block_size(h, at), low = free_before(h, at), high = at + size;
    bool merges = high < head->end && (block_at(h, high)->size & BLOCK_FREE);
    if (!low || (merges ? !block_listed(h, high) : high < head->end && !block_whole(h, high, false)))
        return refuse(hold->lane, ACP_E_DAMAGED, 0, 0);
    uint64_t end = merges ? high + block_size(h, high) : high;
    section_begin(hold);
    name(hold, slot, 0);
    section_set(hold, &block_at(h, at)->mark, 0);
    bool stays = low < at && same_class(at - low, end - low);
    bool replaces = low == at && merges && same_class(end - high, end - low);
    if (low < at && !stays)
        list_remove(hold, low);
    if (replaces)
        list_replace(hold, high, low);
    else if (merges)
        list_remove(hold, high);
    /* What is before a free block is not free: they would have been one. */
    section_set(hold, &block_at(h, low)->size, (end - low) | BLOCK_FREE);
    if (end < head->end)
        section_set(hold, foot(h, low, end - low), end - low);
    if (!stays && !replaces)
        list_add(hold, low, end - low);
    if (!merges)
        behind_free(hold, end, true);
    section_set(hold, &head->used, head->used - size);
    section_set(hold, &head->blocks, head->blocks - 1);
    section_set(hold, &head->fragments, head->fragments + 1 - (low < at) - merges);
    section_commit(hold);
    if (low < at && merges && end - low >= SWEPT) /* two pieces have become one worth a look */
        size = SWEPT;
    __atomic_store_n(&head->freed, head->freed + size, __ATOMIC_RELAXED);
    return ACP_OK;
}

int heap_give(acp_lane *lane, struct heap *h, uint64_t *slot, int64_t patience_ns)
{
    struct hold hold;
    uint64_t block = *slot;
    int rc = section_enter(&hold, lane, &h->head->section, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    rc = give(&hold, block - BLOCK_HEAD, slot);
    section_leave(&hold);
    return rc;
}

int heap_look(acp_lane *lane, struct heap *h, acp_heap_statistics *out, int64_t patience_ns)
{
    struct hold hold;
    const struct heap_head *head = h->head;
    int rc = section_enter(&hold, lane, &h->head->section, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    uint64_t room = head->end - head->first, largest = 0;
    if (head->level_map) {
        uint32_t level = 63 - (uint32_t)__builtin_clzll(head->level_map);
        uint32_t width = 63 - (uint32_t)__builtin_clzll(head->class_map[level]);
        uint64_t at = head->lists[level][width];
        for (uint32_t i = 0; at && i < LISTED && block_whole(h, at, true); i++) {
            largest = block_size(h, at) > largest ? block_size(h, at) : largest;
            at = block_at(h, at)->mark;
        }
    }
    *out = (acp_heap_statistics){
        .size = room, .used = head->used, .free = room - head->used, .blocks = head->blocks,
        .largest = largest ? largest - BLOCK_HEAD : 0, .fragments = head->fragments,
        .committed = head->committed + head->pinned * GRANULE, .limit = head->limit};
    section_leave(&hold);
    return ACP_OK;
}

void heap_create(struct heap *h, uint64_t nonce, uint64_t limit, uint64_t pinned)
{
    struct heap_head *head = h->head;
    uint32_t level, width;
    memset(head, 0, sizeof *head + map_bytes(h->span));
    section_create(&head->section);
    section_create(&head->sweeper);
    mailbox_create(&head->mailbox, limit / 8 < MAIL_BOUND ? limit / 8 : MAIL_BOUND);
    head->nonce = nonce;
    head->limit = limit;
    head->grid = heap_head_size(h->span);
    head->first = head->published = head->grid - BLOCK_LEAST;
    head->end = head->grid + (h->span - head->grid) / GRANULE * GRANULE;
    head->pinned = pinned > head->grid ? (pinned - head->grid) / GRANULE : 0;
    for (uint64_t i = 0; i < head->pinned; i++)
        head->granules[i / 64] |= 1ull << i % 64;
    uint64_t size = head->end - head->first;
    heap_class(size, &level, &width);
    *block_at(h, head->first) = (struct block){.size = size | BLOCK_FREE};
    head->lists[level][width] = head->first;
    head->class_map[level] = 1ull << width;
    head->level_map = 1ull << level;
    head->fragments = 1;
}

void heap_clear(struct heap *h)
{
    struct heap_head *head = h->head;
    uint64_t bound = head->mailbox.bound;
    granules_drop(h);
    heap_create(h, head->nonce * 5 + 1, head->limit, /* marks of now are none then */
                head->pinned ? head->grid + head->pinned * GRANULE : 0);
    head->mailbox.bound = bound;
}
