/* Blocks on any rank by every road: taken, used, given back; full heaps, wrong addresses, a reset. */
#include "cluster/frames.h"
#include "core/lane.h"

#define BLOCKS 60u

static int done(acp_lane *lane, int rc, acp_handle_t pending)
{
    acp_failure failure;
    uint64_t more;
    if (rc == ACP_OK && pending) {
        CHECK(acp_wait(lane->engine, pending, ACP_FOREVER) == ACP_OK);
        if (acp_failures_take(lane->engine, pending, true, &failure, 1, &more))
            return failure.fault.status;
    }
    return rc;
}

/* The lane of a caller does not wait for the heap: it comes again. */
static bool again(acp_lane *lane, int *rc, acp_handle_t pending)
{
    if (*rc == ACP_E_BUSY)
        return acp_wait_room(lane->engine, ACP_FOREVER) == ACP_OK;
    *rc = done(lane, *rc, pending);
    return false;
}

static int block_take(acp_lane *lane, uint32_t rank, uint64_t size, acp_ga_t *ga)
{
    struct acp_call call;
    acp_handle_t pending = 0;
    int rc;
    do
        rc = acp_malloc(lane, rank, size, &call, &pending);
    while (again(lane, &rc, pending));
    *ga = call.result[0];
    return rc;
}

static int block_give(acp_lane *lane, acp_ga_t ga)
{
    struct acp_call call;
    acp_handle_t pending = 0;
    int rc, tidied = ACP_OK;
    do
        rc = acp_free(lane, ga, &call, &pending);
    while (again(lane, &rc, pending));
    while (rc == ACP_OK && call.result[0] && tidied == ACP_OK)
        do
            tidied = acp_heap_tidy(lane, (uint32_t)acp_ga_rank(ga), &call, &pending);
        while (again(lane, &tidied, pending));
    CHECK(tidied == ACP_OK);
    return rc;
}

static acp_heap_statistics look(acp_lane *lane, uint32_t rank)
{
    struct acp_call call;
    acp_heap_statistics s;
    acp_handle_t pending = 0;
    int rc;
    do
        rc = acp_heap_look(lane, rank, &s, &call, &pending);
    while (again(lane, &rc, pending));
    CHECK(rc == ACP_OK);
    return s;
}

static void move(acp_lane *lane, bool put, acp_ga_t ga, uint64_t *words, uint64_t size)
{
    acp_handle_t pending = 0;
    int rc = put ? acp_put(lane, ga, words, size, &pending) : acp_get(lane, words, ga, size, &pending);
    CHECK(done(lane, rc, pending) == ACP_OK);
}

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 1, ACP_FOREVER) == ACP_OK);
}

static void use(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_ga_t block[BLOCKS];
    for (uint32_t round = 0; round < 4; round++) {
        for (uint32_t i = 0; i < BLOCKS; i++) {
            uint64_t size = 16 + i * 700, words[2] = {rank, i};
            CHECK(block_take(lane, (rank + i) % c->count, size, &block[i]) == ACP_OK);
            CHECK(acp_ga_rank(block[i]) == (rank + i) % c->count && block[i] % 16 == 0);
            move(lane, true, block[i], words, 16);
        }
        meet(e);
        for (uint32_t i = BLOCKS; i-- > 0;) {
            uint64_t words[2];
            move(lane, false, block[i], words, 16);
            CHECK(words[0] == rank && words[1] == i);
            CHECK(block_give(lane, block[i]) == ACP_OK);
        }
    }
    meet(e);
    CHECK(block_give(lane, block[0]) == ACP_E_BLOCK);
    CHECK(block_give(lane, acp_starter(e, (rank + 1) % c->count)) == ACP_E_BLOCK);
    CHECK(block_take(lane, (rank + 1) % c->count, 1ull << 40, &block[0]) == ACP_E_FULL);
    acp_heap_statistics s = look(lane, (rank + 1) % c->count);
    CHECK(s.used == 0 && s.fragments == 1 && s.limit == 256 << 20);
    meet(e);
}

/* Ranks share what one has; arrays and the heap keep the limit together. */
static void fill(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_ga_t block[300], array;
    void *data;
    uint32_t count = 0;
    if (rank == 0) {
        CHECK(acp_memory_alloc(lane, 200 << 20, 0, &array, &data) == ACP_OK);
        CHECK(block_take(lane, 0, 100 << 20, &block[0]) == ACP_E_FULL);
        acp_memory_drop(lane, data, 200 << 20);
        CHECK(acp_memory_alloc(lane, 156 << 20, 0, &array, &data) == ACP_OK);
    }
    meet(e);
    while (count < 300 && block_take(lane, 0, 1 << 20, &block[count]) == ACP_OK)
        count++;
    CHECK(count < 300);
    meet(e);
    if (rank == 0) {
        acp_heap_statistics s = look(lane, 0);
        CHECK(s.committed + (156 << 20) <= s.limit && s.blocks >= 90);
    }
    meet(e);
    while (count)
        CHECK(block_give(lane, block[--count]) == ACP_OK);
    meet(e);
    if (rank == 0) {
        acp_memory_drop(lane, data, 156 << 20);
        acp_heap_statistics s = look(lane, 0);
        CHECK(s.used == 0 && s.fragments == 1 && s.committed <= 6 << 20);
        CHECK(acp_memory_alloc(lane, 250 << 20, 0, &array, &data) == ACP_OK);
        acp_memory_drop(lane, data, 250 << 20);
    }
    (void)c;
}

/* One frame asks for a block of another rank, and one gives it back; a few more are answers to what others ask. */
static void a_far_block_is_one_message(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_ga_t block[BLOCKS];
    if (rank == 0) {
        CHECK(block_take(lane, 1, 16, &block[0]) == ACP_OK && block_give(lane, block[0]) == ACP_OK);
        uint64_t before = frames_said(c, e);
        for (uint32_t i = 0; i < BLOCKS; i++)
            CHECK(block_take(lane, 1, 100, &block[i]) == ACP_OK);
        for (uint32_t i = 0; i < BLOCKS; i++)
            CHECK(block_give(lane, block[i]) == ACP_OK);
        CHECK(frames_said(c, e) - before < 2 * BLOCKS + BLOCKS / 4);
    }
    meet(e);
}

int main(void)
{
    static const cluster_body bodies[] = {use, fill};
    struct cluster c;
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    cluster_start(&c, 2, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run(&c, a_far_block_is_one_message);
    cluster_stop(&c);
    return 0;
}
