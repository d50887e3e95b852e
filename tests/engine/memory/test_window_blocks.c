/* Arrays in the window part: zero whatever was there before, apart from all other memory, joined when they end, and of
 * a committed part never given back to the system. */
#include "cluster/cluster.h"
#include "memory/heap.h"
#include "memory/window_blocks.h"

#define PART ((uint64_t)4 << 20)
#define SIZE ((uint64_t)256 << 10)
#define MOST 8

static acp_engine *engine_with(uint64_t limit, uint64_t window, bool committed)
{
    acp_config config = {.node = 1, .memory_limit = limit, .starter_size = 10240, .span = 1ull << 30,
                         .window_size = window, .window_committed = committed,
                         .peer_timeout_ns = 1000000000};
    uint8_t row[ACP_ROW_SIZE];
    acp_fault fault;
    acp_engine *e;
    CHECK(acp_engine_create(&config, &e, &fault) == ACP_OK);
    acp_engine_row(e, row);
    CHECK(acp_table_add(e, 0, row, 1) == ACP_OK && acp_engine_join(e, 1, 0) == ACP_OK);
    return e;
}

static uint64_t committed(acp_engine *e)
{
    acp_memory_statistics s;
    acp_memory_statistics_get(e, &s);
    return s.committed;
}

static bool blank(const unsigned char *bytes, uint64_t size)
{
    return !bytes[0] && !memcmp(bytes, bytes + 1, size - 1);
}

/* Returns how many fit; the fault of the one that does not names the window part. */
static uint32_t fill(acp_lane *lane, void *address[MOST])
{
    acp_ga_t ga;
    for (uint32_t i = 0; i < MOST; i++) {
        if (acp_window_alloc(lane, SIZE, 0, &ga, &address[i]) != ACP_OK) {
            CHECK(acp_lane_fault(lane)->status == ACP_E_FULL && acp_lane_fault(lane)->low == 1);
            CHECK(acp_lane_fault(lane)->high < SIZE);
            return i;
        }
        CHECK(blank(address[i], SIZE));
        memset(address[i], 0xa5, SIZE);
    }
    return MOST;
}

/* A block over the whole heap goes back to it, and the heap gives its memory back to the system. */
static void take_and_give(acp_engine *e, acp_lane *lane)
{
    struct acp_call c;
    acp_handle_t pending;
    CHECK(acp_malloc(lane, 0, 4 * PART, &c, &pending) == ACP_OK && !pending);
    memset(e->memory.base + acp_ga_offset(c.result[0]), 0x5a, 4 * PART);
    uint64_t before = committed(e);
    CHECK(acp_free(lane, c.result[0], &c, &pending) == ACP_OK && !pending);
    while (c.result[0])
        CHECK(acp_heap_tidy(lane, 0, &c, &pending) == ACP_OK && !pending);
    CHECK(committed(e) < before - PART);
}

/* A process that may have hardly any memory has starter memory, and no heap. */
static void no_room_for_a_heap(void)
{
    const uint64_t word = 7;
    for (uint64_t limit = 16 << 10; limit <= GRANULE; limit *= 2) {
        acp_engine *e = engine_with(limit, 0, false);
        acp_lane *lane = acp_engine_lane(e);
        struct acp_call c;
        acp_handle_t pending;
        CHECK(acp_malloc(lane, 0, 64, &c, &pending) == ACP_E_FULL);
        CHECK(acp_put(lane, acp_starter(e, 0), &word, 8, &pending) == ACP_OK && !pending);
        acp_engine_close(e);
        acp_engine_free(e);
    }
}

/* It asks for more than the process may have. */
static void a_window_has_its_share(void)
{
    for (int committed = 0; committed < 2; committed++) {
        acp_engine *e = engine_with(PART / 4, PART, committed);
        CHECK(e->memory.window.size && e->memory.window.size <= PART / 4 && !e->memory.window.fault.status);
        acp_engine_close(e);
        acp_engine_free(e);
    }
}

int main(void)
{
    a_window_has_its_share();
    no_room_for_a_heap();
    for (int pinned = 0; pinned < 2; pinned++) {
        acp_engine *e = engine_with(64 << 20, PART, pinned);
        acp_lane *lane = acp_engine_lane(e);
        struct memory_state *m = &e->memory;
        void *address[MOST], *large;
        acp_ga_t ga;
        uint64_t before = committed(e), part = window_blocks_largest(m);
        CHECK(acp_window_keeps_arrays(e) == pinned);
        CHECK(part > PART / 4 && m->window.arrays.high <= m->heap_position);
        for (uint32_t round = 0; round < 3; round++) {
            uint32_t count = fill(lane, address);
            CHECK(count == (part + GUARD_BYTES) / (SIZE + GUARD_BYTES));
            CHECK(committed(e) == before + (pinned ? 0 : count * SIZE));
            for (uint32_t from = 0; from < 2; from++) /* every other one first: neighbours join on both sides */
                for (uint32_t i = from; i < count; i += 2)
                    acp_memory_drop(lane, address[i], SIZE);
            CHECK(acp_memory_alloc(lane, SIZE, 0, &ga, &large) == ACP_OK);
            CHECK(!window_blocks_holds(m, acp_ga_offset(ga)));
            acp_memory_drop(lane, large, SIZE);
            CHECK(acp_window_alloc(lane, part, 0, &ga, &large) == ACP_OK);
            CHECK(blank(large, part));
            acp_memory_drop(lane, large, part);
            CHECK(acp_window_alloc(lane, part + 1, 0, &ga, &large) == ACP_E_FULL);
        }
        acp_ga_t first, second; /* offsets are used again late */
        CHECK(acp_window_alloc(lane, SIZE, 0, &first, &large) == ACP_OK);
        acp_memory_drop(lane, large, SIZE);
        CHECK(acp_window_alloc(lane, SIZE, 0, &second, &large) == ACP_OK && first != second);
        take_and_give(e, lane);
        /* But that of a committed window, whose pages a network may have. */
        CHECK(m->base[STARTER_OFFSET + m->window.size - 2 * GRANULE] == (pinned ? 0x5a : 0));
        acp_engine_close(e);
        acp_engine_free(e);
    }
    return 0;
}
