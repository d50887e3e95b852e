/* Blocks of the heap, as tests take them and give them back. */
#ifndef ACP_TESTS_BLOCKS_OF_ACTORS_H
#define ACP_TESTS_BLOCKS_OF_ACTORS_H

#include "support/crash.h"
#include "memory/heap.h"

static inline int give(struct actor *a, uint64_t block)
{
    return heap_give(a->lane, &a->heap, &block, ACP_FOREVER);
}

static inline uint64_t take(struct actor *a, uint64_t size)
{
    uint64_t block = 0;
    return heap_take(a->lane, &a->heap, size, &block, ACP_FOREVER) == ACP_OK ? block : 0;
}

#endif
