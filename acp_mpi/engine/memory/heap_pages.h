#ifndef ACP_HEAP_PAGES_H
#define ACP_HEAP_PAGES_H

#include "memory/heap.h"

struct hold;

/* Is the granule of the block's head committed? Also without the heap's lock. */
static inline bool heap_pages_committed(const struct heap *h, uint64_t at)
{
    uint64_t grid = h->grid, granule = at > grid ? (at - grid) / GRANULE : 0;
    uint64_t word = __atomic_load_n(&h->head->granules[granule / 64], __ATOMIC_RELAXED);
    return at + BLOCK_HEAD <= grid || (word >> granule % 64 & 1);
}

void heap_pages_drop(const struct heap *h); /* all but the pinned ones, as they are */
int heap_pages_commit(struct hold *hold, uint64_t low, uint64_t high); /* before a change */
/* Memory goes back to the system: until little more remains than is used, or (`all`) everything that can. The caller
 * holds no section of the heap. */
int heap_pages_sweep(acp_lane *lane, struct heap *h, bool all, int64_t patience_ns);
bool heap_pages_sweep_due(const struct heap *h); /* a sweep is worth while */

#endif
