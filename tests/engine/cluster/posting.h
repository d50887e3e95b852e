/* What tests of messages by link say often: one thread sends and receives for any engine. */
#ifndef ACP_TESTS_POSTING_H
#define ACP_TESTS_POSTING_H

#include "cluster/cluster.h"
#include "core/messages.h"
#include "transport/frame.h"

#define PART ((uint64_t)FRAME_PAYLOAD_MOST)

static inline void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static inline acp_request *isend(acp_engine *e, uint32_t to, int64_t tag, const void *data,
                                 uint64_t size)
{
    acp_lane *lane = acp_engine_lane(e);
    acp_envelope envelope = {.tag = tag, .size = size, .note = size + (uint64_t)tag};
    acp_request *request = NULL;
    int rc;
    while ((rc = acp_send(lane, to, &envelope, data, &request)) == ACP_E_BUSY)
        continue;
    CHECK(rc == ACP_OK);
    return request;
}

static inline void end(acp_engine *e, acp_request *request)
{
    if (!request)
        return;
    CHECK(acp_request_wait(e, request, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(acp_engine_lane(e), request, NULL) == ACP_OK);
}

static inline acp_request *irecv(acp_engine *e, int64_t from, int64_t tag, void *buffer,
                                 uint64_t room)
{
    acp_envelope want = {.source = from, .tag = tag, .size = room};
    acp_request *request = NULL;
    int rc;
    while ((rc = acp_receive(acp_engine_lane(e), &want, buffer, &request)) == ACP_E_BUSY)
        continue;
    CHECK(rc == ACP_OK);
    return request;
}

static inline acp_envelope got(acp_engine *e, acp_request *request, int status)
{
    acp_envelope envelope;
    CHECK(acp_request_wait(e, request, ACP_FOREVER) == ACP_OK);
    int rc = acp_request_end(acp_engine_lane(e), request, &envelope);
    if (rc != status)
        fprintf(stderr, "a receive: %s\n", acp_status_name(rc));
    CHECK(rc == status);
    return envelope;
}

static inline void fill(unsigned char *data, uint64_t size, uint64_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        data[i] = (unsigned char)((i + seed) * 2654435761u >> 13);
}

static inline void check(const unsigned char *data, uint64_t size, uint64_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        CHECK(data[i] == (unsigned char)((i + seed) * 2654435761u >> 13));
}

#endif
