/* The mailbox: its entries, and the lists that they are in. */
#include "messages/mailbox.h"
#include "core/lane.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/heap_calls.h"
#include "memory/transaction.h"
#include "memory/transaction_lock.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/rank_table.h"

#include <string.h>

#define SPARES_AT (offsetof(struct heap_head, root) + offsetof(struct mailbox, entries))

uint64_t mailbox_bound(const struct heap *h, uint64_t bound)
{
    uint64_t least = h->head->limit / 8 < MAIL_BOUND ? h->head->limit / 8 : MAIL_BOUND;
    return bound ? bound : least;
}

void mailbox_create(const struct heap *h, uint64_t bound)
{
    struct mailbox *box = mailbox_of(h);
    transaction_lock_create(&box->section);
    box->bound = mailbox_bound(h, bound);
    for (uint64_t i = MAIL_SPARES; i-- > 0;) {
        box->entries[i].link.next = box->spare;
        box->spare = SPARES_AT + i * sizeof(struct mail_entry);
    }
}

struct heap *mailbox_heap(acp_engine *e, struct peer *p)
{
    struct heap *h = atomic_load_explicit(&p->memory.heap, memory_order_acquire);
    if (likely(h != NULL))
        return h;
    if (peer_attach(e, p) == RELATION_REMOTE || p->lost)
        return NULL;
    pthread_mutex_lock(&e->space);
    h = heap_calls_map(e, p);
    if (!h && p != e->job.own) /* from now on by link, lest messages overtake each other */
        atomic_store(&p->mail.far, true);
    pthread_mutex_unlock(&e->space);
    return h;
}

bool mailbox_is_spare(const struct heap *h, uint64_t at)
{
    return at >= SPARES_AT && at < SPARES_AT + sizeof mailbox_of(h)->entries &&
           (at - SPARES_AT) % sizeof(struct mail_entry) == 0;
}

struct mail_entry *mailbox_entry(const struct heap *h, uint64_t at)
{
    bool good = at % MAIL_LINE == 0 && at > h->first && at <= h->span - sizeof(struct mail_entry);
    return good || mailbox_is_spare(h, at) ? (struct mail_entry *)(void *)(h->base + at) : NULL;
}

bool mailbox_block_in(const struct heap *h, uint64_t at, uint64_t size)
{
    return at >= h->first && size <= h->span && at <= h->span - size;
}

uint64_t mailbox_entry_offset(const struct heap *h, const struct mail_entry *entry)
{
    return (uint64_t)((const unsigned char *)entry - h->base);
}

uint32_t mailbox_bucket(uint64_t context, uint64_t source, uint64_t tag)
{
    uint64_t x = context * 0x9e3779b97f4a7c15ull + source * 0xbf58476d1ce4e5b9ull +
                 tag * 0x94d049bb133111ebull;
    return (uint32_t)(x >> 32) % MAIL_BUCKETS;
}

/* More entries: not visible before the change has happened. */
static int slab_take(struct hold *hold)
{
    struct heap *h = hold->heap;
    struct mailbox *box = mailbox_of(h);
    uint64_t block, next = 0;
    int rc = transaction_take(hold, MAIL_SLAB, &block);
    if (rc != ACP_OK)
        return rc;
    uint64_t first = mailbox_slab_first(block);
    for (uint64_t i = MAIL_SLAB_ENTRIES; i-- > 0;) {
        struct mail_entry *entry = mailbox_entry(h, first + i * sizeof *entry);
        if (!entry)
            return ACP_E_DAMAGED;
        entry->state = ENTRY_FREE;
        entry->list = AMONG_NONE;
        entry->link.next = next;
        next = mailbox_entry_offset(h, entry);
    }
    *(uint64_t *)(void *)(h->base + block) = box->slabs;
    transaction_set(hold, &box->slabs, block);
    transaction_set(hold, &box->free, next);
    return ACP_OK;
}

int mailbox_entry_alloc(struct hold *hold, bool keeps, struct mail_entry **entry)
{
    struct mailbox *box = mailbox_of(hold->heap);
    bool may = box->spare && (!keeps || box->spares_kept < MAIL_SPARES / 2);
    uint64_t *chain = may && (!keeps || !box->free) ? &box->spare : &box->free;
    int rc = *chain ? ACP_OK : slab_take(hold);
    if (rc != ACP_OK)
        return rc;
    *entry = mailbox_entry(hold->heap, *chain);
    if (!*entry)
        return ACP_E_DAMAGED;
    transaction_set(hold, chain, (*entry)->link.next);
    return ACP_OK;
}

static uint64_t *chain_for(struct heap *h, uint64_t at)
{
    return mailbox_is_spare(h, at) ? &mailbox_of(h)->spare : &mailbox_of(h)->free;
}

void mailbox_entry_free(struct hold *hold, struct mail_entry *entry)
{
    uint64_t at = mailbox_entry_offset(hold->heap, entry), *chain = chain_for(hold->heap, at);
    transaction_set(hold, &entry->state, ENTRY_FREE);
    transaction_set(hold, &entry->link.next, *chain);
    transaction_set(hold, chain, at);
}

int mailbox_entry_get(struct hold *hold, struct mail_entry **entry)
{
    acp_lane *lane = hold->lane;
    if (unlikely(!lane->entry_count))
        return mailbox_entry_alloc(hold, false, entry);
    *entry = mailbox_entry(hold->heap, lane->entries[--lane->entry_count]);
    return ACP_OK;
}

/* Half of the lane's spare entries go back to the mailbox. */
static void entries_return(acp_lane *lane, struct heap *h)
{
    struct hold hold;
    struct mailbox *box = mailbox_of(h);
    int rc;
    do
        rc = transaction_enter(&hold, lane, &box->section, h, HEAP_PATIENCE_NS);
    while (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED);
    if (rc != ACP_OK) { /* no lock any more: they are lost, which does no harm */
        lane->entry_count = 0;
        return;
    }
    uint64_t free = box->free, spare = box->spare;
    transaction_begin(&hold);
    while (lane->entry_count > LANE_ENTRIES / 2) {
        uint64_t at = lane->entries[--lane->entry_count], *first = mailbox_is_spare(h, at) ? &spare : &free;
        mailbox_entry(h, at)->link.next = *first;
        *first = at;
    }
    transaction_set(&hold, &box->free, free);
    transaction_set(&hold, &box->spare, spare);
    transaction_commit(&hold);
    transaction_leave(&hold);
}

void mailbox_entry_put(acp_lane *lane, struct heap *h, struct mail_entry *entry)
{
    __atomic_store_n(&entry->state, ENTRY_FREE, __ATOMIC_RELAXED);
    lane->entries[lane->entry_count++] = mailbox_entry_offset(h, entry);
    if (unlikely(lane->entry_count == LANE_ENTRIES))
        entries_return(lane, h);
}

static struct mail_chain *chain_of(struct mailbox *box, const struct mail_entry *entry,
                                   enum entry_list list)
{
    switch (list) {
    case AMONG_WILD: return &box->wild;
    case AMONG_RECEIVES:
        return &box->receives[mailbox_bucket(entry->context, entry->want_source, entry->want_tag)];
    default:
        return &box->messages[mailbox_bucket(entry->context, entry->source, entry->tag)];
    }
}

/* The link of an entry, at offset `member` of it. */
static struct mail_link *link_at(const struct hold *hold, uint64_t at, size_t member)
{
    struct mail_entry *entry = mailbox_entry(hold->heap, at);
    return entry ? (struct mail_link *)(void *)((unsigned char *)entry + member) : NULL;
}

static void append(struct hold *hold, struct mail_chain *chain, uint64_t at, size_t member)
{
    struct mail_link *link = link_at(hold, at, member), *last = link_at(hold, chain->last, member);
    transaction_set(hold, &link->next, 0);
    link->previous = last ? chain->last : 0; /* never read of an entry without a list */
    transaction_set(hold, last ? &last->next : &chain->first, at);
    transaction_set(hold, &chain->last, at);
}

static void take_out(struct hold *hold, struct mail_chain *chain, uint64_t at, size_t member)
{
    const struct mail_link *link = link_at(hold, at, member);
    struct mail_link *next = link_at(hold, link->next, member);
    struct mail_link *previous = link_at(hold, link->previous, member);
    transaction_set(hold, previous ? &previous->next : &chain->first, link->next);
    transaction_set(hold, next ? &next->previous : &chain->last, link->previous);
}

static void count_kept(struct hold *hold, const struct mail_entry *entry, int by)
{
    struct mailbox *box = mailbox_of(hold->heap);
    if (unlikely(mailbox_is_spare(hold->heap, mailbox_entry_offset(hold->heap, entry))))
        transaction_set(hold, &box->spares_kept, box->spares_kept + (uint64_t)by);
}

static uint64_t *count_of(struct mailbox *box, const struct mail_entry *entry, enum entry_list list)
{
    return &(list == AMONG_MESSAGES ? box->kept : box->posted)[mailbox_class(entry->context)];
}

void mailbox_link(struct hold *hold, struct mail_entry *entry, enum entry_list list)
{
    struct mailbox *box = mailbox_of(hold->heap);
    uint64_t at = mailbox_entry_offset(hold->heap, entry);
    uint64_t *count = count_of(box, entry, list);
    transaction_set(hold, &entry->list, list);
    append(hold, chain_of(box, entry, list), at, offsetof(struct mail_entry, link));
    if (list == AMONG_MESSAGES)
        append(hold, &box->arrivals, at, offsetof(struct mail_entry, arrival));
    if (list == AMONG_MESSAGES)
        count_kept(hold, entry, 1);
    transaction_set(hold, count, *count + 1);
    entry->sequence = box->sequence;
    transaction_set(hold, &box->sequence, box->sequence + 1);
}

void mailbox_unlink(struct hold *hold, struct mail_entry *entry)
{
    struct mailbox *box = mailbox_of(hold->heap);
    enum entry_list list = (enum entry_list)entry->list;
    uint64_t at = mailbox_entry_offset(hold->heap, entry);
    uint64_t *count = count_of(box, entry, list);
    take_out(hold, chain_of(box, entry, list), at, offsetof(struct mail_entry, link));
    if (list == AMONG_MESSAGES)
        take_out(hold, &box->arrivals, at, offsetof(struct mail_entry, arrival));
    if (list == AMONG_MESSAGES)
        count_kept(hold, entry, -1);
    transaction_set(hold, &entry->list, AMONG_NONE);
    transaction_set(hold, count, *count - 1);
}

int mailbox_damaged(acp_lane *lane, const struct peer *p, uint64_t size)
{
    lane_fail(lane, ACP_E_DAMAGED, 0, size);
    lane->fault.rank = rank_table_rank(lane->engine, p->slot);
    return ACP_E_DAMAGED;
}

void mailbox_fill_begin(acp_engine *e, const struct peer *to, uint64_t size)
{
    if (size > MAIL_INLINE && to != e->job.own)
        atomic_fetch_add(&e->control->filling, 1);
}

void mailbox_fill_end(acp_engine *e, const struct peer *to, uint64_t size)
{
    if (size > MAIL_INLINE && to != e->job.own)
        atomic_fetch_sub(&e->control->filling, 1);
}

int mailbox_filler_check(acp_engine *e, const struct mail_entry *l)
{
    uint32_t slot = (uint32_t)l->filler;
    if (slot == e->self)
        return ACP_OK;
    if (!newcomers_find(e, slot))
        return newcomers_attached(e, slot) ? ACP_OK : ACP_E_LOST;
    struct peer *p = peer_of_slot(e, slot);
    if (p && !p->watched)
        peer_watch(e, p);
    if (!p || p->lost)
        return p ? ACP_E_LOST : ACP_OK;
    bool idle = l->size > MAIL_INLINE && p->shm.control && !atomic_load(&e->mail.halted) &&
                !atomic_load(&p->shm.control->filling);
    return idle && mailbox_entry_state(l) == ENTRY_FILLING ? ACP_E_DAMAGED : ACP_OK;
}

static struct mail_lot *lot_of(struct mailbox *box, uint64_t context)
{
    return &box->ended[(context ^ context >> 32) % MAIL_LOTS];
}

void mailbox_end_context(struct mailbox *box, uint64_t context)
{
    struct mail_lot *lot = lot_of(box, context);
    uint64_t at = __atomic_fetch_add(&lot->next, 1, __ATOMIC_RELAXED) % MAIL_LOT;
    __atomic_store_n(&lot->contexts[at], context, __ATOMIC_RELAXED);
}

bool mailbox_context_ended(const struct mailbox *box, uint64_t context)
{
    const struct mail_lot *lot = lot_of((struct mailbox *)box, context);
    bool ended = false;
    for (uint32_t i = 0; i < MAIL_LOT; i++)
        ended |= __atomic_load_n(&lot->contexts[i], __ATOMIC_RELAXED) == context;
    return (ended || context == MAIL_NOWHERE) && context; /* the users' context never ends */
}
