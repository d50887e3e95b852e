/* Changes of a stripe: each is one of its section, so that a process which dies leaves the element as it
 * was, or as it should be. */
#include "containers/map_bucket.h"
#include "base/word.h"
#include "containers/map_slots.h"
#include "containers/pickle_add.h"
#include "containers/reduce_ops.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <string.h>

#define GRAVES_BEFORE 8u /* removed with an element before a free slot */

/* The element in a block of its own, in the change that is under way. */
static int make_box(struct hold *hold, struct stripe *s, const struct element *e, uint64_t *block)
{
    const struct heap *h = hold->heap;
    uint64_t value = words_of(e->value_size), key = words_of(e->key_size);
    *block = e->box;
    if (!*block) {
        int rc = transaction_take(hold, sizeof(struct box) + 8 * (value + key), block);
        if (rc != ACP_OK)
            return rc;
        uint64_t sizes[2] = {e->key_size, e->value_size};
        uint64_t *words = (uint64_t *)(void *)(map_bucket_box(h, *block) + 1);
        words_in(&map_bucket_box(h, *block)->key_size, sizes, sizeof sizes);
        words_in(words, e->value, e->value_size);
        words_in(words + value, e->key, e->key_size);
    }
    __atomic_store_n(&map_bucket_box(h, *block)->stamp, s->stamp + 1, __ATOMIC_RELAXED);
    transaction_set(hold, &s->stamp, s->stamp + 1);
    return ACP_OK;
}

static void count_up(struct hold *hold, const struct shape *shape, struct stripe *s, const void *value,
                     const void *instead)
{
    uint64_t now = 0, before = 0;
    if (!shape->counts)
        return;
    if (value)
        memcpy(&now, value, 8);
    if (instead)
        memcpy(&before, instead, 8);
    transaction_set(hold, &s->total, s->total + now - before);
}

static int element_add(struct hold *hold, const struct shape *shape, struct stripe *s, const struct element *e,
                       struct answer *answer)
{
    struct slots t;
    uint64_t *slot = NULL, block;
    bool more;
    int rc;
    /* The clearing of the stripe may have been interrupted, or its process killed, before all was given back. */
    if (unlikely(s->dying) && (rc = map_slots_sweep(hold, shape, s, &more)) != ACP_OK)
        return rc;
    if (map_slots_crowded(s) && (rc = map_slots_reserve(hold, shape, s, s->count + 1)) != ACP_OK)
        return rc;
    while (!slot) {
        if (!map_slots_look(hold->heap, shape, s->slots, s->log, &t))
            return map_bucket_damaged(hold->lane);
        slot = map_slots_free_from(&t, shape, e->hash);
        if (!slot && (rc = map_slots_rebuild(hold, shape, s, s->log + 1)) != ACP_OK)
            return rc;
    }
    if (!map_bucket_settled(hold))
        return ACP_E_BUSY;
    transaction_begin(hold);
    if (shape->boxed) {
        rc = make_box(hold, s, e, &block);
        if (rc != ACP_OK) {
            transaction_cancel(hold);
            return rc;
        }
        __atomic_store_n(slot + 1, block, __ATOMIC_RELAXED);
        answer->adopted = e->box != 0;
    } else {
        words_in(slot + 1, e->key, e->key_size);
        words_in(slot + 1 + words_of(e->key_size), e->value, e->value_size);
    }
    if (*slot == SLOT_GRAVE)
        transaction_set(hold, &s->graves, s->graves - 1);
    transaction_set(hold, slot, e->hash);
    transaction_set(hold, &s->count, s->count + 1);
    count_up(hold, shape, s, e->value, NULL);
    transaction_commit(hold);
    return ACP_OK;
}

static void tell(const struct heap *h, const struct element *now, struct answer *answer)
{
    answer->found = FOUND;
    answer->key_size = now->key_size;
    answer->value_size = now->value_size;
    answer->value_at = (uint64_t)((const unsigned char *)now->value - h->base);
    answer->stamp = now->box ? map_bucket_box(h, now->box)->stamp : 0;
    if (answer->out && now->value_size > answer->room) {
        answer->found = FOUND_LARGE;
    } else if (answer->out) {
        words_out(answer->out, now->value, now->value_size);
        answer->size = now->value_size;
    }
}

static int element_replace(struct hold *hold, const struct shape *shape, struct stripe *s, uint64_t *slot,
                           const struct element *old, const struct element *e, struct answer *answer)
{
    uint64_t *value = (uint64_t *)(uintptr_t)old->value, word, block;
    transaction_begin(hold);
    if (!e->box && e->value_size == old->value_size && e->value_size <= INLINE_MOST) {
        count_up(hold, shape, s, e->value, old->value);
        for (uint64_t at = 0; at < e->value_size; at += 8) {
            word = 0;
            memcpy(&word, (const unsigned char *)e->value + at,
                   e->value_size - at < 8 ? e->value_size - at : 8);
            transaction_set(hold, value + at / 8, word);
        }
    } else {
        int rc = make_box(hold, s, e, &block);
        if (rc != ACP_OK) {
            transaction_cancel(hold);
            return rc;
        }
        answer->adopted = e->box != 0;
        transaction_set(hold, slot + 1, block);
        transaction_drop(hold, old->box);
    }
    transaction_commit(hold);
    return ACP_OK;
}

/* Takes a slot out of use, and the graves that no search has to step over any more. */
static void box_bury(struct hold *hold, const struct shape *shape, struct stripe *s, uint64_t *slot,
                     const struct element *old)
{
    struct slots t;
    uint64_t graves = s->graves, *next = slot + shape->unit;
    if (!map_slots_look(hold->heap, shape, s->slots, s->log, &t) || !t.slots || slot < t.slots) {
        map_bucket_damaged(hold->lane);
        hold->lane->damaged = true;
        return;
    }
    transaction_begin(hold);
    if (next < map_bucket_slot(&t, shape, t.places) && *next != SLOT_FREE) {
        transaction_set(hold, slot, SLOT_GRAVE);
        graves++;
    } else {
        transaction_set(hold, slot, SLOT_FREE);
        for (uint32_t i = 0; i < GRAVES_BEFORE && slot > t.slots; i++) {
            slot -= shape->unit;
            if (*slot != SLOT_GRAVE)
                break;
            transaction_set(hold, slot, SLOT_FREE);
            graves--;
        }
    }
    if (graves != s->graves)
        transaction_set(hold, &s->graves, graves);
    transaction_set(hold, &s->count, s->count - 1);
    count_up(hold, shape, s, NULL, old->value);
    if (old->box)
        transaction_drop(hold, old->box);
    transaction_commit(hold);
}

static int alter(struct hold *hold, const struct shape *shape, struct stripe *s, uint64_t *slot,
                 const struct element *old, const struct element *e, enum put_how how,
                 struct answer *answer)
{
    uint64_t word = *(const uint64_t *)old->value, operand = 0;
    memcpy(&operand, e->value, e->value_size);
    answer->found = FOUND;
    if (how == PUT_TAKE)
        word = word > operand ? word - operand : 0;
    else
        reduce_ops_combine(shape->number, how, &word, &operand);
    if (answer->out && answer->room >= old->value_size) {
        memcpy(answer->out, &word, old->value_size);
        answer->size = old->value_size;
    }
    if (how == PUT_TAKE && !word) {
        box_bury(hold, shape, s, slot, old);
        return ACP_OK;
    }
    transaction_begin(hold);
    count_up(hold, shape, s, &word, old->value);
    transaction_set(hold, (uint64_t *)(uintptr_t)old->value, word);
    transaction_commit(hold);
    return ACP_OK;
}

/* Adds two objects; the sum is made in answer->out. */
static int sum_up(struct hold *hold, const struct shape *shape, struct stripe *s, uint64_t *slot,
                  const struct element *old, const struct element *e, struct answer *answer)
{
    struct element sum = {.hash = e->hash, .key = e->key, .key_size = e->key_size,
                          .value = answer->out};
    answer->found = pickle_add(old->value, old->value_size, e->value, e->value_size, answer->out,
                               answer->room, &sum.value_size);
    answer->value_size = sum.value_size;
    if (answer->found != FOUND)
        return ACP_OK;
    answer->size = sum.value_size;
    return element_replace(hold, shape, s, slot, old, &sum, answer);
}

/* The slot of an element in the table, and its contents. */
static int element_locate(struct hold *hold, const struct shape *shape, const struct stripe *s,
                          const struct element *e, uint64_t **slot, struct element *old)
{
    struct slots t;
    *slot = NULL;
    if (!map_bucket_settled(hold))
        return ACP_E_BUSY;
    if (!map_slots_look(hold->heap, shape, s->slots, s->log, &t))
        return map_bucket_damaged(hold->lane);
    *slot = map_slots_find(hold->heap, shape, &t, e);
    return !*slot || map_slots_read(hold->heap, shape, *slot, old) ? ACP_OK : map_bucket_damaged(hold->lane);
}

/* Whether the sum of all counts has room in its word, and each count as well. `old` NULL: a new key. */
static bool box_has_room(const struct shape *shape, const struct stripe *s, const struct element *e,
                         enum put_how how, const struct element *old)
{
    uint64_t rest = s->total, count = 0, sum;
    if (!shape->counts || how == PUT_TAKE || (old && how == PUT_INSERT))
        return true;
    if (old && how == PUT_ASSIGN)
        rest -= *(const uint64_t *)old->value;
    memcpy(&count, e->value, sizeof count);
    return !__builtin_add_overflow(rest, count, &sum);
}

static bool combines(const struct shape *shape, enum put_how how)
{
    uint64_t a = 0, b = 0;
    return how == PUT_TAKE ? shape->counts : reduce_ops_combine(shape->number, how, &a, &b);
}

int map_bucket_put(struct hold *hold, const struct shape *shape, struct stripe *s,
                   const struct element *e, enum put_how how, struct answer *answer)
{
    struct element old;
    uint64_t *slot;
    bool summed = how == PUT_ADD && shape->number == NUMBER_OBJECT && answer->out;
    int rc = element_locate(hold, shape, s, e, &slot, &old);
    answer->found = FOUND_NOT;
    answer->size = 0;
    answer->adopted = false;
    if (rc != ACP_OK)
        return rc;
    if (how > PUT_ASSIGN && !summed && (!combines(shape, how) || e->value_size > 8)) {
        hold->lane->fault = (acp_fault){.status = ACP_E_ARGUMENT, .size = how};
        return ACP_E_ARGUMENT;
    }
    if (unlikely(!box_has_room(shape, s, e, how, slot ? &old : NULL))) {
        hold->lane->fault = (acp_fault){.status = ACP_E_OVERFLOW};
        memcpy(&hold->lane->fault.size, e->value, sizeof hold->lane->fault.size);
        return ACP_E_OVERFLOW;
    }
    if (!slot)
        return how == PUT_TAKE ? ACP_OK : element_add(hold, shape, s, e, answer);
    if (summed)
        return sum_up(hold, shape, s, slot, &old, e, answer);
    if (how > PUT_ASSIGN)
        return alter(hold, shape, s, slot, &old, e, how, answer);
    tell(hold->heap, &old, answer);
    return how == PUT_ASSIGN ? element_replace(hold, shape, s, slot, &old, e, answer) : ACP_OK;
}

int map_bucket_erase(struct hold *hold, const struct shape *shape, struct stripe *s,
                     const struct element *e, uint64_t stamp, struct answer *answer)
{
    struct element old;
    uint64_t *slot;
    int rc = element_locate(hold, shape, s, e, &slot, &old);
    answer->found = FOUND_NOT;
    answer->size = 0;
    if (rc != ACP_OK || !slot || (stamp && (!old.box || map_bucket_box(hold->heap, old.box)->stamp != stamp)))
        return rc;
    tell(hold->heap, &old, answer);
    if (answer->found == FOUND)
        box_bury(hold, shape, s, slot, &old);
    return ACP_OK;
}
