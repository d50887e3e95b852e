/* Many small operations that are one: the elements, and the batches in which they travel. */
#ifndef ACP_VECTOR_H
#define ACP_VECTOR_H

#include "core/engine.h"

struct batch;
struct op;

#define OPEN_BITS 8u
#define OPEN_BUCKETS (1u << OPEN_BITS) /* of batches that are begun, one for each target and size */

struct many {
    uint64_t count, next;
    uint32_t under_way;
    bool pushing;
    bool halves; /* of one copy: the second owner fetches its half */
    uint8_t kind;
    uint64_t *old;
    uint64_t *again, again_count; /* elements that go alone after all: their memory is a device's */
    uint64_t gathered; /* bytes of the batches that are begun */
    struct batch *open[OPEN_BUCKETS];
    /* copies, atomics: dst or null | src | size or value | compare */
    uint64_t *columns[4];
    uint64_t data[];
};

void vector_push(acp_lane *lane, struct op *op);
void vector_child_done(acp_lane *lane, struct op *child);
bool vector_halves(acp_lane *lane, struct op *op); /* false: no memory, nothing has happened */

#endif
