/* The heap of each rank, as this process reaches it. */
#ifndef ACP_HEAP_CALLS_H
#define ACP_HEAP_CALLS_H

#include "core/engine.h"

struct heap;
struct peer;

/* The own heap begins there; its head is committed, and all up to `pinned_end`, for life. */
int heap_calls_create(acp_engine *e, uint64_t position, uint64_t span, uint64_t pinned_end);
/* Where addresses of the own heap begin and, if that is before `end`, end. */
void heap_calls_range(const acp_engine *e, uint64_t *begin, uint64_t *end);
void heap_calls_clear(acp_engine *e); /* while it is not in use */
void heap_calls_trim(acp_lane *lane); /* of the own heap: arrays need the memory */
int heap_calls_look(acp_lane *lane, struct heap *h, acp_heap_statistics *out, int64_t patience_ns);
struct heap *heap_calls_map(acp_engine *e, struct peer *p); /* with the space lock; NULL: there is none */
void heap_calls_unmap(acp_engine *e, struct peer *p);
struct heap *heap_calls_find(acp_lane *lane, acp_ga_t ga); /* within reach of load and store; NULL, with a fault */

#endif
