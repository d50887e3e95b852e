/* What tests of calls share: engines that know the methods, and what goes to them. */
#ifndef ACP_TESTS_CALLS_H
#define ACP_TESTS_CALLS_H

#include "cluster/cluster.h"
#include "support/methods.h"
#include "core/engine.h"

static inline void start(struct cluster *c, uint32_t count, uint32_t nodes, acp_path path)
{
    cluster_start(c, count, nodes, path, CLUSTER_SHARED);
    for (uint32_t i = 0; i < count; i++)
        c->engines[i]->config.methods = test_methods;
}

static inline uint64_t *word_of(acp_engine *e, acp_ga_t ga)
{
    void *address;
    CHECK(acp_query_address(acp_engine_lane(e), ga, 8, &address) == ACP_OK);
    return address;
}

static inline acp_handle_t icall(acp_engine *e, acp_lane *lane, struct acp_call *c, acp_handle_t order)
{
    acp_handle_t handle;
    while (!(handle = acp_icall(lane, c, order))) {
        CHECK(acp_lane_fault(lane)->status == ACP_E_BUSY);
        CHECK(acp_wait_room(e, ACP_FOREVER) == ACP_OK);
    }
    acp_lane_previous(lane, handle);
    return handle;
}

static inline void fill(unsigned char *bytes, uint64_t size, uint64_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * 31 + seed + (i >> 8));
}

static inline bool reversed(const unsigned char *a, const unsigned char *b, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        if (a[i] != b[size - 1 - i])
            return false;
    return true;
}

#endif
