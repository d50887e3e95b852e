/* Finding elements of a stripe: without its lock, until somebody has changed it too often meanwhile. */
#include "stripe.h"

#include <string.h>

#define TRIES 16u
#define LARGE ((uint64_t)32 << 10) /* a batch names such elements, and does not bring them */

void words_in(uint64_t *to, const void *from, uint64_t size)
{
    const unsigned char *p = from;
    uint64_t word;
    for (; size >= 8; size -= 8, p += 8) {
        memcpy(&word, p, 8);
        __atomic_store_n(to++, word, __ATOMIC_RELAXED);
    }
    if (size) {
        word = 0;
        memcpy(&word, p, size);
        __atomic_store_n(to, word, __ATOMIC_RELAXED);
    }
}

void words_out(void *to, const uint64_t *from, uint64_t size)
{
    unsigned char *p = to;
    uint64_t word;
    for (; size >= 8; size -= 8, p += 8) {
        word = load(from++);
        memcpy(p, &word, 8);
    }
    if (size) {
        word = load(from);
        memcpy(p, &word, size);
    }
}

static bool words_same(const uint64_t *at, const void *key, uint64_t size)
{
    const unsigned char *p = key;
    uint64_t word;
    for (; size >= 8; size -= 8, p += 8) {
        memcpy(&word, p, 8);
        if (load(at++) != word)
            return false;
    }
    if (!size)
        return true;
    word = 0;
    memcpy(&word, p, size);
    return load(at) == word;
}

int shape_make(struct shape *shape, uint64_t key_size, uint64_t value_size, uint64_t number,
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

bool box_read(const struct heap *h, uint64_t at, struct element *e)
{
    uint64_t span = h->span;
    if (at % 8 || at > span - sizeof(struct box))
        return false;
    const struct box *box = (const struct box *)(const void *)(h->base + at);
    const uint64_t *words = (const uint64_t *)(const void *)(box + 1);
    uint64_t key = load(&box->key_size), value = load(&box->value_size);
    if (key > span || value > span ||
        8 * (words_of(key) + words_of(value)) > span - at - sizeof *box)
        return false;
    *e = (struct element){.key = words + words_of(value), .key_size = key, .value = words,
                          .value_size = value, .box = at};
    return true;
}

bool slot_read(const struct heap *h, const struct shape *shape, const uint64_t *slot,
               struct element *e)
{
    if (shape->boxed)
        return box_read(h, load(slot + 1), e);
    *e = (struct element){.key = slot + 1, .key_size = shape->key_size,
                          .value = slot + 1 + words_of(shape->key_size),
                          .value_size = shape->value_size};
    return true;
}

bool slots_look(const struct heap *h, const struct shape *shape, uint64_t slots, uint64_t log,
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

uint64_t *slots_find(const struct heap *h, const struct shape *shape, const struct slots *t,
                     const struct element *e)
{
    struct element other;
    if (!t->slots)
        return NULL;
    uint64_t *slot = slot_at(t, shape, place_of(e->hash, t->log));
    uint64_t *end = slot_at(t, shape, t->places);
    for (; slot < end; slot += shape->unit) {
        uint64_t hash = load(slot);
        if (hash == SLOT_FREE)
            return NULL;
        if (hash != e->hash)
            continue;
        if (!shape->boxed && likely(words_same(slot + 1, e->key, shape->key_size)))
            return slot;
        if (shape->boxed && slot_read(h, shape, slot, &other) && other.key_size == e->key_size &&
            words_same(other.key, e->key, e->key_size))
            return slot;
    }
    return NULL;
}

/* Looks by `read` until nothing has changed meanwhile, at last with the lock. */
#define LOOK(read)                                                             \
    for (uint32_t try = 0; try < TRIES; try++) {                               \
        uint64_t version = section_look(&s->section);                          \
        if (!(version & 1)) {                                                  \
            int rc = (read);                                                   \
            if (likely(section_same(&s->section, version)))                    \
                return rc;                                                     \
        }                                                                      \
        cpu_relax();                                                           \
    }                                                                          \
    struct hold hold;                                                          \
    int rc = section_enter(&hold, lane, &s->section, h, patience_ns);          \
    if (rc != ACP_OK)                                                          \
        return rc;                                                             \
    rc = (read);                                                               \
    section_leave(&hold);                                                      \
    return rc

static int damaged(acp_lane *lane)
{
    lane->fault = (acp_fault){.status = ACP_E_DAMAGED};
    return ACP_E_DAMAGED;
}

static inline int find(acp_lane *lane, const struct heap *h, const struct shape *shape,
                       const struct stripe *s, const struct element *e, struct answer *answer)
{
    struct slots t;
    struct element found;
    answer->found = FOUND_NOT;
    answer->size = 0;
    if (unlikely(!slots_look(h, shape, load(&s->slots), load(&s->log), &t)))
        return damaged(lane);
    const uint64_t *slot = slots_find(h, shape, &t, e);
    if (!slot)
        return ACP_OK;
    if (unlikely(!slot_read(h, shape, slot, &found)))
        return damaged(lane);
    answer->found = FOUND;
    answer->key_size = found.key_size;
    answer->value_size = found.value_size;
    answer->value_at = (uint64_t)((const unsigned char *)found.value - h->base);
    answer->stamp = found.box ? load((const uint64_t *)(const void *)(h->base + found.box)) : 0;
    if (!answer->out)
        return ACP_OK;
    if (unlikely(found.value_size > answer->room)) {
        answer->found = FOUND_LARGE;
        return ACP_OK;
    }
    words_out(answer->out, found.value, found.value_size);
    answer->size = found.value_size;
    return ACP_OK;
}

int stripe_find(acp_lane *lane, struct heap *h, const struct shape *shape, struct stripe *s,
                const struct element *e, struct answer *answer, int64_t patience_ns)
{
    LOOK(find(lane, h, shape, s, e, answer));
}

static int piece(acp_lane *lane, const struct heap *h, const struct shape *shape,
                 const struct stripe *s, uint64_t hash, uint64_t at, struct answer *answer)
{
    struct slots t;
    struct element e;
    uint64_t stamp = answer->stamp;
    answer->found = FOUND_NOT;
    answer->size = 0;
    if (!slots_look(h, shape, load(&s->slots), load(&s->log), &t) || !t.slots)
        return t.slots ? damaged(lane) : ACP_OK;
    const uint64_t *slot = slot_at(&t, shape, place_of(hash, t.log));
    const uint64_t *end = slot_at(&t, shape, t.places);
    for (; slot < end && load(slot) != SLOT_FREE; slot += shape->unit) {
        if (load(slot) != hash || !slot_read(h, shape, slot, &e) || !e.box ||
            load((const uint64_t *)(const void *)(h->base + e.box)) != stamp)
            continue;
        uint64_t whole = 8 * (words_of(e.value_size) + words_of(e.key_size));
        uint64_t left = at % 8 == 0 && at < whole ? whole - at : 0;
        answer->size = left < answer->room ? left : answer->room & ~7ull;
        words_out(answer->out, (const uint64_t *)e.value + at / 8, answer->size);
        answer->found = FOUND;
        return ACP_OK;
    }
    return ACP_OK;
}

int stripe_piece(acp_lane *lane, struct heap *h, const struct shape *shape, struct stripe *s,
                 uint64_t hash, uint64_t at, struct answer *answer, int64_t patience_ns)
{
    const struct answer asked = *answer;
    LOOK((*answer = asked, piece(lane, h, shape, s, hash, at, answer)));
}

/* What a batch brings of one element; 0: it has no room. */
static uint64_t record(const struct heap *h, const struct shape *shape, uint64_t hash,
                       const struct element *e, unsigned char *out, uint64_t room)
{
    uint64_t head[4] = {hash, 0, e->key_size, e->value_size};
    uint64_t value = 8 * words_of(e->value_size), key = 8 * words_of(e->key_size);
    if (!shape->boxed) {
        if (room < key + value)
            return 0;
        words_out(out, e->key, key);
        words_out(out + key, e->value, value);
        return key + value;
    }
    bool large = key + value > LARGE;
    uint64_t size = sizeof head + (large ? 0 : key + value);
    if (room < size)
        return 0;
    if (large)
        head[1] = load((const uint64_t *)(const void *)(h->base + e->box));
    else
        words_out(out + sizeof head, e->value, key + value);
    memcpy(out, head, sizeof head);
    return size;
}

/* Elements with hashes from `from` to `last`; false: there is no room for all of them. */
static bool collect(const struct heap *h, const struct shape *shape, const struct slots *t,
                    uint64_t from, uint64_t last, unsigned char *out, uint64_t room,
                    uint64_t *size, uint64_t *count)
{
    struct element e;
    uint64_t final = place_of(last, t->log);
    *size = *count = 0;
    for (uint64_t place = place_of(from, t->log); place < t->places; place++) {
        const uint64_t *slot = slot_at(t, shape, place);
        uint64_t hash = load(slot), used;
        if (hash == SLOT_FREE && place >= final)
            break;
        if (hash <= SLOT_GRAVE || hash < from || hash > last || !slot_read(h, shape, slot, &e))
            continue;
        if (!(used = record(h, shape, hash, &e, out + *size, room - *size)) && shape->unit > 1)
            return false;
        *size += used;
        *count += 1;
    }
    return true;
}

static int scan(acp_lane *lane, const struct heap *h, const struct shape *shape,
                const struct stripe *s, uint64_t from, unsigned char *out, uint64_t room,
                uint64_t *size, uint64_t *count, uint64_t *next)
{
    struct slots t;
    *size = *count = *next = 0;
    if (!slots_look(h, shape, load(&s->slots), load(&s->log), &t))
        return damaged(lane);
    if (!t.slots)
        return ACP_OK;
    uint64_t unit = 8 * shape->unit + (shape->boxed ? 64 : 0);
    uint64_t places = (room / unit << t.log) / (load(&s->count) + 1), span = UINT64_MAX;
    if (places < 1ull << t.log)
        span = (places ? places : 1) << (64 - t.log);
    for (; span; span /= 2) {
        uint64_t last = span == UINT64_MAX || from - 1 + span < from ? UINT64_MAX : from - 1 + span;
        if (collect(h, shape, &t, from, last, out, room, size, count)) {
            *next = last + 1;
            return ACP_OK;
        }
    }
    *size = *count = 0;
    *next = from;
    return ACP_OK;
}

int stripe_scan(acp_lane *lane, struct heap *h, const struct shape *shape, struct stripe *s,
                uint64_t from, unsigned char *out, uint64_t room, uint64_t *size, uint64_t *count,
                uint64_t *next, int64_t patience_ns)
{
    LOOK(scan(lane, h, shape, s, from, out, room, size, count, next));
}
