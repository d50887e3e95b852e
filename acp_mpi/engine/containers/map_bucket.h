/* A stripe of a map's part: a table of elements under a section of its own. Linear probing from the
 * place that the high bits of the hash choose, without wrap: some places more lie behind the last.
 *
 * A slot is the hash, 0: never used, 1: a grave; then the key and the value, or, if they are long
 * or of any length, the block (`box`) that holds them. Readers look without the lock at what the
 * version covers, so everything that they follow is checked, and read and written by words. */
#ifndef ACP_MAP_BUCKET_H
#define ACP_MAP_BUCKET_H

#include "core/lane.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#define STRIPES 8u
#define SLOT_FREE ((uint64_t)0)
#define SLOT_GRAVE ((uint64_t)1)
#define SIZE_ANY UINT64_MAX          /* each key, or value, has a length of its own */
#define NUMBER_OBJECT ((uint64_t)'O') /* value of `number` for sums of pickles (pickle_add.h) */
#define INLINE_MOST ((uint64_t)128)  /* bytes of a key, or value, that stands in the slot */

/* Form of all elements of a map. */
struct shape {
    uint64_t key_size, value_size;
    uint64_t boxed;
    uint64_t unit;  /* words of a slot */
    uint64_t number; /* how values are added up: a struct format character, NUMBER_OBJECT, or 0 */
    uint64_t counts; /* the values are numbers of equal keys: their sum is kept */
};

/* Head of a box: then come the value and the key, each from a word on. */
struct box {
    uint64_t stamp; /* unique in this stripe for ever */
    uint64_t key_size, value_size;
};

struct stripe {
    struct section section;
    uint64_t slots; /* the block; 0: none yet */
    uint64_t log;   /* of the number of places */
    uint64_t count, graves;
    uint64_t total; /* of the values, if they count */
    uint64_t stamp;
    uint64_t dying, dying_at, dying_end; /* cleared slots, which no search finds; their boxes go */
};

/* An element as a caller has it. */
struct element {
    uint64_t hash;
    const void *key, *value;
    uint64_t key_size, value_size;
    uint64_t box; /* allocated in advance: this block becomes the map's */
};

enum put_how {
    PUT_INSERT = 0, PUT_ASSIGN, PUT_ADD, PUT_MULTIPLY, PUT_MIN, PUT_MAX, PUT_AND, PUT_OR, PUT_XOR,
    PUT_TAKE /* subtracts; the element is erased at 0 */
};

/* FOUND_OTHER, FOUND_BEYOND: the value there cannot be added to (pickle_add.h), and nothing has changed. */
enum { FOUND_NOT = 0, FOUND = 1, FOUND_LARGE = 2, FOUND_OTHER = 3, FOUND_BEYOND = 4 };

/* Outcome for an element: its value now (put) or before (find, erase). */
struct answer {
    unsigned char *out; /* for the value, `room` bytes; NULL: not wanted */
    uint64_t room, size;
    uint64_t found;     /* FOUND_LARGE: it has no room there; erasing, or adding up objects, changes
                         * nothing then */
    uint64_t stamp;
    uint64_t value_at;  /* offset in the heap */
    uint64_t key_size, value_size;
    bool adopted;       /* the element's box is the map's now */
};

/* Amounts of a stripe, at one instant. */
struct amounts {
    uint64_t count, total, places, graves;
};

/* Where a reader looks. */
struct slots {
    uint64_t *slots;
    uint64_t log, places; /* with those behind the last */
};

static inline uint64_t map_bucket_place(uint64_t hash, uint64_t log)
{
    return hash >> (64 - log);
}

static inline uint64_t *map_bucket_slot(const struct slots *t, const struct shape *shape, uint64_t place)
{
    return t->slots + place * shape->unit;
}

static inline struct box *map_bucket_box(const struct heap *h, uint64_t at)
{
    return (struct box *)(void *)(h->base + at);
}

/* False: a change that could not give its blocks back is still under way; the next holder ends it. */
static inline bool map_bucket_settled(const struct hold *hold)
{
    return !(hold->section->version & 1);
}

static inline int map_bucket_damaged(acp_lane *lane)
{
    lane->fault = (acp_fault){.status = ACP_E_DAMAGED};
    return ACP_E_DAMAGED;
}

/* In the section, outside of a change, as the functions above that change a stripe. ACP_E_BUSY: nothing has
 * happened. */
int map_bucket_put(struct hold *hold, const struct shape *shape, struct stripe *s,
                   const struct element *e, enum put_how how, struct answer *answer);
/* Objects are added up with an `answer` that has room alone. `stamp`: only the element with that
 * stamp; 0: any. */
int map_bucket_erase(struct hold *hold, const struct shape *shape, struct stripe *s,
                     const struct element *e, uint64_t stamp, struct answer *answer);

#endif
