/* Elements of one call that go by link travel together, however their targets and sizes alternate. */
#include "cluster/frames.h"

#define COUNT 6000u
#define SIZES 24u
#define LINE ((uint64_t)256) /* from one element to the next, in memory of its own */
#define COMPANY 20u /* elements in a frame, at least, in the mean */

struct rows {
    unsigned char *bytes;
    acp_ga_t places[CLUSTER_MOST]; /* of each rank */
    uint64_t dst[COUNT], src[COUNT], size[COUNT], old[COUNT];
};

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void done(acp_engine *e, acp_handle_t handle)
{
    acp_failure failure;
    uint64_t more;
    CHECK(handle && acp_complete(e, handle, ACP_FOREVER) == ACP_OK);
    CHECK(acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more) == 0);
}

static acp_column column(uint64_t *words)
{
    return (acp_column){(char *)words, 8};
}

static struct rows *rows_new(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct rows *r = calloc(1, sizeof *r);
    uint64_t key[2] = {rank, 1}, value[2] = {0, 0};
    void *address;
    CHECK(acp_memory_alloc(lane, COUNT * LINE, 0, &value[0], &address) == ACP_OK);
    r->bytes = address;
    CHECK(acp_publish(e, key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    for (uint32_t i = 0; i < c->count; i++) {
        key[0] = i;
        CHECK(acp_lookup(e, key, value, ACP_FOREVER) == ACP_OK);
        r->places[i] = value[0];
    }
    return r;
}

/* Element i is of that rank, which is not the first. */
static uint32_t rank_of(const struct cluster *c, uint64_t i)
{
    return 1 + (uint32_t)(i * 5 / 3 % (c->count - 1));
}

static uint64_t size_of(uint64_t i)
{
    return 1 + i * 7 / 4 % SIZES;
}

static unsigned char byte_of(uint64_t i, uint64_t at)
{
    return (unsigned char)(i * 31 + at * 7 + 1);
}

static void copied(struct cluster *c, struct rows *r, acp_engine *e, acp_lane *lane)
{
    uint64_t before = frames_said(c, e), bad;
    done(e, acp_copy_many(lane, column(r->dst), column(r->src), column(r->size), COUNT,
                          ACP_HANDLE_NULL, &bad));
    CHECK(frames_said(c, e) - before <= COUNT / COMPANY);
}

/* There by puts, back by gets. */
static void rows_of_many_sizes(struct cluster *c, struct rows *r, acp_engine *e, acp_lane *lane)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        r->size[i] = size_of(i);
        r->src[i] = r->places[0] + i * LINE;
        r->dst[i] = r->places[rank_of(c, i)] + i * LINE;
        for (uint64_t at = 0; at < SIZES; at++)
            r->bytes[i * LINE + at] = byte_of(i, at);
    }
    copied(c, r, e, lane);
    for (uint64_t i = 0; i < COUNT; i++) {
        r->src[i] = r->dst[i];
        r->dst[i] = r->places[0] + i * LINE + LINE / 2;
    }
    copied(c, r, e, lane);
    for (uint64_t i = 0; i < COUNT; i++)
        for (uint64_t at = 0; at < LINE / 2; at++)
            CHECK(r->bytes[i * LINE + LINE / 2 + at] == (at < size_of(i) ? byte_of(i, at) : 0));
}

static void words_of_many_ranks(struct cluster *c, struct rows *r, acp_engine *e, acp_lane *lane)
{
    uint64_t seven = 7, before = frames_said(c, e), bad;
    for (uint64_t i = 0; i < COUNT; i++)
        r->dst[i] = r->places[rank_of(c, i)] + i * LINE + LINE - 8;
    for (uint64_t turn = 0; turn < 2; turn++) {
        done(e, acp_atomic_many(lane, ACP_ADD8, column(r->dst), (acp_column){(char *)&seven, 0},
                                (acp_column){NULL, 0}, r->old, COUNT, ACP_HANDLE_NULL, &bad));
        for (uint64_t i = 0; i < COUNT; i++)
            CHECK(r->old[i] == 7 * turn);
    }
    CHECK(frames_said(c, e) - before <= 2 * COUNT / COMPANY);
}

static void gather(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct rows *r = rows_new(c, rank, e, lane);
    meet(e);
    if (rank == 0) {
        rows_of_many_sizes(c, r, e, lane);
        words_of_many_ranks(c, r, e, lane);
    }
    meet(e);
    free(r);
}

int main(void)
{
    struct cluster c;
    cluster_start(&c, CLUSTER_MOST, CLUSTER_MOST, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run(&c, gather);
    cluster_stop(&c);
    return 0;
}
