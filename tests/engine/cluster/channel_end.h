/* Ends of channels in tests. */
#ifndef ACP_TESTS_CHANNEL_END_H
#define ACP_TESTS_CHANNEL_END_H

#include "cluster/cluster.h"
#include "core/channels.h"

#include <sched.h>

static acp_channel *channel_end_open(acp_lane *lane, uint32_t rank, acp_channel_shape shape, bool sends)
{
    acp_channel *end;
    struct acp_call call = {0};
    acp_handle_t pending;
    int rc = ACP_OK;
    shape.sends = sends;
    while (!sends && (rc = acp_malloc(lane, acp_rank(lane->engine), acp_channel_bytes(shape.size, shape.slots), &call,
                                      &pending)) == ACP_E_BUSY)
        sched_yield();
    CHECK(rc == ACP_OK);
    CHECK(acp_channel_new(lane, rank, &shape, call.result[0], &end) == ACP_OK);
    return end;
}

#endif
