#ifndef ACP_MAP_SLOTS_H
#define ACP_MAP_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

struct element;
struct heap;
struct hold;
struct shape;
struct slots;
struct stripe;

int map_slots_shape(struct shape *shape, uint64_t key_size, uint64_t value_size, uint64_t number,
                    uint64_t counts);
/* As map_slots_shape makes them: shared memory may hold anything. */
bool map_slots_sound(const struct shape *shape);

/* Into the cache, while something else is done. */
void map_slots_fetch(const struct heap *h, const struct shape *shape, const struct stripe *s,
                     uint64_t hash);
bool map_slots_read(const struct heap *h, const struct shape *shape, const uint64_t *slot,
                    struct element *e); /* `key` and `value` point into the heap; false: damaged */

bool map_slots_read_box(const struct heap *h, uint64_t at, struct element *e);
bool map_slots_look(const struct heap *h, const struct shape *shape, uint64_t slots, uint64_t log,
                    struct slots *out);
/* The slot of a key, or NULL. */
uint64_t *map_slots_find(const struct heap *h, const struct shape *shape, const struct slots *t,
                         const struct element *e);
/* A free slot for that hash; NULL: none up to the end of the table. */
uint64_t *map_slots_free_from(const struct slots *t, const struct shape *shape, uint64_t hash);
bool map_slots_crowded(const struct stripe *s); /* two thirds are taken: one more needs a new table */
int map_slots_rebuild(struct hold *hold, const struct shape *shape, struct stripe *s, uint64_t log);
int map_slots_reserve(struct hold *hold, const struct shape *shape, struct stripe *s, uint64_t count);
int map_slots_clear(struct hold *hold, const struct shape *shape, struct stripe *s);
/* Gives cleared slots back; *more false: all are. */
int map_slots_sweep(struct hold *hold, const struct shape *shape, struct stripe *s, bool *more);

#endif
