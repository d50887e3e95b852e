/* The heap of one rank: blocks of memory that any process of the node takes and gives back by load
 * and store, each call a change of a section. Two-level segregated fit with boundary tags.
 *
 * Offsets count from the heap's beginning, where its head lies; 0 names no block. Everything above
 * the head is blocks, side by side. The file behind them grows by granules before a block on them
 * is given out, and large free ranges go back to the system (heap_pages.c). */
#ifndef ACP_HEAP_H
#define ACP_HEAP_H

#include "memory/transaction.h"

#define HEAP_PATIENCE_NS ((int64_t)100000000) /* longest wait for the holder of another section */
#define HEAP_LEVELS 33u
#define HEAP_WIDTH 32u
#define HEAP_KINDS 16u
#define HEAP_ROOT ((size_t)25280)
#define GRANULE ((uint64_t)256 << 10)
#define SWEPT ((uint64_t)1 << 20) /* a free range of this size goes back to the system */
#define KEPT_LEAST ((uint64_t)4 << 20) /* bytes that may lie idle */

#define HEAP_ROW 24u /* blocks that one change can take or give, with a word of the journal for each */

#define BLOCK_HEAD ((uint64_t)16)
#define BLOCK_LEAST ((uint64_t)32)
#define BLOCK_FREE ((uint64_t)1)
#define BLOCK_BEHIND_FREE ((uint64_t)2)
#define BLOCK_FLAGS ((uint64_t)15)

/* The head of a block. The last word of a free block is its size, for the block behind it. */
struct block {
    uint64_t size; /* of all of it, | flags */
    uint64_t mark; /* a value that only a block given out has; of a free block: `next` */
    uint64_t previous; /* only of a free block: in the list of its class */
};

/* First words of a block that is kept for later, in a chain. */
struct heap_kept {
    uint64_t next;  /* 0: none */
    uint64_t count; /* blocks of the chain from this one on */
};

struct heap_head {
    struct section section;
    struct section sweeper; /* its `fresh`: the block that gives memory back to the system */
    uint64_t nonce;
    uint64_t limit;      /* of the bytes committed in the whole file */
    uint64_t pinned;     /* granules that are never given back */
    uint64_t used, blocks, fragments;
    uint64_t published;  /* the end of the highest block that ever was, and of its granule */
    uint64_t committed;  /* bytes of granules, the pinned ones left out */
    uint64_t freed;      /* bytes since the sweeper found nothing */
    uint64_t next_check; /* committed bytes at which the free memory is measured again */
    uint64_t kept;       /* bytes that may lie idle, beside an eighth of the used ones */
    uint64_t returned;   /* bytes that went back to the system, and were not wanted again */
    uint64_t level_map;
    uint64_t class_map[HEAP_LEVELS];
    uint64_t lists[HEAP_LEVELS][HEAP_WIDTH];
    uint64_t spare[HEAP_KINDS]; /* heads of containers, not in use */
    _Alignas(64) unsigned char root[HEAP_ROOT]; /* zeroes when the heap is new: a room above makes its mailbox there */
    uint64_t granules[]; /* one bit each: committed */
};

/* As this process has it mapped. */
struct heap {
    struct heap_head *head;
    unsigned char *base; /* the heap's bytes, at the same place */
    uint64_t span;
    int fd;
    uint64_t position; /* of `base` in the file */
    uint64_t first, end; /* of the blocks; private, so that damage of shared memory cannot change it */
    uint64_t grid;       /* where the first granule begins: the first block's head is before it */
    const _Atomic uint64_t *others; /* bytes of the file committed for other things */
};

/* `*slot`, in this heap or the caller's own, becomes the block as the block becomes its own, and 0
 * as it goes back. */
int heap_take(acp_lane *lane, struct heap *h, uint64_t size, uint64_t *slot, int64_t patience_ns);
int heap_give(acp_lane *lane, struct heap *h, uint64_t *slot, int64_t patience_ns);
int heap_give_inside(struct hold *hold, uint64_t *slot); /* in the heap's section */
/* The same for several blocks of one size in a chain of kept blocks, `*first`, which is part of this heap. If it was
 * empty HEAP_ROW blocks are put on it; about HEAP_ROW from its beginning go back. */
int heap_take_row(acp_lane *lane, struct heap *h, uint64_t size, uint64_t *first,
                  int64_t patience_ns);
int heap_give_row(acp_lane *lane, struct heap *h, uint64_t *first, int64_t patience_ns);

/* Offsets read from shared memory may have any value: one outside the heap becomes 0. */
static inline uint64_t heap_inside(const struct heap *h, uint64_t at)
{
    return likely(at <= h->span - sizeof(struct block) && at % 8 == 0) ? at : 0;
}

static inline struct block *heap_block(const struct heap *h, uint64_t at)
{
    return (struct block *)(void *)(h->base + heap_inside(h, at));
}

static inline struct heap_kept *heap_kept(const struct heap *h, uint64_t block)
{
    return (struct heap_kept *)(void *)(h->base + heap_inside(h, block));
}

/* The size of a block for `size` bytes; it may get more if the rest would be too small for a block. */
static inline uint64_t heap_size_for(uint64_t size)
{
    return ((size ? size : 1) + 2 * BLOCK_HEAD - 1) & ~(BLOCK_HEAD - 1);
}

static inline uint64_t heap_block_size(const struct heap *h, uint64_t at)
{
    return heap_block(h, at)->size & ~BLOCK_FLAGS;
}

/* A free block becomes one that is given out, with its whole length. Inside a change. */
void heap_block_reserve(struct hold *hold, uint64_t at);

#endif
