/* The slots of a stripe: their contents, growth, and the end of cleared ones. */
#include "containers/map_slots.h"
#include "base/word.h"
#include "containers/map_bucket.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <string.h>

#define LINE_WORDS 8u
#define LEAST_LOG ((uint64_t)3)
#define SWEEPS 256u /* changes in one go */

static bool words_same(const uint64_t *at, const void *key, uint64_t size)
{
    const unsigned char *p = key;
    uint64_t word;
    for (; size >= 8; size -= 8, p += 8) {
        memcpy(&word, p, 8);
        if (word_load(at++) != word)
            return false;
    }
    if (!size)
        return true;
    word = 0;
    memcpy(&word, p, size);
    return word_load(at) == word;
}

int map_slots_shape(struct shape *shape, uint64_t key_size, uint64_t value_size, uint64_t number,
                    uint64_t counts)
{
    bool boxed = key_size > INLINE_MOST || value_size > INLINE_MOST;
    if ((key_size != SIZE_ANY && key_size >> 32) || (value_size != SIZE_ANY && value_size >> 32))
        return ACP_E_ARGUMENT;
    *shape = (struct shape){
        .key_size = key_size, .value_size = value_size, .boxed = boxed, .number = number,
        .counts = counts, .unit = boxed ? 2 : 1 + words_of(key_size) + words_of(value_size)};
    return ACP_OK;
}

bool map_slots_sound(const struct shape *shape)
{
    struct shape made;
    return map_slots_shape(&made, shape->key_size, shape->value_size, shape->number, shape->counts) == ACP_OK &&
           made.boxed == shape->boxed && made.unit == shape->unit &&
           (!shape->counts || shape->value_size == 8);
}

bool map_slots_read_box(const struct heap *h, uint64_t at, struct element *e)
{
    uint64_t span = h->span;
    if (at % 8 || at > span - sizeof(struct box))
        return false;
    const struct box *box = (const struct box *)(const void *)(h->base + at);
    const uint64_t *words = (const uint64_t *)(const void *)(box + 1);
    uint64_t key = word_load(&box->key_size), value = word_load(&box->value_size);
    if (key > span || value > span ||
        8 * (words_of(key) + words_of(value)) > span - at - sizeof *box)
        return false;
    *e = (struct element){.key = words + words_of(value), .key_size = key, .value = words,
                          .value_size = value, .box = at};
    return true;
}

bool map_slots_read(const struct heap *h, const struct shape *shape, const uint64_t *slot,
                    struct element *e)
{
    if (shape->boxed)
        return map_slots_read_box(h, word_load(slot + 1), e);
    *e = (struct element){.key = slot + 1, .key_size = shape->key_size,
                          .value = slot + 1 + words_of(shape->key_size),
                          .value_size = shape->value_size};
    return true;
}

bool map_slots_look(const struct heap *h, const struct shape *shape, uint64_t slots, uint64_t log,
                    struct slots *out)
{
    *out = (struct slots){.slots = NULL};
    if (!slots)
        return true;
    if (log < 1 || log > 40 || slots % 8)
        return false;
    uint64_t places = (1ull << log) + 4 * log, bytes = 8 * places * shape->unit;
    if (bytes > h->span || slots > h->span - bytes)
        return false;
    *out = (struct slots){(uint64_t *)(void *)(h->base + slots), log, places};
    return true;
}

uint64_t *map_slots_find(const struct heap *h, const struct shape *shape, const struct slots *t,
                         const struct element *e)
{
    struct element other;
    if (!t->slots)
        return NULL;
    uint64_t *slot = map_bucket_slot(t, shape, map_bucket_place(e->hash, t->log));
    uint64_t *end = map_bucket_slot(t, shape, t->places);
    for (; slot < end; slot += shape->unit) {
        uint64_t hash = word_load(slot);
        if (hash == SLOT_FREE)
            return NULL;
        if (hash != e->hash)
            continue;
        if (!shape->boxed && likely(words_same(slot + 1, e->key, shape->key_size)))
            return slot;
        if (shape->boxed && map_slots_read(h, shape, slot, &other) && other.key_size == e->key_size &&
            words_same(other.key, e->key, e->key_size))
            return slot;
    }
    return NULL;
}

void map_slots_fetch(const struct heap *h, const struct shape *shape, const struct stripe *s,
                     uint64_t hash)
{
    struct slots t;
    if (!map_slots_look(h, shape, word_load(&s->slots), word_load(&s->log), &t) || !t.slots)
        return;
    const uint64_t *slot = map_bucket_slot(&t, shape, map_bucket_place(hash, t.log));
    __builtin_prefetch(slot);
    __builtin_prefetch(slot + LINE_WORDS - 1); /* it may reach into the next line */
}

bool map_slots_crowded(const struct stripe *s)
{
    return !s->slots || (s->count + s->graves + 1) * 3 > 2ull << s->log;
}

uint64_t *map_slots_free_from(const struct slots *t, const struct shape *shape, uint64_t hash)
{
    uint64_t *slot = map_bucket_slot(t, shape, map_bucket_place(hash, t->log));
    uint64_t *end = map_bucket_slot(t, shape, t->places);
    while (slot < end && *slot > SLOT_GRAVE)
        slot += shape->unit;
    return slot < end ? slot : NULL;
}

/* No reader uses `to` yet, but one that will start anew may still look at the old contents there. */
static bool rehash(const struct slots *to, const struct slots *from, const struct shape *shape)
{
    words_clear(to->slots, to->places * shape->unit);
    for (uint64_t i = 0; i < from->places; i++) {
        const uint64_t *old = map_bucket_slot(from, shape, i);
        if (*old <= SLOT_GRAVE)
            continue;
        uint64_t *slot = map_slots_free_from(to, shape, *old);
        if (!slot)
            return false;
        words_in(slot, old, 8 * shape->unit);
    }
    return true;
}

int map_slots_rebuild(struct hold *hold, const struct shape *shape, struct stripe *s, uint64_t log)
{
    struct slots from, to;
    uint64_t block;
    if (!map_slots_look(hold->heap, shape, s->slots, s->log, &from))
        return map_bucket_damaged(hold->lane);
    for (;; log++) {
        uint64_t places = (1ull << log) + 4 * log;
        if (!map_bucket_settled(hold))
            return ACP_E_BUSY;
        transaction_begin(hold);
        int rc = transaction_take(hold, 8 * places * shape->unit, &block);
        if (rc != ACP_OK) {
            transaction_cancel(hold);
            return rc;
        }
        if (map_slots_look(hold->heap, shape, block, log, &to) && rehash(&to, &from, shape))
            break;
        transaction_cancel(hold);
    }
    transaction_set(hold, &s->slots, block);
    transaction_set(hold, &s->log, log);
    transaction_set(hold, &s->graves, 0);
    if (from.slots)
        transaction_drop(hold, (uint64_t)((unsigned char *)from.slots - hold->heap->base));
    transaction_commit(hold);
    return ACP_OK;
}

int map_slots_reserve(struct hold *hold, const struct shape *shape, struct stripe *s, uint64_t count)
{
    uint64_t log = LEAST_LOG;
    count = count > s->count ? count : s->count;
    while (1ull << log < 2 * count && log < 40)
        log++;
    return s->slots && log <= s->log && !map_slots_crowded(s) ? ACP_OK : map_slots_rebuild(hold, shape, s, log);
}

int map_slots_clear(struct hold *hold, const struct shape *shape, struct stripe *s)
{
    struct slots t;
    bool more = true;
    while (s->dying && more) {
        int rc = map_slots_sweep(hold, shape, s, &more);
        if (rc != ACP_OK)
            return rc;
    }
    if (!map_bucket_settled(hold))
        return ACP_E_BUSY;
    if (!map_slots_look(hold->heap, shape, s->slots, s->log, &t))
        return map_bucket_damaged(hold->lane);
    if (!t.slots)
        return ACP_OK;
    transaction_begin(hold);
    if (shape->boxed) {
        transaction_set(hold, &s->dying, s->slots);
        transaction_set(hold, &s->dying_at, 0);
        transaction_set(hold, &s->dying_end, t.places);
    } else {
        transaction_drop(hold, s->slots);
    }
    transaction_set(hold, &s->slots, 0);
    transaction_set(hold, &s->log, 0);
    transaction_set(hold, &s->count, 0);
    transaction_set(hold, &s->graves, 0);
    transaction_set(hold, &s->total, 0);
    transaction_commit(hold);
    return ACP_OK;
}

int map_slots_sweep(struct hold *hold, const struct shape *shape, struct stripe *s, bool *more)
{
    for (uint32_t i = 0; i < SWEEPS && s->dying; i++) {
        uint64_t at = s->dying_at, bytes = 8 * s->dying_end * shape->unit;
        if (!map_bucket_settled(hold))
            return ACP_E_BUSY;
        if (s->dying_end >> 41 || bytes > hold->heap->span || s->dying > hold->heap->span - bytes)
            return map_bucket_damaged(hold->lane);
        const uint64_t *slot = (uint64_t *)(void *)(hold->heap->base + s->dying);
        transaction_begin(hold);
        for (uint32_t drops = 0; at < s->dying_end && drops < SECTION_BLOCKS; at++)
            if (slot[at * shape->unit] > SLOT_GRAVE) {
                transaction_drop(hold, slot[at * shape->unit + 1]);
                drops++;
            }
        if (at == s->dying_at) { /* the last ones are gone */
            transaction_drop(hold, s->dying);
            transaction_set(hold, &s->dying, 0);
        }
        transaction_set(hold, &s->dying_at, at);
        transaction_commit(hold);
    }
    *more = s->dying != 0;
    return ACP_OK;
}
