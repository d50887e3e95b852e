/* Creation and clearing of a heap. */
#include "memory/heap_create.h"
#include "core/layout.h"
#include "memory/heap.h"
#include "memory/heap_pages.h"
#include "memory/size_class.h"
#include "memory/transaction_lock.h"

#include <string.h>

static uint64_t map_bytes(uint64_t span)
{
    return (span / GRANULE / 64 + 1) * 8;
}

uint64_t heap_create_bytes(uint64_t span)
{
    return (sizeof(struct heap_head) + map_bytes(span) + BLOCK_LEAST + PAGE - 1) & ~(PAGE - 1);
}

void heap_create_measure(struct heap *h)
{
    h->grid = heap_create_bytes(h->span);
    h->first = h->grid - BLOCK_LEAST;
    h->end = h->grid + (h->span - h->grid) / GRANULE * GRANULE;
}

void heap_create(struct heap *h, uint64_t nonce, uint64_t limit, uint64_t pinned)
{
    struct heap_head *head = h->head;
    uint32_t level, width;
    heap_create_measure(h);
    memset(head, 0, sizeof *head + map_bytes(h->span));
    transaction_lock_create(&head->section);
    transaction_lock_create(&head->sweeper);
    head->nonce = nonce;
    head->limit = limit;
    head->kept = KEPT_LEAST;
    head->published = h->first;
    head->pinned = pinned > h->grid ? (pinned - h->grid) / GRANULE : 0;
    for (uint64_t i = 0; i < head->pinned; i++)
        head->granules[i / 64] |= 1ull << i % 64;
    uint64_t size = h->end - h->first;
    size_class_of(size, &level, &width);
    *heap_block(h, h->first) = (struct block){.size = size | BLOCK_FREE};
    head->lists[level][width] = h->first;
    head->class_map[level] = 1ull << width;
    head->level_map = 1ull << level;
    head->fragments = 1;
}

void heap_create_clear(struct heap *h)
{
    struct heap_head *head = h->head;
    uint64_t most = (h->end - h->grid) / GRANULE;
    uint64_t pinned = head->pinned < most ? head->pinned : most;
    heap_pages_drop(h);
    heap_create(h, head->nonce * 5 + 1, head->limit, /* marks of now are none then */
                pinned ? h->grid + pinned * GRANULE : 0);
}
