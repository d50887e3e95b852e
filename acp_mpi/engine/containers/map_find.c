/* Finding elements of a stripe: without its lock, or with it after too many changes meanwhile. */
#include "containers/map_find.h"
#include "base/linux.h"
#include "base/word.h"
#include "containers/map_bucket.h"
#include "containers/map_slots.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <string.h>

#define TRIES 16u
#define LARGE ((uint64_t)32 << 10) /* a batch names such elements, and does not bring them */

/* Looks by `read` until nothing has changed meanwhile, at last with the lock. */
#define LOOK(read)                                                             \
    for (uint32_t try = 0; try < TRIES; try++) {                               \
        uint64_t version = transaction_version(&s->section);                          \
        if (!(version & 1)) {                                                  \
            int rc = (read);                                                   \
            if (likely(transaction_unchanged(&s->section, version)))                    \
                return rc;                                                     \
        }                                                                      \
        linux_cpu_relax();                                                           \
    }                                                                          \
    struct hold hold;                                                          \
    int rc = transaction_enter(&hold, lane, &s->section, h, patience_ns);          \
    if (rc != ACP_OK)                                                          \
        return rc;                                                             \
    rc = (read);                                                               \
    transaction_leave(&hold);                                                      \
    return rc

static inline int stripe_search(acp_lane *lane, const struct heap *h, const struct shape *shape,
                                const struct stripe *s, const struct element *e, struct answer *answer)
{
    struct slots t;
    struct element found;
    answer->found = FOUND_NOT;
    answer->size = 0;
    if (unlikely(!map_slots_look(h, shape, word_load(&s->slots), word_load(&s->log), &t)))
        return map_bucket_damaged(lane);
    const uint64_t *slot = map_slots_find(h, shape, &t, e);
    if (!slot)
        return ACP_OK;
    if (unlikely(!map_slots_read(h, shape, slot, &found)))
        return map_bucket_damaged(lane);
    answer->found = FOUND;
    answer->key_size = found.key_size;
    answer->value_size = found.value_size;
    answer->value_at = (uint64_t)((const unsigned char *)found.value - h->base);
    answer->stamp = found.box ? word_load((const uint64_t *)(const void *)(h->base + found.box)) : 0;
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

int map_find_element(acp_lane *lane, struct heap *h, const struct shape *shape, struct stripe *s,
                     const struct element *e, struct answer *answer, int64_t patience_ns)
{
    LOOK(stripe_search(lane, h, shape, s, e, answer));
}

static int count(const struct stripe *s, struct amounts *amounts)
{
    uint64_t log = word_load(&s->log);
    *amounts = (struct amounts){.count = word_load(&s->count), .total = word_load(&s->total),
                                .places = word_load(&s->slots) ? (1ull << log % 64) + 4 * log : 0,
                                .graves = word_load(&s->graves)};
    return ACP_OK;
}

int map_find_count(acp_lane *lane, struct heap *h, struct stripe *s, struct amounts *amounts,
                   int64_t patience_ns)
{
    LOOK(count(s, amounts));
}

static int stripe_copy_piece(acp_lane *lane, const struct heap *h, const struct shape *shape,
                             const struct stripe *s, uint64_t hash, uint64_t at, struct answer *answer)
{
    struct slots t;
    struct element e;
    uint64_t stamp = answer->stamp;
    answer->found = FOUND_NOT;
    answer->size = 0;
    if (!map_slots_look(h, shape, word_load(&s->slots), word_load(&s->log), &t) || !t.slots)
        return t.slots ? map_bucket_damaged(lane) : ACP_OK;
    const uint64_t *slot = map_bucket_slot(&t, shape, map_bucket_place(hash, t.log));
    const uint64_t *end = map_bucket_slot(&t, shape, t.places);
    for (; slot < end && word_load(slot) != SLOT_FREE; slot += shape->unit) {
        if (word_load(slot) != hash || !map_slots_read(h, shape, slot, &e) || !e.box ||
            word_load((const uint64_t *)(const void *)(h->base + e.box)) != stamp)
            continue;
        uint64_t whole = 8 * (words_of(e.value_size) + words_of(e.key_size));
        uint64_t left = at < whole ? whole - at : 0;
        answer->size = left < answer->room ? left : answer->room;
        words_bytes(answer->out, (const unsigned char *)e.value + at, answer->size);
        answer->found = FOUND;
        return ACP_OK;
    }
    return ACP_OK;
}

int map_find_piece(acp_lane *lane, struct heap *h, const struct shape *shape, struct stripe *s,
                   uint64_t hash, uint64_t at, struct answer *answer, int64_t patience_ns)
{
    const struct answer asked = *answer;
    LOOK((*answer = asked, stripe_copy_piece(lane, h, shape, s, hash, at, answer)));
}

/* Record of one element in a batch; 0: no room for it. */
static uint64_t element_record(const struct heap *h, const struct shape *shape, uint64_t hash,
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
        head[1] = word_load((const uint64_t *)(const void *)(h->base + e->box));
    else
        words_out(out + sizeof head, e->value, key + value);
    memcpy(out, head, sizeof head);
    return size;
}

/* Elements with hashes from `from` to `last`; false: no room for all of them. */
static bool collect(const struct heap *h, const struct shape *shape, const struct slots *t,
                    uint64_t from, uint64_t last, unsigned char *out, uint64_t room,
                    uint64_t *size, uint64_t *count)
{
    struct element e;
    uint64_t final = map_bucket_place(last, t->log);
    *size = *count = 0;
    for (uint64_t place = map_bucket_place(from, t->log); place < t->places; place++) {
        const uint64_t *slot = map_bucket_slot(t, shape, place);
        uint64_t hash = word_load(slot), used;
        if (hash == SLOT_FREE && place >= final)
            break;
        if (hash <= SLOT_GRAVE || hash < from || hash > last || !map_slots_read(h, shape, slot, &e))
            continue;
        if (!(used = element_record(h, shape, hash, &e, out + *size, room - *size)) && shape->unit > 1)
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
    if (!map_slots_look(h, shape, word_load(&s->slots), word_load(&s->log), &t))
        return map_bucket_damaged(lane);
    if (!t.slots)
        return ACP_OK;
    uint64_t unit = 8 * shape->unit + (shape->boxed ? 64 : 0);
    uint64_t used = word_load(&s->count), span = UINT64_MAX;
    uint64_t places = (room / unit << t.log) / ((used < t.places ? used : t.places) + 1);
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

int map_find_scan(acp_lane *lane, struct heap *h, const struct shape *shape, struct stripe *s,
                  uint64_t from, unsigned char *out, uint64_t room, uint64_t *size, uint64_t *count,
                  uint64_t *next, int64_t patience_ns)
{
    LOOK(scan(lane, h, shape, s, from, out, room, size, count, next));
}
