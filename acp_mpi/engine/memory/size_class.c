/* The free blocks of a heap in lists by their size, and the check that bytes are a block. */
#include "memory/size_class.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#define LOOKS 32u /* at blocks of the very class, before the heap is full */

uint64_t block_mark(const struct heap *h, uint64_t at)
{
    uint64_t x = (at ^ h->head->nonce) * 0x9e3779b97f4a7c15ull;
    return (x ^ x >> 29) | (uint64_t)1 << 63; /* no offset looks like it */
}

/* Up to 511 bytes a class for each size, above 32 classes for each power of two. */
void heap_class(uint64_t size, uint32_t *level, uint32_t *width)
{
    if (size < 16 * HEAP_WIDTH) {
        *level = 0;
        *width = (uint32_t)(size / 16);
    } else {
        uint32_t log = 63 - (uint32_t)__builtin_clzll(size);
        *level = log - 8 < HEAP_LEVELS ? log - 8 : HEAP_LEVELS - 1; /* of a size that is none */
        *width = (uint32_t)(size >> (log - 5)) % HEAP_WIDTH;
    }
}

bool block_plausible(const struct heap *h, uint64_t at)
{
    return at % 16 == 0 && at >= h->first && at <= h->end - BLOCK_LEAST;
}

/* A whole block begins there, by its head and what follows from it. */
bool block_whole(const struct heap *h, uint64_t at, bool is_free)
{
    if (!block_plausible(h, at))
        return false;
    const struct block *b = block_at(h, at);
    uint64_t size = b->size & ~BLOCK_FLAGS;
    return size >= BLOCK_LEAST && size <= h->end - at &&
           is_free == (b->size & BLOCK_FREE) && (is_free || b->mark == block_mark(h, at));
}

/* Of a free block as large as its class: another one takes its place in the list. */
void list_replace(struct hold *hold, uint64_t at, uint64_t by)
{
    struct heap *h = hold->heap;
    uint64_t next = block_at(h, at)->mark, previous = block_at(h, at)->previous;
    uint32_t level, width;
    section_set(hold, &block_at(h, by)->mark, next);
    section_set(hold, &block_at(h, by)->previous, previous);
    if (next)
        section_set(hold, &block_at(h, next)->previous, by);
    heap_class(block_size(h, at), &level, &width);
    section_set(hold, previous ? &block_at(h, previous)->mark : &h->head->lists[level][width], by);
}

bool same_class(uint64_t one, uint64_t other)
{
    uint32_t level, width, other_level, other_width;
    heap_class(one, &level, &width);
    heap_class(other, &other_level, &other_width);
    return level == other_level && width == other_width;
}

void list_add(struct hold *hold, uint64_t at, uint64_t size)
{
    struct heap *h = hold->heap;
    struct heap_head *head = h->head;
    uint32_t level, width;
    heap_class(size, &level, &width);
    uint64_t *list = &head->lists[level][width], next = *list;
    section_set(hold, &block_at(h, at)->mark, next);
    section_set(hold, &block_at(h, at)->previous, 0);
    if (next) {
        section_set(hold, &block_at(h, next)->previous, at);
    } else {
        section_set(hold, &head->class_map[level], head->class_map[level] | 1ull << width);
        section_set(hold, &head->level_map, head->level_map | 1ull << level);
    }
    section_set(hold, list, at);
}

void list_remove(struct hold *hold, uint64_t at)
{
    struct heap *h = hold->heap;
    struct heap_head *head = h->head;
    uint64_t next = block_at(h, at)->mark, previous = block_at(h, at)->previous;
    uint32_t level, width;
    if (next)
        section_set(hold, &block_at(h, next)->previous, previous);
    if (previous) {
        section_set(hold, &block_at(h, previous)->mark, next);
        return;
    }
    heap_class(block_size(h, at), &level, &width);
    section_set(hold, &head->lists[level][width], next);
    if (next)
        return;
    section_set(hold, &head->class_map[level], head->class_map[level] & ~(1ull << width));
    if (!head->class_map[level])
        section_set(hold, &head->level_map, head->level_map & ~(1ull << level));
}

/* Its neighbours in the list are intact, not written over. */
bool block_listed(const struct heap *h, uint64_t at)
{
    const struct block *b = block_at(h, at);
    return block_whole(h, at, true) &&
           (!b->mark || (block_whole(h, b->mark, true) && block_at(h, b->mark)->previous == at)) &&
           (!b->previous ||
            (block_whole(h, b->previous, true) && block_at(h, b->previous)->mark == at));
}

/* A free block of that size or more, from the lowest class with all blocks large enough; at last one of the very
 * class. 0: none. */
uint64_t list_find(const struct heap *h, uint64_t size)
{
    const struct heap_head *head = h->head;
    uint32_t level, width;
    uint64_t step = size < 16 * HEAP_WIDTH ? 16 : 1ull << (58 - __builtin_clzll(size));
    heap_class(size + step - 16, &level, &width);
    uint64_t map = head->class_map[level] & (~0ull << width);
    if (!map) {
        uint64_t levels = head->level_map & (~0ull << (level + 1));
        level = levels ? (uint32_t)__builtin_ctzll(levels) : 0;
        map = levels && level < HEAP_LEVELS ? head->class_map[level] : 0;
    }
    if (map)
        return head->lists[level][__builtin_ctzll(map) % HEAP_WIDTH];
    heap_class(size, &level, &width);
    uint64_t at = head->lists[level][width];
    for (uint32_t look = 0; at && look < LOOKS && block_whole(h, at, true); look++) {
        if (block_size(h, at) >= size)
            return at;
        at = block_at(h, at)->mark;
    }
    return 0;
}
