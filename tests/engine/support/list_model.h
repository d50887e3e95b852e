/* Two lists as arrays, and what each step of a long life makes of them. */
#ifndef ACP_TESTS_LIST_MODEL_H
#define ACP_TESTS_LIST_MODEL_H

#include "support/crash.h"

#define LISTS 2u
#define MOST 200u
#define TOGETHER 4u /* elements that one step puts in, at most */

struct model {
    uint64_t size[LISTS], values[LISTS][MOST];
};

enum change {
    PUSH, POP, INSERT, ERASE, RANGE, CLEAR, ORDER, REVERSE, SPLICE, MOVE, SWAP, BURY, EXTEND,
    KINDS_OF_STEP
};

struct step {
    enum change kind;
    uint32_t list;
    uint64_t at, count, to, value;
};

/* Where a value comes in or goes out, if at an end. */
static bool at_front(uint64_t value)
{
    return value % 2;
}

static struct step step_of(uint64_t k, const uint64_t size[LISTS])
{
    uint64_t state = k * 0x9e3779b97f4a7c15ull + 1;
    crash_random(&state);
    struct step s = {.kind = (enum change)(crash_random(&state) % KINDS_OF_STEP),
                     .list = (uint32_t)(crash_random(&state) % LISTS),
                     .value = crash_random(&state)};
    uint64_t here = size[s.list], there = size[!s.list];
    if (s.kind == CLEAR && k % 4)
        s.kind = PUSH;
    if (s.kind == EXTEND && (k % 8 || here + there + TOGETHER > MOST - 2)) /* it takes long to die in */
        s.kind = PUSH;
    bool drains = k / 128 % 2; /* what is kept for new nodes runs out, and goes back, by turns */
    if (drains && (s.kind == PUSH || s.kind == INSERT))
        s.kind = POP;
    if (!drains && (s.kind == POP || s.kind == ERASE || s.kind == RANGE))
        s.kind = PUSH;
    if (here < 12 && s.kind != SWAP && s.kind != SPLICE && s.kind != EXTEND)
        s.kind = PUSH;
    if (here + there > MOST - 2 && (s.kind == PUSH || s.kind == INSERT))
        s.kind = k % 2 ? RANGE : ERASE;
    s.at = crash_random(&state) % (here + 1);
    if (s.at == here && here && s.kind != INSERT && s.kind != SPLICE && s.kind != EXTEND)
        s.at--;
    s.count = crash_random(&state) % (here - s.at + 1);
    s.to = crash_random(&state) % (there + 1); /* of a splice: where it comes from */
    if (s.kind == RANGE && drains)
        s.count %= 8; /* else few would go one by one */
    if (s.kind == SPLICE)
        s.count = crash_random(&state) % (there - s.to + 1);
    if (s.kind == MOVE)
        s.to = crash_random(&state) % (s.at + 1);
    return s;
}

static void cut(uint64_t *values, uint64_t *size, uint64_t at, uint64_t count)
{
    memmove(values + at, values + at + count, (*size - at - count) * sizeof *values);
    *size -= count;
}

static void paste(uint64_t *values, uint64_t *size, uint64_t at, const uint64_t *from,
                  uint64_t count)
{
    memmove(values + at + count, values + at, (*size - at) * sizeof *values);
    memcpy(values + at, from, count * sizeof *values);
    *size += count;
}

/* Several that come in together. */
static uint64_t together(uint64_t value, uint64_t *values)
{
    uint64_t count = 2 + value % (TOGETHER - 1);
    for (uint64_t i = 0; i < count; i++)
        values[i] = value + i;
    return count;
}

/* In what order, and how many of them stay. */
static uint64_t shuffle(uint64_t *order, uint64_t size, uint64_t seed)
{
    for (uint64_t i = size; i > 1; i--) {
        uint64_t j = crash_random(&seed) % i, was = order[j];
        order[j] = order[i - 1];
        order[i - 1] = was;
    }
    return size - (seed % 3 ? 0 : size / 3);
}

static void foresee(struct model *m, uint64_t k)
{
    struct step s = step_of(k, m->size);
    uint64_t *values = m->values[s.list], *size = &m->size[s.list], some[MOST], was;
    switch (s.kind) {
    case PUSH:
        paste(values, size, at_front(s.value) ? 0 : *size, &s.value, 1);
        break;
    case INSERT:
        paste(values, size, s.at, &s.value, 1);
        break;
    case EXTEND:
        paste(values, size, s.at, some, together(s.value, some));
        break;
    case POP:
        cut(values, size, at_front(s.value) ? 0 : *size - 1, 1);
        break;
    case ERASE:
        cut(values, size, s.at, 1);
        break;
    case RANGE:
        cut(values, size, s.at, s.count);
        break;
    case CLEAR:
        *size = 0;
        break;
    case ORDER:
        *size = shuffle(values, *size, s.value);
        break;
    case REVERSE:
        for (uint64_t i = 0; i < *size / 2; i++) {
            was = values[i];
            values[i] = values[*size - 1 - i];
            values[*size - 1 - i] = was;
        }
        break;
    case SPLICE:
        memcpy(some, m->values[!s.list] + s.to, s.count * sizeof *some);
        cut(m->values[!s.list], &m->size[!s.list], s.to, s.count);
        paste(values, size, s.at, some, s.count);
        break;
    case MOVE:
        memcpy(some, values + s.at, s.count * sizeof *some);
        cut(values, size, s.at, s.count);
        paste(values, size, s.to, some, s.count);
        break;
    case SWAP:
        memcpy(some, values, sizeof some);
        memcpy(values, m->values[!s.list], sizeof some);
        memcpy(m->values[!s.list], some, sizeof some);
        was = *size;
        *size = m->size[!s.list];
        m->size[!s.list] = was;
        break;
    default:
        break;
    }
}

#endif
