/* What lies beyond a region is out of reach on every road: by one byte, or by another colour. */
#include "cluster/cluster.h"
#include "core/engine.h"

#define SIZE 24u
#define COLOR 3u

static struct place_of {
    acp_ga_t memory, registered;
    unsigned char *bytes;
} places[CLUSTER_MOST];
static unsigned char own[CLUSTER_MOST][2 * SIZE];

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static int ended(acp_engine *e, acp_lane *lane, acp_handle_t handle)
{
    acp_failure failure;
    uint64_t more;
    if (!handle)
        return acp_lane_fault(lane)->status;
    CHECK(acp_wait(e, handle, ACP_FOREVER) == ACP_OK);
    return acp_failures_take(e, handle, true, &failure, 1, &more) ? failure.fault.status : ACP_OK;
}

/* Puts, gets and copies so many bytes there: each ends with that status. */
static void every_way(acp_engine *e, acp_lane *lane, acp_ga_t there, uint64_t size, int status)
{
    unsigned char buffer[2 * SIZE];
    acp_ga_t here = acp_starter(e, acp_rank(e)) + 512;
    memset(buffer, 0x77, sizeof buffer);
    CHECK(ended(e, lane, acp_iput(lane, there, buffer, size, ACP_HANDLE_NULL)) == status);
    CHECK(ended(e, lane, acp_iget(lane, buffer, there, size, ACP_HANDLE_NULL)) == status);
    CHECK(ended(e, lane, acp_copy(lane, here, there, size, ACP_HANDLE_NULL)) == status);
    CHECK(ended(e, lane, acp_copy(lane, there, here, size, ACP_HANDLE_NULL)) == status);
}

static void region_ends(acp_engine *e, acp_lane *lane, acp_ga_t first)
{
    every_way(e, lane, first, SIZE, ACP_OK);
    every_way(e, lane, first + SIZE - 1, 1, ACP_OK);
    every_way(e, lane, first, SIZE + 1, ACP_E_BOUNDS);
    every_way(e, lane, first + 1, SIZE, ACP_E_BOUNDS);
    every_way(e, lane, first + SIZE - 1, 2, ACP_E_BOUNDS);
    every_way(e, lane, first + SIZE, 1, ACP_E_UNREGISTERED);
    CHECK(ended(e, lane, acp_atomic(lane, ACP_ADD8, ACP_GA_NULL, first + SIZE - 8, 1, 0,
                                    ACP_HANDLE_NULL)) == ACP_OK);
    CHECK(ended(e, lane, acp_atomic(lane, ACP_ADD8, ACP_GA_NULL, first + SIZE, 1, 0,
                                    ACP_HANDLE_NULL)) == ACP_E_UNREGISTERED);
}

static void colours_differ(acp_engine *e, acp_lane *lane, acp_ga_t first)
{
    uint32_t rank = (uint32_t)acp_ga_rank(first);
    for (uint32_t color = 0; color < ACP_COLORS; color++)
        if (color != COLOR)
            every_way(e, lane, acp_ga(rank, color, acp_ga_offset(first)), 8, ACP_E_UNREGISTERED);
}

static void beyond(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    void *address;
    CHECK(acp_memory_alloc(lane, SIZE, COLOR, &places[rank].memory, &address) == ACP_OK);
    CHECK(acp_segment_register(lane, own[rank], SIZE, COLOR, &places[rank].registered) == ACP_OK);
    places[rank].bytes = address;
    memset(own[rank], 0, sizeof own[rank]);
    meet(e);
    for (uint32_t turn = 0; turn < c->count; turn++) {
        for (uint32_t of = 0; turn == rank && of < c->count; of++) {
            region_ends(e, lane, places[of].memory);
            region_ends(e, lane, places[of].registered);
            colours_differ(e, lane, places[of].memory);
            colours_differ(e, lane, places[of].registered);
        }
        meet(e);
    }
    for (uint32_t i = SIZE; i < 2 * SIZE; i++)
        CHECK(own[rank][i] == 0 && places[rank].bytes[i] == 0);
    meet(e);
    CHECK(acp_segment_retire(lane, places[rank].registered, 0, NULL) == ACP_OK);
}

int main(void)
{
    static const cluster_body bodies[] = {beyond};
    cluster_by_every_road(bodies, 1);
    return 0;
}
