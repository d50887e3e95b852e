/* Many small operations that are one: the elements, and the batches in which they travel. */
#ifndef ACP_MANY_H
#define ACP_MANY_H

#include "operations/op.h"

#define OPEN_BITS 8u
#define OPEN_BUCKETS (1u << OPEN_BITS) /* of batches that are begun, one for each target and size */

struct batch;

struct many {
    uint64_t count, next;
    uint32_t under_way;
    bool pushing;
    bool halves; /* of one copy: the second is fetched */
    uint8_t kind;
    uint64_t *old;
    uint64_t gathered; /* bytes of the batches that are begun */
    struct batch *open[OPEN_BUCKETS];
    /* copies, atomics: dst or null | src | size or value | compare */
    uint64_t *columns[4];
    uint64_t data[];
};

/* batch.c: elements that a link carries together, with the lock held */
bool batch_takes(const struct plan *plan, const struct message *element);
/* Adds element i; false: there is no room now. Errors are the operation's. */
bool batch_add(acp_lane *lane, struct op *op, uint64_t i, const struct plan *plan,
               const struct message *element);
void batches_send(acp_lane *lane, struct op *op); /* those that are begun */

#endif
