/* A call of a container's method, waited for, as programs make them. */
#ifndef ACP_TESTS_CALLING_H
#define ACP_TESTS_CALLING_H

#include "support/check.h"
#include "core/lane.h"

static inline int run(acp_lane *lane, struct acp_call *c)
{
    acp_handle_t pending = 0;
    acp_failure failure;
    uint64_t more;
    int rc;
    while ((rc = acp_container_call(lane, c, &pending)) == ACP_E_BUSY)
        CHECK(acp_wait_room(lane->engine, ACP_FOREVER) == ACP_OK);
    if (rc == ACP_OK && pending) {
        CHECK(acp_wait(lane->engine, pending, ACP_FOREVER) == ACP_OK);
        if (acp_failures_take(lane->engine, pending, true, &failure, 1, &more))
            return failure.fault.status;
    }
    return rc;
}

#endif
