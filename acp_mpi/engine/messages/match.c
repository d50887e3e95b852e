/* A message arrives: it meets the receive that was posted first, or is kept as unexpected. */
#include "messages/match.h"
#include "core/engine_state.h"
#include "core/membarrier.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/credits.h"
#include "messages/mail_match.h"
#include "messages/mailbox.h"
#include "peers/peer.h"
#include "peers/peer_liveness.h"
#include "progress/doorbell.h"
#include "progress/progress.h"

#include <string.h>

static bool field_fits(int64_t wanted, uint64_t is)
{
    return wanted == ACP_ANY || (uint64_t)wanted == is;
}

static bool meets(const struct mail_entry *receive, const acp_envelope *e)
{
    return receive->context == e->context &&
           field_fits((int64_t)receive->want_source, (uint64_t)e->source) &&
           field_fits((int64_t)receive->want_tag, (uint64_t)e->tag);
}

static bool answers(const struct mail_entry *message, const acp_envelope *want)
{
    return message->context == want->context && field_fits(want->source, message->source) &&
           field_fits(want->tag, message->tag);
}

static struct mail_entry *first_receive(const struct heap *h, uint64_t at, const acp_envelope *e,
                                    uint64_t from)
{
    struct mailbox_walk walk = {0};
    struct mail_entry *entry;
    for (; (entry = mailbox_entry(h, at)) && !mailbox_circles(&walk, at); at = entry->link.next)
        if (entry->sequence >= from && meets(entry, e))
            return entry;
    return NULL;
}

static struct mail_entry *find_receive(const struct heap *h, const acp_envelope *e, uint64_t from)
{
    const struct mailbox *box = mailbox_of(h);
    uint32_t bucket = mailbox_bucket(e->context, (uint64_t)e->source, (uint64_t)e->tag);
    struct mail_entry *exact = first_receive(h, box->receives[bucket].first, e, from);
    struct mail_entry *wild = box->wild.first ? first_receive(h, box->wild.first, e, from) : NULL;
    if (!exact || !wild)
        return exact ? exact : wild;
    return exact->sequence < wild->sequence ? exact : wild;
}

struct mail_entry *match_find(const struct heap *h, const acp_envelope *want)
{
    const struct mailbox *box = mailbox_of(h);
    bool any = want->source == ACP_ANY || want->tag == ACP_ANY;
    struct mailbox_walk walk = {0};
    uint64_t at = any ? box->arrivals.first
                      : box->messages[mailbox_bucket(want->context, (uint64_t)want->source,
                                                     (uint64_t)want->tag)].first;
    struct mail_entry *entry;
    for (; (entry = mailbox_entry(h, at)) && !mailbox_circles(&walk, at);
         at = any ? entry->arrival.next : entry->link.next)
        if (answers(entry, want))
            return entry;
    return NULL;
}

/* Between a store and the look whether the other process sleeps, which has made this process run a fence; within one
 * process it has not. */
static void told(acp_engine *e, const struct peer *to)
{
    membarrier_look(e, to == e->job.own ? NULL : to->shm.control);
}

void match_ring(acp_lane *lane, struct peer *to, const struct mail_entry *entry)
{
    acp_engine *e = lane->engine;
    told(e, to);
    uint64_t attention = __atomic_load_n(&entry->attention, __ATOMIC_RELAXED);
    if (attention == ATTENTION_DOZES)
        doorbell_wake(to->shm.doors);
    if (likely(attention != ATTENTION_SLEEPS))
        return;
    if (to == e->job.own && lane->index == LANE_LEADER)
        progress_event(e); /* the leader itself is awake */
    else
        doorbell_ring(e, to);
}

void match_done(acp_lane *lane, struct peer *to, struct mail_entry *entry, enum entry_state state)
{
    __atomic_store_n(&entry->state, state, __ATOMIC_RELEASE);
    match_ring(lane, to, entry);
}

static uint64_t cost(const struct mailbox *box, const acp_envelope *e, bool *held)
{
    uint64_t bytes = e->size > MAIL_INLINE ? e->size : 0;
    *held = bytes && (bytes > box->bound || box->bytes + MAIL_COST > box->bound - bytes);
    return *held ? MAIL_COST : MAIL_COST + bytes;
}

/* Is it past its bound, with the share for envelopes? */
static bool mailbox_full(const struct mailbox *box)
{
    return box->bytes + MAIL_COST > box->bound + box->bound / 8;
}

void match_refused(struct hold *hold, struct mail_entry *entry, const acp_envelope *e)
{
    entry->source = (uint64_t)e->source;
    entry->tag = (uint64_t)e->tag;
    entry->size = e->size;
    entry->note = e->note;
    entry->block = 0;
    entry->place = PLACE_NONE;
    transaction_set(hold, &entry->state, ENTRY_REFUSED);
}

static void write_envelope(struct mail_entry *entry, const acp_envelope *e, const void *data,
                           uint32_t filler)
{
    entry->source = (uint64_t)e->source;
    entry->tag = (uint64_t)e->tag;
    entry->size = e->size;
    entry->note = e->note;
    entry->filler = filler;
    entry->filled = mailbox_sealed(0);
    entry->block = entry->held = 0;
    entry->place = PLACE_NONE;
    if (e->size <= MAIL_INLINE) {
        entry->place = PLACE_INLINE;
        if (e->size)
            memcpy(entry->data, data, e->size);
    }
}

/* All of a message too long for an entry, to a block that is taken in the same change. */
static int write_block(struct hold *hold, struct mail_entry *entry, const acp_envelope *e, const void *data)
{
    uint64_t block;
    int rc = transaction_take(hold, e->size, &block);
    if (rc != ACP_OK)
        return rc;
    memcpy(hold->heap->base + block, data, e->size);
    entry->block = block;
    entry->filled = mailbox_sealed(e->size);
    entry->place = PLACE_BLOCK;
    return ACP_OK;
}

/* The state is FILLING before the match is visible: if the filler dies now, the receive ends. */
static int entry_match(struct hold *hold, struct mail_entry *entry, const acp_envelope *e, const void *data,
                        uint32_t filler, bool whole)
{
    mailbox_unlink(hold, entry);
    write_envelope(entry, e, data, filler);
    transaction_set(hold, &entry->state, ENTRY_FILLING);
    return whole && e->size > MAIL_INLINE ? write_block(hold, entry, e, data) : ACP_OK;
}

static int keep(struct hold *hold, const acp_envelope *e, const void *data, uint32_t filler, bool whole,
                bool *held, struct mail_entry **entry)
{
    struct mailbox *box = mailbox_of(hold->heap);
    uint64_t bytes = cost(box, e, held);
    int rc = mailbox_entry_alloc(hold, true, entry);
    if (rc != ACP_OK)
        return rc;
    struct mail_entry *l = *entry;
    l->context = e->context;
    mailbox_set_attention(l, ATTENTION_NONE);
    l->buffer = l->global = 0;
    write_envelope(l, e, data, filler);
    if (whole && e->size > MAIL_INLINE && (rc = write_block(hold, l, e, data)) != ACP_OK)
        return rc;
    l->sealed = mailbox_envelope_sealed(l->context, l->source, l->tag);
    l->cost = l->block ? MAIL_COST + e->size : bytes;
    bytes = l->cost;
    __atomic_store_n(&l->state, e->size > MAIL_INLINE && !whole ? ENTRY_FILLING : ENTRY_DONE,
                     __ATOMIC_RELEASE);
    mailbox_link(hold, l, AMONG_MESSAGES);
    transaction_set(hold, &box->bytes, box->bytes + bytes);
    return ACP_OK;
}

void match_remove(struct hold *hold, struct mail_entry *entry)
{
    struct mailbox *box = mailbox_of(hold->heap);
    mailbox_unlink(hold, entry);
    transaction_set(hold, &box->bytes, box->bytes - entry->cost);
}

/* A receive of another type ends; the message goes on to the next one. */
static void entry_refuse(struct hold *hold, struct mail_entry *entry, const acp_envelope *e)
{
    transaction_begin(hold);
    mailbox_unlink(hold, entry);
    match_refused(hold, entry, e);
    transaction_commit(hold);
}

/* In the section: the receive that fits; earlier ones of another type end. */
static struct mail_entry *meet_receive(struct hold *hold, struct peer *to, const acp_envelope *e,
                                   struct places among)
{
    struct mail_entry *entry, *refused = NULL;
    while ((entry = find_receive(hold->heap, e, among.from)) && entry->sequence < among.before && entry != refused) {
        if (likely(acp_note_fits(entry->want_note, e->note)))
            return entry;
        entry_refuse(hold, entry, e);
        refused = entry; /* found again: its list is damaged */
        match_ring(hold->lane, to, entry);
    }
    return NULL;
}

/* Fate of a message without a receive. */
enum keeping { KEEP_NEVER, KEEP_WITHIN, KEEP_ALWAYS };

/* In the section. ACP_E_FULL: nothing has happened. */
static int entry_arrive(struct hold *hold, const acp_envelope *e, const void *data, enum keeping keeping,
                         struct places among, uint32_t filler, struct landing *landing)
{
    struct mailbox *box = mailbox_of(hold->heap);
    struct mail_entry *entry = meet_receive(hold, landing->to, e, among);
    landing->matched = entry != NULL;
    landing->late = !entry && unlikely(mailbox_context_ended(box, e->context));
    if (landing->late && !landing->open)
        return ACP_OK;
    if (!entry && (keeping == KEEP_NEVER || (keeping == KEEP_WITHIN && mailbox_full(box)))) {
        landing->looks = !credits_register(box, hold->lane->engine->self);
        landing->before = box->sequence;
        return lane_fail(hold->lane, ACP_E_FULL, 0, e->size);
    }
    int rc = ACP_OK;
    transaction_begin(hold);
    if (entry)
        rc = entry_match(hold, entry, e, data, filler, landing->word);
    else
        rc = keep(hold, e, data, filler, landing->word, &landing->held, &entry);
    if (landing->word)
        transaction_set(hold, landing->word, landing->value);
    if (unlikely(rc != ACP_OK)) {
        transaction_cancel(hold);
        landing->looks = rc == ACP_E_FULL; /* nobody rings for memory of the heap */
        landing->before = box->sequence;
        return rc;
    }
    transaction_commit(hold);
    landing->entry = entry;
    return ACP_OK;
}

/* A message is kept there: wakes the threads that sleep until then. */
static void kept_ring(acp_engine *e, struct peer *to, const struct mailbox *box)
{
    told(e, to);
    if (unlikely(__atomic_load_n(&box->probing, __ATOMIC_RELAXED)))
        doorbell_ring(e, to);
}

static int message_bring(acp_lane *lane, struct peer *to, const acp_envelope *e, const void *data,
                         enum keeping keeping, struct places among, uint32_t filler,
                         struct landing *landing)
{
    struct hold hold;
    struct heap *h = mailbox_heap(lane->engine, to);
    if (unlikely(!h))
        return peer_liveness_fail(lane, to, 0, e->size);
    struct mailbox *box = mailbox_of(h);
    *landing = (struct landing){.to = to, .heap = h, .size = e->size,
                                .open = e->size > MAIL_INLINE};
    int rc = transaction_enter(&hold, lane, &box->section, h, mail_match_patience(lane));
    if (unlikely(rc != ACP_OK))
        return rc;
    mailbox_fill_begin(lane->engine, to, e->size);
    rc = entry_arrive(&hold, e, data, keeping, among, filler, landing);
    transaction_leave(&hold);
    if (unlikely(rc != ACP_OK)) {
        mailbox_fill_end(lane->engine, to, e->size);
        return rc;
    }
    struct mail_entry *entry = landing->entry;
    if (unlikely(landing->late)) {
        told(lane->engine, to);
        peer_must_look(lane->engine, to, LOOK_MAIL);
        return ACP_OK;
    }
    if (!landing->matched) {
        kept_ring(lane->engine, to, box);
        return ACP_OK;
    }
    if ((entry->room & MAIL_ROOM) < landing->size)
        landing->size = entry->room & MAIL_ROOM;
    if (!landing->open)
        match_done(lane, to, entry, ENTRY_DONE);
    return ACP_OK;
}

int match_place(struct hold *hold, struct peer *to, const acp_envelope *e, const void *data,
                uint64_t *word, uint64_t value)
{
    struct landing landing = {.to = to, .heap = hold->heap, .size = e->size, .word = word, .value = value};
    acp_engine *engine = hold->lane->engine;
    mailbox_fill_begin(engine, to, e->size);
    int rc = entry_arrive(hold, e, data, KEEP_ALWAYS, (struct places){0, UINT64_MAX}, engine->self, &landing);
    if (rc == ACP_OK && landing.late)
        __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
    else if (rc == ACP_OK && landing.matched)
        match_done(hold->lane, to, landing.entry, ENTRY_DONE);
    else if (rc == ACP_OK)
        kept_ring(engine, to, mailbox_of(hold->heap));
    mailbox_fill_end(engine, to, e->size);
    return rc;
}

int match_arrive(acp_lane *lane, struct peer *to, const acp_envelope *e, const void *data,
                 bool regardless, uint32_t filler, struct landing *landing)
{
    return message_bring(lane, to, e, data, regardless ? KEEP_ALWAYS : KEEP_WITHIN,
                         (struct places){0, UINT64_MAX}, filler, landing);
}

int match_posted(acp_lane *lane, struct peer *to, const acp_envelope *e, const void *data,
                 struct places among, uint32_t filler, struct landing *landing)
{
    return message_bring(lane, to, e, data, KEEP_NEVER, among, filler, landing);
}
