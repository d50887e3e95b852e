/* Which blocks of a heap belong to its mailbox: slabs, rings, and the bytes of long messages. */
#include "inspect/heap_messages.h"
#include "inspect/heap_containers.h"
#include "inspect/heap_walk.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"
#include "messages/sender_heap.h"

bool heap_messages_held(struct survey_tiles *t, uint64_t at, uint64_t size)
{
    struct held_head head;
    return size >= BLOCK_HEAD + sizeof head &&
           heap_walk_read(t, at + BLOCK_HEAD, &head, sizeof head) &&
           head.mark == sender_heap_mark(&t->heap, at + BLOCK_HEAD) &&
           head.nonce == t->heap.head->nonce;
}

static bool own_slab(struct survey_tiles *t, uint64_t slab, uint64_t *next)
{
    uint64_t first = mailbox_slab_first(slab);
    if (!heap_walk_read(t, slab, next, sizeof *next))
        return false;
    heap_walk_use(t, slab, USE_MESSAGES);
    for (uint64_t i = 0; i < MAIL_SLAB_ENTRIES; i++) {
        struct mail_entry entry;
        if (!heap_walk_read(t, first + i * sizeof entry, &entry, offsetof(struct mail_entry, data)))
            return false;
        if (entry.state != ENTRY_FREE && entry.block)
            heap_walk_use(t, entry.block, USE_MESSAGES);
    }
    return true;
}

void heap_messages_all(struct survey_tiles *t)
{
    const struct mailbox *box = mailbox_of(&t->heap);
    uint64_t looked = transaction_version(&box->section), slab = box->slabs, steps = 0;
    for (uint32_t i = 0; i < SECTION_BLOCKS; i++)
        heap_walk_use(t, box->section.fresh[i], USE_MESSAGES);
    for (uint32_t i = 0; i < MAIL_SPARES; i++)
        if (box->entries[i].state != ENTRY_FREE && box->entries[i].block)
            heap_walk_use(t, box->entries[i].block, USE_MESSAGES);
    for (uint32_t i = 0; i < MAIL_CLASSES * RING_SENDERS; i++)
        heap_walk_use(t, box->rings[i / RING_SENDERS].rings[i % RING_SENDERS].block, USE_MESSAGES);
    t->there = false;
    while (slab && steps++ <= t->count && own_slab(t, slab, &slab))
        continue;
    t->whole &= !slab && transaction_unchanged(&box->section, looked);
}
