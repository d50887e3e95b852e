#ifndef ACP_MAP_FIND_H
#define ACP_MAP_FIND_H

#include "core/engine.h"

struct amounts;
struct answer;
struct element;
struct heap;
struct shape;
struct stripe;

/* Without the lock as long as that works. */
int map_find_element(acp_lane *lane, struct heap *h, const struct shape *shape, struct stripe *s,
                     const struct element *e, struct answer *answer, int64_t patience_ns);
int map_find_count(acp_lane *lane, struct heap *h, struct stripe *s, struct amounts *amounts,
                   int64_t patience_ns);
/* Bytes of the box with that hash and stamp, from `at` on. */
int map_find_piece(acp_lane *lane, struct heap *h, const struct shape *shape, struct stripe *s,
                   uint64_t hash, uint64_t at, struct answer *answer, int64_t patience_ns);
/* As many elements with hashes from `from` on as there is room for; `*next`: where to go on, 0: it was
 * the last. */
int map_find_scan(acp_lane *lane, struct heap *h, const struct shape *shape, struct stripe *s,
                  uint64_t from, unsigned char *out, uint64_t room, uint64_t *size, uint64_t *count,
                  uint64_t *next, int64_t patience_ns);

#endif
