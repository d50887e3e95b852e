/* Bytes of messages that stay with their sender. */
#ifndef ACP_SENDER_HEAP_H
#define ACP_SENDER_HEAP_H

#include "core/engine.h"

#include <assert.h>

struct heap;
struct peer;

/* Head of such a block. */
struct held_head {
    uint64_t mark, nonce; /* mark of such a block; nonce of the heap */
    uint64_t slot;        /* of the receiver */
    uint64_t block;       /* itself, from when it is the receiver's until it goes back */
};

#define MAIL_HELD_HEAD ((uint64_t)sizeof(struct held_head))

static_assert(sizeof(struct held_head) % 16 == 0, "the bytes behind it are aligned");

uint64_t sender_heap_mark(const struct heap *h, uint64_t block);
unsigned char *sender_heap_bytes(const struct heap *h, uint64_t block);
/* A block of the own heap for `to`, which does not know of it yet. */
int sender_heap_take(acp_lane *lane, struct heap *h, const struct peer *to, uint64_t size,
                     uint64_t *block, int64_t patience_ns);
/* All bytes are there: the block is the receiver's once it gets this address. */
acp_ga_t sender_heap_hand_over(acp_engine *e, struct heap *h, struct peer *to, uint64_t block);
/* The receiver in `slot` needs it no more. ACP_E_BLOCK: it was its no more before. */
int sender_heap_give(acp_lane *lane, struct heap *h, uint64_t block, uint64_t slot, int64_t patience_ns);
/* A block that has not been handed over goes back. ACP_E_BUSY: not yet, another holds the heap. */
int sender_heap_drop(acp_lane *lane, struct heap *h, uint64_t block, int64_t patience_ns);
/* Blocks that dead receivers have not read go back; false: not all, another holds the heap. Leader only. */
bool sender_heap_reclaim(acp_lane *lane, struct heap *h);

#endif
