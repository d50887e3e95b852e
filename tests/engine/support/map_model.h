/* A stripe of a map, an array that foresees what it holds, and elements in slots or in boxes. */
#ifndef ACP_TESTS_MAP_MODEL_H
#define ACP_TESTS_MAP_MODEL_H

#include "support/crash.h"
#include "base/hash.h"
#include "base/word.h"
#include "containers/map_bucket.h"
#include "containers/map_find.h"
#include "containers/map_slots.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "memory/transaction_lock.h"

#define KEYS 300u

/* Shared by the test's processes, beside the memory that is tested. */
struct book {
    struct record record;
    uint64_t stripe; /* its block */
    uint64_t boxed;
};

enum change { INSERT, ASSIGN, ADD, TAKE, ERASE, CLEAR, RESERVE, KINDS };

struct step {
    enum change kind;
    uint64_t key, value;
};

static inline struct step step_of(uint64_t k)
{
    uint64_t state = k * 0x9e3779b97f4a7c15ull + 1;
    crash_random(&state);
    struct step s = {(enum change)(crash_random(&state) % KINDS), crash_random(&state) % KEYS,
                     1 + crash_random(&state) % 5};
    if (s.kind >= CLEAR && k % 64)
        s.kind = k % 2 ? INSERT : ERASE;
    return s;
}

static inline void foresee(uint64_t model[KEYS], uint64_t k)
{
    struct step s = step_of(k);
    uint64_t *v = &model[s.key];
    if (s.kind == INSERT)
        *v = *v ? *v : s.value;
    else if (s.kind == ASSIGN)
        *v = s.value;
    else if (s.kind == ADD)
        *v += s.value;
    else if (s.kind == TAKE)
        *v = *v > s.value ? *v - s.value : 0;
    else if (s.kind == ERASE)
        *v = 0;
    else if (s.kind == CLEAR)
        memset(model, 0, KEYS * sizeof *model);
}

static inline struct shape shape_of(bool boxed)
{
    struct shape shape;
    CHECK(map_slots_shape(&shape, boxed ? SIZE_ANY : 8, 8, 'Q', 1) == ACP_OK);
    return shape;
}

/* Keys of 8 bytes, or of many lengths. */
static inline struct element element_of(const struct shape *shape, unsigned char key[KEYS + 8],
                                 uint64_t number, const uint64_t *value)
{
    uint64_t size = shape->boxed ? 8 + number : 8;
    memset(key, (int)number, size);
    memcpy(key, &number, 8);
    return (struct element){.hash = hash_bytes(key, size), .key = key, .key_size = size,
                            .value = value, .value_size = 8};
}

static inline struct stripe *stripe_of(struct actor *a, const struct book *book)
{
    return (struct stripe *)(void *)(a->heap.base + book->stripe);
}

static inline void perform(struct actor *a, struct stripe *s, const struct shape *shape, uint64_t k)
{
    static const enum put_how hows[] = {PUT_INSERT, PUT_ASSIGN, PUT_ADD, PUT_TAKE};
    unsigned char key[KEYS + 8];
    struct step step = step_of(k);
    struct element e = element_of(shape, key, step.key, &step.value);
    struct answer answer = {.out = NULL};
    struct hold hold;
    bool more;
    CHECK(transaction_enter(&hold, a->lane, &s->section, &a->heap, ACP_FOREVER) == ACP_OK);
    if (step.kind == ERASE)
        CHECK(map_bucket_erase(&hold, shape, s, &e, 0, &answer) == ACP_OK);
    else if (step.kind == CLEAR)
        CHECK(map_slots_clear(&hold, shape, s) == ACP_OK);
    else if (step.kind == RESERVE)
        CHECK(map_slots_reserve(&hold, shape, s, step.key) == ACP_OK);
    else
        CHECK(map_bucket_put(&hold, shape, s, &e, hows[step.kind], &answer) == ACP_OK);
    CHECK(map_slots_sweep(&hold, shape, s, &more) == ACP_OK);
    transaction_leave(&hold);
}

static inline bool agrees(struct actor *a, struct stripe *s, const struct shape *shape,
                   const uint64_t model[KEYS])
{
    unsigned char key[KEYS + 8];
    uint64_t value, count = 0, total = 0;
    for (uint64_t i = 0; i < KEYS; i++) {
        struct element e = element_of(shape, key, i, NULL);
        struct answer answer = {.out = (unsigned char *)&value, .room = 8};
        CHECK(map_find_element(a->lane, &a->heap, shape, s, &e, &answer, ACP_FOREVER) == ACP_OK);
        if ((answer.found == FOUND) != (model[i] != 0) || (model[i] && value != model[i]))
            return false;
        count += model[i] != 0;
        total += model[i];
    }
    return s->count == count && s->total == total;
}

/* Every element comes once, whatever the room. */
static inline void check_scan(struct actor *a, struct stripe *s, const struct shape *shape,
                       const uint64_t model[KEYS], uint64_t room)
{
    unsigned char out[4096];
    uint64_t seen[KEYS] = {0}, from = 0, size, count, next;
    do {
        CHECK(map_find_scan(a->lane, &a->heap, shape, s, from, out, room, &size, &count, &next,
                            ACP_FOREVER) == ACP_OK);
        CHECK(next != from || !next);
        const unsigned char *p = out;
        for (; count; count--) {
            uint64_t head[4] = {0, 0, 8, 8}, number, value;
            if (shape->boxed) {
                memcpy(head, p, sizeof head);
                p += sizeof head;
            }
            const unsigned char *k = shape->boxed ? p + 8 : p, *v = shape->boxed ? p : p + 8;
            memcpy(&number, k, 8);
            memcpy(&value, v, 8);
            p += 8 + 8 * words_of(head[2]);
            CHECK(number < KEYS && !seen[number]++ && value == model[number]);
        }
        CHECK(p == out + size);
        from = next;
    } while (next);
    for (uint64_t i = 0; i < KEYS; i++)
        CHECK(seen[i] == (model[i] != 0));
}

static inline void stripe_start(struct actor *a, struct book *book, bool boxed)
{
    book->boxed = boxed;
    book->record.begun = book->record.ended = 0;
    CHECK(heap_take(a->lane, &a->heap, sizeof(struct stripe), &book->stripe, ACP_FOREVER) == ACP_OK);
    memset(stripe_of(a, book), 0, sizeof(struct stripe));
    transaction_lock_create(&stripe_of(a, book)->section);
}

#endif
