/* The free blocks of a heap in lists by their size, and the check that bytes are a block. */
#include "memory/size_class.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#define LOOKS 32u /* at blocks of the very class, before the heap is full */

uint64_t size_class_mark(const struct heap *h, uint64_t at)
{
    uint64_t x = (at ^ h->head->nonce) * 0x9e3779b97f4a7c15ull;
    return (x ^ x >> 29) | (uint64_t)1 << 63; /* no offset looks like it */
}

/* Up to 511 bytes a class for each size, above 32 classes for each power of two. */
void size_class_of(uint64_t size, uint32_t *level, uint32_t *width)
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

bool size_class_plausible(const struct heap *h, uint64_t at)
{
    return at % 16 == 0 && at >= h->first && at <= h->end - BLOCK_LEAST;
}

/* A whole block begins there, by its head and what follows from it. */
bool size_class_whole(const struct heap *h, uint64_t at, bool is_free)
{
    if (!size_class_plausible(h, at))
        return false;
    const struct block *b = heap_block(h, at);
    uint64_t size = b->size & ~BLOCK_FLAGS;
    return size >= BLOCK_LEAST && size <= h->end - at &&
           is_free == (b->size & BLOCK_FREE) && (is_free || b->mark == size_class_mark(h, at));
}

/* Of a free block as large as its class: another one takes its place in the list. */
void size_class_replace(struct hold *hold, uint64_t at, uint64_t by)
{
    struct heap *h = hold->heap;
    uint64_t next = heap_block(h, at)->mark, previous = heap_block(h, at)->previous;
    uint32_t level, width;
    transaction_set(hold, &heap_block(h, by)->mark, next);
    transaction_set(hold, &heap_block(h, by)->previous, previous);
    if (next)
        transaction_set(hold, &heap_block(h, next)->previous, by);
    size_class_of(heap_block_size(h, at), &level, &width);
    transaction_set(hold, previous ? &heap_block(h, previous)->mark : &h->head->lists[level][width], by);
}

bool size_class_same(uint64_t one, uint64_t other)
{
    uint32_t level, width, other_level, other_width;
    size_class_of(one, &level, &width);
    size_class_of(other, &other_level, &other_width);
    return level == other_level && width == other_width;
}

void size_class_add(struct hold *hold, uint64_t at, uint64_t size)
{
    struct heap *h = hold->heap;
    struct heap_head *head = h->head;
    uint32_t level, width;
    size_class_of(size, &level, &width);
    uint64_t *list = &head->lists[level][width], next = *list;
    transaction_set(hold, &heap_block(h, at)->mark, next);
    transaction_set(hold, &heap_block(h, at)->previous, 0);
    if (next) {
        transaction_set(hold, &heap_block(h, next)->previous, at);
    } else {
        transaction_set(hold, &head->class_map[level], head->class_map[level] | 1ull << width);
        transaction_set(hold, &head->level_map, head->level_map | 1ull << level);
    }
    transaction_set(hold, list, at);
}

void size_class_remove(struct hold *hold, uint64_t at)
{
    struct heap *h = hold->heap;
    struct heap_head *head = h->head;
    uint64_t next = heap_block(h, at)->mark, previous = heap_block(h, at)->previous;
    uint32_t level, width;
    if (next)
        transaction_set(hold, &heap_block(h, next)->previous, previous);
    if (previous) {
        transaction_set(hold, &heap_block(h, previous)->mark, next);
        return;
    }
    size_class_of(heap_block_size(h, at), &level, &width);
    transaction_set(hold, &head->lists[level][width], next);
    if (next)
        return;
    transaction_set(hold, &head->class_map[level], head->class_map[level] & ~(1ull << width));
    if (!head->class_map[level])
        transaction_set(hold, &head->level_map, head->level_map & ~(1ull << level));
}

/* Its neighbours in the list are intact, not written over. */
bool size_class_listed(const struct heap *h, uint64_t at)
{
    const struct block *b = heap_block(h, at);
    return size_class_whole(h, at, true) &&
           (!b->mark || (size_class_whole(h, b->mark, true) && heap_block(h, b->mark)->previous == at)) &&
           (!b->previous ||
            (size_class_whole(h, b->previous, true) && heap_block(h, b->previous)->mark == at));
}

/* A free block of that size or more, from the lowest class with all blocks large enough; at last one of the very
 * class. 0: none. */
uint64_t size_class_find(const struct heap *h, uint64_t size)
{
    const struct heap_head *head = h->head;
    uint32_t level, width;
    uint64_t step = size < 16 * HEAP_WIDTH ? 16 : 1ull << (58 - __builtin_clzll(size));
    size_class_of(size + step - 16, &level, &width);
    uint64_t map = head->class_map[level] & (~0ull << width);
    if (!map) {
        uint64_t levels = head->level_map & (~0ull << (level + 1));
        level = levels ? (uint32_t)__builtin_ctzll(levels) : 0;
        map = levels && level < HEAP_LEVELS ? head->class_map[level] : 0;
    }
    if (map)
        return head->lists[level][__builtin_ctzll(map) % HEAP_WIDTH];
    size_class_of(size, &level, &width);
    uint64_t at = head->lists[level][width];
    for (uint32_t look = 0; at && look < LOOKS && size_class_whole(h, at, true); look++) {
        if (heap_block_size(h, at) >= size)
            return at;
        at = heap_block(h, at)->mark;
    }
    return 0;
}
