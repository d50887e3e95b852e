/* Messages past the bound of their receiver: their bytes stay in blocks of the sender's heap, which
 * become the receiver's. It gives them back when it has pulled them; if it dies, their heap's rank does. */
#include "messages/sender_heap.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/heap_pages.h"
#include "memory/size_class.h"
#include "memory/transaction.h"
#include "peers/peer.h"
#include "progress/doorbell.h"

#include <string.h>

#define HELD_MARK 0x4c49414d444c4548ull /* "HELDMAIL" */

uint64_t sender_heap_mark(const struct heap *h, uint64_t block)
{
    return HELD_MARK ^ size_class_mark(h, block - BLOCK_HEAD);
}

static struct held_head *head_of(const struct heap *h, uint64_t block)
{
    return (struct held_head *)(void *)(h->base + block);
}

unsigned char *sender_heap_bytes(const struct heap *h, uint64_t block)
{
    return h->base + block + MAIL_HELD_HEAD;
}

int sender_heap_take(acp_lane *lane, struct heap *h, const struct peer *to, uint64_t size,
                     uint64_t *block, int64_t patience_ns)
{
    if (size > UINT64_MAX - MAIL_HELD_HEAD)
        return lane_fail(lane, ACP_E_FULL, 0, size);
    int rc = heap_take(lane, h, size + MAIL_HELD_HEAD, block, patience_ns);
    if (rc == ACP_OK)
        *head_of(h, *block) = (struct held_head){sender_heap_mark(h, *block), h->head->nonce, to->slot, 0};
    return rc;
}

acp_ga_t sender_heap_hand_over(acp_engine *e, struct heap *h, struct peer *to, uint64_t block)
{
    __atomic_store_n(&head_of(h, block)->block, block, __ATOMIC_RELEASE);
    atomic_store(&to->mail.holds, true);
    if (to->lost) { /* after this the look for them may be over */
        e->mail.losses = 1;
        doorbell_kick(e);
    }
    return acp_ga(e->rank, 0, h->position + block);
}

/* In the heap's section: is that block given out, and the one that a message for `slot` stays in? */
static bool is_held_for(const struct heap *h, uint64_t block, uint64_t slot)
{
    const struct held_head *head = head_of(h, block);
    return size_class_whole(h, block - BLOCK_HEAD, false) &&
           heap_block_size(h, block - BLOCK_HEAD) >= BLOCK_HEAD + MAIL_HELD_HEAD &&
           head->mark == sender_heap_mark(h, block) && head->nonce == h->head->nonce &&
           head->slot == slot && __atomic_load_n(&head->block, __ATOMIC_ACQUIRE) == block;
}

/* The word that names the block becomes 0 as it goes: a later request, for example one of a dead receiver, does not
 * take another's block for it. */
int sender_heap_give(acp_lane *lane, struct heap *h, uint64_t block, uint64_t slot, int64_t patience_ns)
{
    struct hold hold;
    if (block < BLOCK_HEAD || !size_class_plausible(h, block - BLOCK_HEAD) ||
        !heap_pages_committed(h, block - BLOCK_HEAD))
        return lane_fail(lane, ACP_E_BLOCK, 0, 0);
    int rc = transaction_enter(&hold, lane, &h->head->section, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    rc = is_held_for(h, block, slot) ? heap_give_inside(&hold, &head_of(h, block)->block)
                                     : lane_fail(lane, ACP_E_BLOCK, 0, 0);
    transaction_leave(&hold);
    return rc;
}

int sender_heap_drop(acp_lane *lane, struct heap *h, uint64_t block, int64_t patience_ns)
{
    struct hold hold;
    int rc = transaction_enter(&hold, lane, &h->head->section, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    head_of(h, block)->block = block;
    rc = heap_give_inside(&hold, &head_of(h, block)->block);
    transaction_leave(&hold);
    return rc;
}

/* Gives back the blocks of a dead receiver. Other calls for these find that they are not the receiver's any more. */
static int block_bury(acp_lane *lane, struct heap *h, uint32_t slot)
{
    struct hold hold;
    int rc = transaction_enter(&hold, lane, &h->head->section, h, 0);
    if (rc != ACP_OK)
        return rc;
    uint64_t size, end = h->end;
    for (uint64_t at = h->first; at < end && rc == ACP_OK; at += size) {
        uint64_t block = at + BLOCK_HEAD;
        if ((size = heap_block_size(h, at)) < BLOCK_LEAST || size > end - at)
            break;
        if (!is_held_for(h, block, slot))
            continue;
        if (at + size < end && (heap_block(h, at + size)->size & BLOCK_FREE))
            size += heap_block_size(h, at + size); /* the two will be merged */
        rc = heap_give_inside(&hold, &head_of(h, block)->block);
    }
    transaction_leave(&hold);
    return rc;
}

bool sender_heap_reclaim(acp_lane *lane, struct heap *h)
{
    acp_engine *e = lane->engine;
    bool all = true;
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        if (!p->lost || !atomic_exchange(&p->mail.holds, false))
            continue;
        int rc = block_bury(lane, h, p->slot);
        if (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED) {
            atomic_store(&p->mail.holds, true);
            all = false;
        }
    }
    return all;
}
