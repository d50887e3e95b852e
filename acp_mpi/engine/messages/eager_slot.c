/* Eager slots: filling, taking and closing them. */
#include "messages/eager_slot.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "messages/mailbox.h"
#include "messages/match.h"

#include <sched.h>
#include <string.h>

#define LOOKS 200u /* at a slot that is full */

static struct eager *eager_of(acp_engine *e, struct peer *p)
{
    struct heap *h = mailbox_heap(e, p);
    return h ? &mailbox_of(h)->eager : NULL;
}

static bool slot_claim(struct eager_slot *s, uint64_t from)
{
    return __atomic_compare_exchange_n(&s->state, &from, from - from % EAGER_STATES + EAGER_CLAIMED + EAGER_CLAIM,
                                       false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static bool is_of(const struct eager_slot *s, uint64_t context, uint32_t source)
{
    return __atomic_load_n(&s->context, __ATOMIC_RELAXED) == context &&
           __atomic_load_n(&s->source, __ATOMIC_RELAXED) == source;
}

/* Above the bits of a size. */
static uint32_t check_of(uint64_t context, uint32_t source, uint64_t note)
{
    return (uint32_t)(mailbox_envelope_sealed(context, source, note) >> 40) << 8;
}

/* Is the envelope of a full slot what its sender wrote? */
static bool is_whole(const struct eager_slot *s)
{
    uint64_t context = __atomic_load_n(&s->context, __ATOMIC_RELAXED), note = __atomic_load_n(&s->note, __ATOMIC_RELAXED);
    uint32_t check = check_of(context, __atomic_load_n(&s->source, __ATOMIC_RELAXED), note);
    return (__atomic_load_n(&s->size, __ATOMIC_RELAXED) & ~0xffu) == check;
}

static uint64_t size_in(const struct eager_slot *s)
{
    uint64_t size = s->size & 0xff;
    return size < EAGER_MOST ? size : EAGER_MOST;
}

static bool is_full(const struct eager_slot *s, uint64_t *state)
{
    *state = __atomic_load_n(&s->state, __ATOMIC_SEQ_CST);
    return *state % EAGER_STATES == EAGER_FULL;
}

/* Claims a full slot, also while others change the count in its state. */
static bool claim_full(struct eager_slot *s)
{
    uint64_t state;
    while (is_full(s, &state))
        if (slot_claim(s, state))
            return true;
    return false;
}

static bool claim_message(struct eager_slot *s, uint64_t context, uint32_t source)
{
    uint64_t state;
    while (is_full(s, &state) && is_of(s, context, source))
        if (slot_claim(s, state))
            return true;
    return false;
}

/* Ends a claim, by its holder. */
static void become(struct eager_slot *s, uint64_t what)
{
    if (what == EAGER_EMPTY)
        __atomic_store_n(&s->context, 0, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->state, what - EAGER_CLAIMED, __ATOMIC_SEQ_CST);
}

static uint16_t turned(const struct eager_slot *s)
{
    return (uint16_t)(__atomic_load_n(&s->state, __ATOMIC_RELAXED) / EAGER_TURN);
}

/* Waits for a receiver that is awake to empty the slot; a receiver that left this same message unclaimed before counts
 * as not awake. Returns the state at the end. */
static uint64_t await_empty(const struct eager *eager, const struct eager_slot *s, uint32_t source,
                            _Atomic uint32_t *stuck)
{
    uint64_t state = __atomic_load_n(&s->state, __ATOMIC_RELAXED), claims = state / EAGER_CLAIM;
    if (state % EAGER_STATES == EAGER_EMPTY || claims == atomic_load_explicit(stuck, memory_order_relaxed) ||
        __atomic_load_n(&s->source, __ATOMIC_RELAXED) != source)
        return state;
    for (uint32_t i = 0; i < LOOKS && state % EAGER_STATES != EAGER_EMPTY &&
                         !__atomic_load_n(&eager->closed, __ATOMIC_RELAXED); i++) {
        linux_cpu_relax();
        state = __atomic_load_n(&s->state, __ATOMIC_RELAXED);
    }
    if (state / EAGER_CLAIM == claims)
        atomic_store_explicit(stuck, (uint32_t)claims, memory_order_relaxed);
    return state;
}

static bool slot_fill(struct eager *eager, struct eager_slot *s, struct peer *to, const acp_envelope *m,
                      const void *data)
{
    uint32_t source = (uint32_t)m->source;
    uint64_t state = await_empty(eager, s, source, &to->mail.eager_stuck[m->context % EAGER_EACH]);
    if (__atomic_load_n(&eager->closed, __ATOMIC_RELAXED) || state % EAGER_STATES != EAGER_EMPTY ||
        !slot_claim(s, state))
        return false;
    __atomic_store_n(&s->context, m->context, __ATOMIC_RELAXED);
    __atomic_store_n(&s->source, source, __ATOMIC_RELAXED);
    __atomic_store_n(&s->note, m->note, __ATOMIC_RELAXED);
    __atomic_store_n(&s->size, (uint32_t)m->size | check_of(m->context, source, m->note), __ATOMIC_RELAXED);
    if (m->size)
        memcpy(s->data, data, m->size);
    become(s, EAGER_FULL);
    /* The owner looks at the slots after it has closed them: it finds this message, or this finds the slots closed. */
    if (likely(!__atomic_load_n(&eager->closed, __ATOMIC_SEQ_CST)) || !claim_message(s, m->context, source))
        return true;
    become(s, EAGER_EMPTY);
    return false;
}

bool eager_slot_put(acp_engine *e, struct peer *to, const acp_envelope *m, const void *data)
{
    struct eager *eager = eager_of(e, to);
    uint32_t i = eager_slot_of(m->context, (uint32_t)m->source);
    return eager && to != e->job.own && slot_fill(eager, &eager->slots[i], to, m, data);
}

void eager_slot_divert(acp_engine *e, struct peer *to, uint64_t context)
{
    struct eager *eager = eager_of(e, to);
    if (eager)
        __atomic_fetch_add(&eager->slots[eager_slot_of(context, e->rank)].state, EAGER_TURN, __ATOMIC_RELAXED);
}

bool eager_slot_diverted(acp_engine *e, uint64_t context, uint32_t source)
{
    const struct eager *eager = eager_of(e, e->job.own);
    uint32_t i = eager_slot_of(context, source);
    return eager && turned(&eager->slots[i]) != atomic_load_explicit(&e->mail.eager_seen[i], memory_order_relaxed);
}

void eager_slot_found(acp_engine *e, uint64_t context, uint32_t source, bool is)
{
    const struct eager *eager = eager_of(e, e->job.own);
    uint32_t i = eager_slot_of(context, source);
    if (is)
        atomic_fetch_add_explicit(&e->mail.eager_seen[i], 1, memory_order_relaxed);
    else if (eager)
        atomic_store_explicit(&e->mail.eager_seen[i], turned(&eager->slots[i]), memory_order_relaxed);
}

bool eager_slot_has(acp_engine *e, uint64_t context, uint32_t source)
{
    const struct eager *eager = eager_of(e, e->job.own);
    const struct eager_slot *s = eager ? &eager->slots[eager_slot_of(context, source)] : NULL;
    uint64_t state;
    return s && is_full(s, &state) && is_of(s, context, source);
}

bool eager_slot_take(acp_engine *e, acp_envelope *m, void *buffer)
{
    struct eager *eager = eager_of(e, e->job.own);
    struct eager_slot *s = eager ? &eager->slots[eager_slot_of(m->context, (uint32_t)m->source)] : NULL;
    if (!s || !claim_message(s, m->context, (uint32_t)m->source))
        return false;
    uint64_t room = m->size, size = size_in(s);
    m->size = size;
    m->note = s->note;
    if (size && buffer)
        memcpy(buffer, s->data, size < room ? size : room);
    become(s, EAGER_EMPTY);
    return true;
}

/* Moves a slot's message to its receiver's mailbox, as if it had come there. ACP_E_BUSY: not yet. */
static int slot_deliver(acp_lane *lane, struct peer *to, struct eager_slot *s, bool *moved)
{
    acp_engine *e = lane->engine;
    struct landing landing;
    acp_envelope m = {.context = s->context, .source = s->source, .note = s->note, .size = size_in(s)};
    int rc = is_whole(s) ? match_arrive(lane, to, &m, s->data, true, e->self, &landing) : ACP_E_DAMAGED;
    if (rc == ACP_OK) {
        __atomic_fetch_add(&s->state, EAGER_TURN, __ATOMIC_RELAXED);
        *moved = true;
    }
    become(s, rc == ACP_OK ? EAGER_EMPTY : EAGER_FULL);
    return rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED ? rc : ACP_OK; /* no room, or lost: eager_slot_lacks finds that */
}

int eager_slot_flush(acp_lane *lane, bool *moved)
{
    acp_engine *e = lane->engine;
    struct eager *eager = eager_of(e, e->job.own);
    int rc = ACP_OK;
    *moved = false;
    for (uint32_t i = 0; eager && rc == ACP_OK && i < EAGER_SLOTS; i++)
        if (claim_full(&eager->slots[i]))
            rc = slot_deliver(lane, e->job.own, &eager->slots[i], moved);
    return rc;
}

/* A message that another is just moving to the mailbox is not overtaken either, unless that process has died. */
int eager_slot_recall(acp_lane *lane, struct peer *to, uint64_t context)
{
    uint32_t source = lane->engine->rank;
    bool moved;
    struct eager *eager = eager_of(lane->engine, to);
    struct eager_slot *s = eager ? &eager->slots[eager_slot_of(context, source)] : NULL;
    for (uint32_t i = 0; s && i < LOOKS && is_of(s, context, source); i++) {
        if (claim_message(s, context, source))
            return slot_deliver(lane, to, s, &moved);
        if (__atomic_load_n(&s->state, __ATOMIC_SEQ_CST) % EAGER_STATES != EAGER_CLAIMED)
            break;
        sched_yield();
    }
    return ACP_OK;
}

bool eager_slot_lacks(acp_engine *e, uint64_t context, uint32_t source)
{
    struct eager *eager = eager_of(e, e->job.own);
    bool any = false;
    for (uint32_t i = 0; eager && i < EAGER_SLOTS; i++) {
        struct eager_slot *s = &eager->slots[i];
        uint64_t state = __atomic_load_n(&s->state, __ATOMIC_SEQ_CST), what = state % EAGER_STATES;
        uint64_t its = __atomic_load_n(&s->context, __ATOMIC_RELAXED);
        bool full = what == EAGER_FULL, known = eager_slot_of(its, __atomic_load_n(&s->source, __ATOMIC_RELAXED)) == i;
        if (what == EAGER_CLAIMED || (full ? is_whole(s) : !its || (known && !is_of(s, context, source))) ||
            !slot_claim(s, state)) /* its state, with the count, is as it was: no other claim was between */
            continue;
        any |= full || __atomic_load_n(&s->context, __ATOMIC_RELAXED) != 0;
        become(s, EAGER_EMPTY);
    }
    return any;
}

void eager_slot_purge(acp_engine *e)
{
    struct heap *h = mailbox_heap(e, e->job.own);
    for (uint32_t i = 0; h && i < EAGER_SLOTS; i++) {
        struct eager_slot *s = &mailbox_of(h)->eager.slots[i];
        uint64_t state, context;
        if (!is_full(s, &state))
            continue;
        context = __atomic_load_n(&s->context, __ATOMIC_RELAXED);
        if (mailbox_context_ended(mailbox_of(h), context) &&
            claim_message(s, context, __atomic_load_n(&s->source, __ATOMIC_RELAXED)))
            become(s, EAGER_EMPTY);
    }
}

void eager_slot_close(acp_engine *e)
{
    struct eager *eager = eager_of(e, e->job.own);
    if (eager)
        __atomic_fetch_add(&eager->closed, 1, __ATOMIC_SEQ_CST);
}

void eager_slot_open(acp_engine *e)
{
    struct eager *eager = eager_of(e, e->job.own);
    if (eager)
        __atomic_fetch_sub(&eager->closed, 1, __ATOMIC_SEQ_CST);
}
