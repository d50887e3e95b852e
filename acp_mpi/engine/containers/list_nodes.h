#ifndef ACP_LIST_NODES_H
#define ACP_LIST_NODES_H

#include "memory/transaction.h"

struct list;

/* Within a change: takes a block for a node and its bytes, of which the caller changes the first two words by
 * transaction_set only; gives or keeps the block of a former node, and returns the number of spare blocks then. */
int list_nodes_take(struct hold *hold, struct list *list, uint64_t size, uint64_t *at);
uint64_t list_nodes_keep(struct hold *hold, struct list *list, uint64_t at);
int list_nodes_trim(struct hold *hold, struct list *list); /* between changes: a row goes back */
uint64_t list_nodes_spares(const struct hold *hold, const struct list *list); /* number of spare blocks */

/* False: blocks are still to be given back, and no other change may come before the section is entered anew. */
static inline bool list_nodes_settled(const struct hold *hold)
{
    return hold->section->state == SECTION_IDLE;
}

#endif
