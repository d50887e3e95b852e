/* Lists of the own mailbox into which a wild pointer may have written. A message is in two, that of its bucket and that
 * of all arrivals: each is made anew from the other. A posted receive is in one only. In the section. */
#include "messages/mailbox_doubt.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"
#include "progress/doorbell.h"
#include "progress/progress.h"

#include <string.h>

enum fit { FITS, UNLISTED, CHANGED }; /* CHANGED: its envelope is another */

struct look {
    struct heap *heap;
    size_t member; /* offset of the links in an entry */
    enum fit (*fit)(const struct mail_entry *entry, uint32_t bucket);
    uint64_t count[MAIL_CLASSES]; /* sound entries */
    struct mail_entry *wrong; /* one that is in its place, but changed */
};

static struct mail_link *link_of(struct mail_entry *l, size_t member)
{
    return (struct mail_link *)(void *)((unsigned char *)l + member);
}

static enum fit any_fit(const struct mail_entry *l, uint32_t bucket)
{
    (void)l, (void)bucket;
    return FITS;
}

static enum fit message_fit(const struct mail_entry *l, uint32_t bucket)
{
    bool listed = l->list == AMONG_MESSAGES && mailbox_bucket(l->context, l->source, l->tag) == bucket;
    return l->sealed != mailbox_envelope_sealed(l->context, l->source, l->tag) ? CHANGED : listed ? FITS : UNLISTED;
}

static enum fit receive_fit(const struct mail_entry *l, uint32_t bucket)
{
    (void)bucket;
    return l->list == AMONG_RECEIVES && l->held == mailbox_want_sealed(l) ? FITS : CHANGED;
}

static enum fit wild_fit(const struct mail_entry *l, uint32_t bucket)
{
    (void)bucket;
    return l->list == AMONG_WILD && l->held == mailbox_want_sealed(l) ? FITS : CHANGED;
}

/* False: damaged. Entries before the damage have been counted; `last` is that of these. */
static bool chain_is_sound(struct look *look, const struct mail_chain *chain, uint32_t bucket, uint64_t *last)
{
    uint64_t at = chain->first;
    struct mail_entry *l;
    enum fit fit = FITS;
    *last = 0;
    while ((l = mailbox_entry(look->heap, at)) && link_of(l, look->member)->previous == *last &&
           (fit = look->fit(l, bucket)) == FITS) {
        look->count[mailbox_class(l->context)]++;
        *last = at;
        at = link_of(l, look->member)->next;
    }
    if (fit == CHANGED)
        look->wrong = l;
    return !at && chain->last == *last;
}

static uint64_t total(const struct look *look)
{
    return look->count[MAIL_USERS] + look->count[MAIL_COLLECTIVES];
}

static void correct(uint64_t *words, const struct look *look)
{
    for (uint32_t class = 0; class < MAIL_CLASSES; class++)
        if (words[class] != look->count[class])
            __atomic_store_n(&words[class], look->count[class], __ATOMIC_SEQ_CST);
}

static bool are_sound(struct look *look, const struct mail_chain *chains)
{
    bool sound = true;
    uint64_t last;
    for (uint32_t i = 0; i < MAIL_BUCKETS; i++)
        sound &= chain_is_sound(look, &chains[i], i, &last);
    return sound;
}

static void link_behind(struct heap *h, struct mail_chain *chain, uint64_t at, size_t member)
{
    struct mail_entry *last = mailbox_entry(h, chain->last);
    *link_of(mailbox_entry(h, at), member) = (struct mail_link){.previous = chain->last};
    *(last ? &link_of(last, member)->next : &chain->first) = at;
    chain->last = at;
}

/* From the arrivals, as far as those are sound. */
static struct look make_buckets(struct heap *h, struct mailbox *box)
{
    struct look sound = {.heap = h, .member = offsetof(struct mail_entry, arrival), .fit = any_fit};
    uint64_t last;
    chain_is_sound(&sound, &box->arrivals, 0, &last);
    memset(box->messages, 0, sizeof box->messages);
    uint64_t at = box->arrivals.first;
    for (uint64_t i = 0; i < total(&sound); i++) {
        struct mail_entry *l = mailbox_entry(h, at);
        l->list = AMONG_MESSAGES;
        struct mail_chain *bucket = &box->messages[mailbox_bucket(l->context, l->source, l->tag)];
        link_behind(h, bucket, at, offsetof(struct mail_entry, link));
        at = l->arrival.next;
    }
    struct mail_entry *end = mailbox_entry(h, last);
    *(end ? &end->arrival.next : &box->arrivals.first) = 0;
    box->arrivals.last = last;
    return sound;
}

/* From the buckets, in the order of arrival. */
static void make_arrivals(struct heap *h, struct mailbox *box)
{
    uint64_t next[MAIL_BUCKETS];
    box->arrivals = (struct mail_chain){0};
    for (uint32_t i = 0; i < MAIL_BUCKETS; i++)
        next[i] = box->messages[i].first;
    for (;;) {
        struct mail_entry *l, *first = NULL;
        uint32_t from = 0;
        for (uint32_t i = 0; i < MAIL_BUCKETS; i++)
            if ((l = mailbox_entry(h, next[i])) && (!first || l->sequence < first->sequence)) {
                first = l;
                from = i;
            }
        if (!first)
            return;
        link_behind(h, &box->arrivals, next[from], offsetof(struct mail_entry, arrival));
        next[from] = first->link.next;
    }
}

/* What senders ask before they send: with wrong words there they would wait for ever. */
static void mend_credits(const acp_engine *e, struct heap *h, struct mailbox *box)
{
    uint64_t bytes = 0, at = box->arrivals.first;
    for (struct mail_entry *l; (l = mailbox_entry(h, at)); at = l->arrival.next) {
        if (l->cost < MAIL_COST || l->cost - MAIL_COST > l->size)
            l->cost = MAIL_COST;
        bytes += l->cost;
    }
    if (box->bytes != bytes)
        __atomic_store_n(&box->bytes, bytes, __ATOMIC_RELAXED);
    if (!box->bound || box->bound > h->span)
        box->bound = mailbox_bound(h, e->config.unexpected_max);
}

/* No list has any of the receives now: they are told apart by their count of damages. */
static void end_all(acp_engine *e, struct mailbox *box)
{
    atomic_fetch_add(&e->mail.probe_damages, 1);
    memset(box->receives, 0, sizeof box->receives);
    box->wild = (struct mail_chain){0};
    for (uint32_t class = 0; class < MAIL_CLASSES; class++)
        __atomic_store_n(&box->posted[class], 0, __ATOMIC_SEQ_CST);
    atomic_fetch_add(&e->mail.damages, 1);
    progress_event(e);
    doorbell_kick(e);
}

/* Returns false if a message is lost and receives are to be told. As long as there are none, `tells` is false, nothing
 * is mended: the next look finds it. */
static bool mend_messages(acp_engine *e, struct heap *h, struct mailbox *box, bool tells)
{
    struct look arrived = {.heap = h, .member = offsetof(struct mail_entry, arrival), .fit = any_fit};
    struct look held = {.heap = h, .member = offsetof(struct mail_entry, link), .fit = message_fit};
    uint64_t last;
    bool all = chain_is_sound(&arrived, &box->arrivals, 0, &last), each = are_sound(&held, box->messages);
    bool both = all && each;
    all = all && !(both && total(&arrived) < total(&held)); /* what wiped both ends of a list has left it sound */
    each = each && !(both && total(&held) < total(&arrived));
    bool lost = held.wrong || (!all && !each);
    if (lost && !tells)
        return true;
    if (held.wrong) { /* nobody receives it */
        held.wrong->context = MAIL_NOWHERE;
        held.wrong->sealed = mailbox_envelope_sealed(MAIL_NOWHERE, held.wrong->source, held.wrong->tag);
        atomic_store(&e->mail.losses, 1);
    }
    if (each && !all)
        make_arrivals(h, box);
    if (!each)
        held = make_buckets(h, box);
    correct(box->kept, &held);
    mend_credits(e, h, box);
    return !lost;
}

void mailbox_doubt(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    struct hold hold;
    struct heap *h = atomic_load_explicit(&e->job.own->memory.heap, memory_order_acquire);
    if (!h || transaction_enter(&hold, lane, &mailbox_of(h)->section, h, 0) != ACP_OK)
        return;
    struct mailbox *box = mailbox_of(h);
    struct look posted = {.heap = h, .member = offsetof(struct mail_entry, link), .fit = receive_fit};
    uint64_t last;
    bool sound = are_sound(&posted, box->receives);
    posted.fit = wild_fit;
    sound &= chain_is_sound(&posted, &box->wild, 0, &last);
    if (sound)
        correct(box->posted, &posted);
    if (!mend_messages(e, h, box, !sound || total(&posted) || e->mail.probes) || !sound)
        end_all(e, box);
    transaction_leave(&hold);
}
