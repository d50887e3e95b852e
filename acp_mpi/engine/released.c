/* Collectives that go on by themselves: whoever drives progress takes them as far as messages have
 * come, while their callers compute. */
#include "collective.h"

#include "progress.h"
#include "request.h"

#include <stdlib.h>

/* True: it has come to an end, or to a fold of its caller's. */
static bool drive(acp_lane *lane, acp_collective *c, bool *again)
{
    uint32_t before = c->at;
    if (atomic_load_explicit(&c->state, memory_order_relaxed) != COLLECTIVE_RUNS)
        return false;
    int rc;
    do
        rc = collective_drive(lane, c);
    while (rc == ACP_E_HANDLE && requests_ring(lane->engine, c));
    *again |= rc == ACP_E_BUSY;
    (void)before;
    return rc == ACP_OK;
}
