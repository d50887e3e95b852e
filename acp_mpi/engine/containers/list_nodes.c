/* Spare blocks of a list, for nodes: removed nodes make room for new ones, and the heap, which others want as well, is
 * entered once for many. */
#include "containers/list_nodes.h"
#include "containers/list.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#define ROOMY ((uint64_t)512) /* a larger block is not worth keeping: its bytes take longer */

uint64_t list_nodes_spares(const struct hold *hold, const struct list *l)
{
    const struct list_node *n = l->spare ? list_node(hold->heap, l->spare) : NULL;
    return n ? heap_kept(hold->heap, l->spare)->count : 0;
}

/* A row of spare blocks, unless the list is short. Without memory for a row there may be some for one. */
static int refill(struct hold *hold, struct list *l, uint64_t size)
{
    uint64_t coming = l->job.kind == JOB_GATHER ? l->job.count : 0;
    if (l->size + coming < HEAP_ROW)
        return ACP_OK;
    int rc = heap_take_row(hold->lane, hold->heap, size, &l->spare, HEAP_PATIENCE_NS);
    return rc == ACP_E_FULL ? ACP_OK : rc;
}

int list_nodes_take(struct hold *hold, struct list *l, uint64_t size, uint64_t *at)
{
    uint64_t block = heap_size_for(size);
    bool fits = block == l->spare_size;
    if (!fits && !l->spare && block <= ROOMY)
        transaction_set(hold, &l->spare_size, block);
    if (fits && !l->spare) {
        int rc = refill(hold, l, size);
        if (rc != ACP_OK)
            return rc;
    }
    if (!fits || !l->spare)
        return transaction_take(hold, size, at);
    if (unlikely(!list_node(hold->heap, l->spare)))
        return ACP_E_DAMAGED;
    *at = l->spare;
    transaction_set(hold, &l->spare, heap_kept(hold->heap, *at)->next);
    return ACP_OK;
}

uint64_t list_nodes_keep(struct hold *hold, struct list *l, uint64_t at)
{
    struct heap_kept *kept = heap_kept(hold->heap, at);
    uint64_t size = word_load(&heap_block(hold->heap, at - BLOCK_HEAD)->size) & ~BLOCK_FLAGS;
    if (!l->spare_size || size - l->spare_size > BLOCK_HEAD) { /* the heap may add as much */
        transaction_drop(hold, at);
        return 0;
    }
    uint64_t count = list_nodes_spares(hold, l) + 1;
    const struct setting settings[] = {{&kept->count, count}, {&kept->next, l->spare},
                                       {&l->spare, at}};
    transaction_set_all(hold, settings, sizeof settings / sizeof *settings);
    return count;
}

int list_nodes_trim(struct hold *hold, struct list *l)
{
    transaction_begin(hold);
    int rc = heap_give_row(hold->lane, hold->heap, &l->spare, HEAP_PATIENCE_NS);
    bool lost = rc == ACP_E_BLOCK || rc == ACP_E_DAMAGED; /* the chain was written over */
    if (unlikely(lost))
        transaction_set(hold, &l->spare, 0);
    hold->blocks = true;
    transaction_commit(hold);
    return lost ? ACP_OK : rc;
}
