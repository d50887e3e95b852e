/* A short message is left in its sender's box, and taken from there. */
#include "messages/fastbox.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"
#include "messages/match.h"

#include <string.h>

#define WORDS (ACP_FAST_MOST / 8)
static_assert(ACP_FAST_MOST < 256 && ACP_FAST_MOST % 8 == 0, "its size is a byte of the stamp");
static_assert(sizeof(struct fast_slot) == 192, "three cache lines");

static uint64_t stamp_of(uint64_t number, uint64_t size)
{
    return (number + 1) << 8 | size;
}

static struct fastboxes *boxes_of(acp_engine *e, struct peer *p)
{
    struct heap *h = mail_heap(e, p);
    return h ? &h->head->mailbox.fast : NULL;
}

/* Nobody sleeps, nothing waits: who comes next looks into the boxes. */
static bool is_quiet(const struct mailbox *box)
{
    return !(__atomic_load_n(&box->posted, __ATOMIC_SEQ_CST) | __atomic_load_n(&box->probing, __ATOMIC_SEQ_CST));
}

static bool keeps_none(const struct mailbox *box)
{
    return !__atomic_load_n(&box->kept, __ATOMIC_ACQUIRE);
}

/* Nothing comes before what is in a box: no message that its sender sent earlier, and no receive that was posted
 * earlier, which gets it if its sender has not seen that in time. */
static bool is_first(const struct mailbox *box)
{
    return !__atomic_load_n(&box->posted, __ATOMIC_ACQUIRE) && keeps_none(box);
}

/* Letters are there to bring it to the mailbox, even if the heap is full. */
static bool has_letters(const struct mailbox *box)
{
    return __atomic_load_n(&box->free, __ATOMIC_RELAXED) != 0;
}

/* The box in which this process leaves what it sends there: the first time after a reset it may get one. */
static struct fastbox *box_at(acp_engine *e, struct peer *to)
{
    struct fast_sender *s = &to->mail.fast;
    uint32_t era = e->mail.era + 1;
    if (likely(atomic_load_explicit(&s->era, memory_order_relaxed) == era))
        return s->box;
    struct fastboxes *all = boxes_of(e, to);
    if (!all || to == e->job.own)
        return NULL;
    uint32_t i = e->rank % FAST_BOXES;
    struct fastbox *b = &all->boxes[i];
    uint64_t nobody = 0;
    bool mine = __atomic_compare_exchange_n(&b->owner, &nobody, (uint64_t)e->rank + 1, false,
                                            __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    s->box = mine ? b : NULL;
    s->seen = __atomic_load_n(&b->taken, __ATOMIC_ACQUIRE) & ~FAST_BUSY; /* it is empty, or new */
    atomic_store_explicit(&s->sent, s->seen, memory_order_relaxed);
    if (mine)
        __atomic_fetch_or(&all->owned, (uint64_t)1 << i, __ATOMIC_SEQ_CST);
    atomic_store_explicit(&s->era, era, memory_order_release); /* now other threads may look */
    return s->box;
}

static bool has_room(struct fast_sender *s, uint64_t sent)
{
    if (likely(sent - s->seen < FAST_SLOTS))
        return true;
    uint64_t taken = __atomic_load_n(&s->box->taken, __ATOMIC_ACQUIRE);
    if (taken & FAST_BUSY) /* who brings it may die, and then that is taken back */
        return false;
    s->seen = taken;
    return sent - taken < FAST_SLOTS;
}

static void fill(struct fast_slot *slot, const acp_envelope *m, const void *data, uint64_t number)
{
    uint64_t words[WORDS], count = fast_words(m->size);
    if (count) {
        words[count - 1] = 0; /* what is behind its end */
        memcpy(words, data, m->size);
    }
    __atomic_store_n(&slot->context, m->context, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->tag, (uint64_t)m->tag, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->note, m->note, __ATOMIC_RELAXED);
    for (uint64_t i = 0; i < count; i++)
        __atomic_store_n(&slot->data[i], words[i], __ATOMIC_RELAXED);
    __atomic_store_n(&slot->stamp, stamp_of(number, m->size), __ATOMIC_SEQ_CST);
}

bool fast_put(acp_lane *lane, struct peer *to, const acp_envelope *m, const void *data)
{
    struct fastbox *b = lane->index == LANE_CALLER ? box_at(lane->engine, to) : NULL;
    struct heap *h = b ? atomic_load_explicit(&to->shm.heap, memory_order_relaxed) : NULL;
    const struct mailbox *box = h ? &h->head->mailbox : NULL;
    if (!box || !is_quiet(box) || !keeps_none(box) || !has_letters(box))
        return false;
    struct fast_sender *s = &to->mail.fast;
    uint64_t number = atomic_load_explicit(&s->sent, memory_order_relaxed), untaken = number;
    if (!has_room(s, number))
        return false;
    atomic_store_explicit(&s->sent, number + 1, memory_order_relaxed);
    fault_point();
    fill(&b->slots[number % FAST_SLOTS], m, data, number);
    fault_point();
    if (likely(is_quiet(box)))
        return true;
    /* Who has posted a receive meanwhile may have looked before this was there. If another is before it, then that
     * was seen, and this is brought with it. */
    return !__atomic_compare_exchange_n(&b->taken, &untaken, number + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

bool fast_before(const acp_engine *e, const struct peer *to)
{
    const struct fast_sender *s = &to->mail.fast;
    return atomic_load_explicit(&s->era, memory_order_acquire) == e->mail.era + 1 && s->box &&
           __atomic_load_n(&s->box->taken, __ATOMIC_ACQUIRE) !=
               atomic_load_explicit(&s->sent, memory_order_relaxed);
}

void fast_read(const struct fastbox *b, uint64_t number, uint64_t size, acp_fast *message)
{
    const struct fast_slot *slot = &b->slots[number % FAST_SLOTS];
    message->envelope = (acp_envelope){
        .context = __atomic_load_n(&slot->context, __ATOMIC_RELAXED),
        .source = (int64_t)__atomic_load_n(&b->owner, __ATOMIC_RELAXED) - 1,
        .tag = (int64_t)__atomic_load_n(&slot->tag, __ATOMIC_RELAXED),
        .note = __atomic_load_n(&slot->note, __ATOMIC_RELAXED), .size = size};
    for (uint64_t i = 0; i < fast_words(size); i++)
        message->data[i] = __atomic_load_n(&slot->data[i], __ATOMIC_RELAXED);
}

/* The first message of a box: copied, so that it is whole if nobody has taken it when this one does. */
static bool read_first(struct fastbox *b, acp_fast *message)
{
    uint64_t taken = __atomic_load_n(&b->taken, __ATOMIC_ACQUIRE), size;
    if (taken & FAST_BUSY || !fast_full(b, taken, &size))
        return false;
    fast_read(b, taken, size, message);
    message->number = taken;
    message->place = b;
    return true;
}

static struct fastbox *box_of_source(struct fastboxes *all, int64_t source)
{
    struct fastbox *b = &all->boxes[(uint64_t)source % FAST_BOXES];
    return __atomic_load_n(&b->owner, __ATOMIC_RELAXED) == (uint64_t)source + 1 ? b : NULL;
}

static bool fits(const acp_fast *message, const acp_envelope *want)
{
    const acp_envelope *m = &message->envelope;
    return m->context == want->context && (want->tag == ACP_ANY || want->tag == m->tag);
}

static bool look_at_some(acp_engine *e, struct fastboxes *all, uint64_t which, const acp_envelope *want,
                         acp_fast *message)
{
    for (; which; which &= which - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(which);
        if (read_first(&all->boxes[i], message) && fits(message, want)) {
            atomic_store_explicit(&e->mail.fast_turn, i + 1, memory_order_relaxed);
            return true;
        }
    }
    return false;
}

/* From whomever: in turn, lest one that sends all the time keeps the others out. */
static bool look_at_all(acp_engine *e, struct fastboxes *all, const acp_envelope *want, acp_fast *message)
{
    uint32_t from = atomic_load_explicit(&e->mail.fast_turn, memory_order_relaxed) % FAST_BOXES;
    uint64_t owned = fast_owned(all), behind = owned >> from << from;
    return look_at_some(e, all, behind, want, message) || look_at_some(e, all, owned ^ behind, want, message);
}

bool acp_fast_look(acp_engine *e, const acp_envelope *want, acp_fast *message)
{
    struct heap *h = atomic_load_explicit(&e->job.own->shm.heap, memory_order_acquire);
    if (unlikely(!h))
        return false;
    struct fastboxes *all = &h->head->mailbox.fast;
    if (want->source == ACP_ANY)
        return look_at_all(e, all, want, message) && is_first(&h->head->mailbox);
    struct fastbox *b = box_of_source(all, want->source);
    return b && read_first(b, message) && fits(message, want) && is_first(&h->head->mailbox);
}

bool acp_fast_take(const acp_fast *message)
{
    struct fastbox *b = message->place;
    uint64_t number = message->number;
    return __atomic_compare_exchange_n(&b->taken, &number, number + 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

static bool is_there(const struct fastbox *b)
{
    uint64_t taken = __atomic_load_n(&b->taken, __ATOMIC_ACQUIRE), size;
    return taken & FAST_BUSY || fast_full(b, taken, &size);
}

static bool any_there(const struct fastboxes *all)
{
    uint64_t owned = fast_owned(all);
    for (; owned; owned &= owned - 1)
        if (is_there(&all->boxes[__builtin_ctzll(owned)]))
            return true;
    return false;
}

bool fast_any(const struct heap *h)
{
    return any_there(&h->head->mailbox.fast);
}

bool fast_stirs(acp_engine *e, const acp_envelope *want)
{
    struct heap *h = atomic_load_explicit(&e->job.own->shm.heap, memory_order_acquire);
    if (!h || !keeps_none(&h->head->mailbox) || !is_quiet(&h->head->mailbox))
        return true;
    struct fastboxes *all = &h->head->mailbox.fast;
    if (want->source == ACP_ANY)
        return any_there(all);
    const struct fastbox *b = box_of_source(all, want->source);
    return b && is_there(b);
}
