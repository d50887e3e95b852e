/* Messages between ranks of one node. */
#include "cluster.h"
#include "request.h"

#define AGAIN(call)                          \
    ({                                       \
        int again_;                          \
        while ((again_ = (call)) == ACP_E_BUSY) \
            sched_yield();                   \
        again_;                              \
    })

#include <sched.h>

static void send_wait_for(acp_engine *e, acp_lane *lane, uint32_t to, int64_t tag, const void *data,
                      uint64_t size)
{
    acp_envelope envelope = {.tag = tag, .size = size, .note = (uint64_t)tag * 7};
    acp_request *r;
    CHECK(AGAIN(acp_send(lane, to, &envelope, data, &r)) == ACP_OK);
    if (r) {
        CHECK(acp_request_wait(e, r, ACP_FOREVER) == ACP_OK);
        CHECK(acp_request_end(lane, r, NULL) == ACP_OK);
    }
}

static acp_envelope receive(acp_engine *e, acp_lane *lane, int64_t from, int64_t tag, void *buffer,
                            uint64_t size)
{
    acp_envelope want = {.source = from, .tag = tag, .size = size}, got = {0};
    acp_request *r;
    CHECK(AGAIN(acp_receive(lane, &want, buffer, &r)) == ACP_OK);
    CHECK(acp_request_wait(e, r, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(lane, r, &got) == ACP_OK);
    CHECK(got.note == (uint64_t)got.tag * 7);
    return got;
}

static void fill(unsigned char *p, uint64_t size, uint32_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        p[i] = (unsigned char)(seed + i * 7 + i / 251);
}

static const uint64_t sizes[] = {0, 1, 8, 255, 256, 257, 4096, 65537, 1 << 20, (3 << 20) + 5};
#define SIZES (sizeof sizes / sizeof *sizes)

static void ring(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t right = (rank + 1) % c->count, left = (rank + c->count - 1) % c->count;
    unsigned char *mine = malloc(4 << 20), *theirs = malloc(4 << 20), *expected = malloc(4 << 20);
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < SIZES; i++) {
            fill(mine, sizes[i], rank + round);
            fill(expected, sizes[i], left + round);
            send_wait_for(e, lane, right, i, mine, sizes[i]);
            acp_envelope got = receive(e, lane, round == 1 ? ACP_ANY : (int64_t)left,
                                       round == 2 ? ACP_ANY : (int64_t)i, theirs, 4 << 20);
            CHECK(got.size == sizes[i] && got.source == left && got.tag == (int64_t)i);
            CHECK(memcmp(theirs, expected, sizes[i]) == 0);
        }
    free(mine);
    free(theirs);
    free(expected);
}

int main(void)
{
    struct cluster c;
    cluster_start(&c, 3, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run(&c, ring);
    cluster_stop(&c);
    return 0;
}
