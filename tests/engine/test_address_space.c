/* A process that has fewer addresses than offsets: what its memory file has of them follows. */
#include "cluster.h"

#include <sys/mman.h>

#define LEAST ((uint64_t)64 << 30)

/* Takes all addresses from which `span` bytes in one piece could be had. */
static void occupy(uint64_t span)
{
    for (uint64_t piece = (uint64_t)1 << 47; piece >= span; piece /= 2)
        while (mmap(NULL, piece, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) !=
               MAP_FAILED)
            continue;
}

int main(void)
{
    static const uint64_t words[2] = {11, 22};
    acp_config config = {.node = 1, .starter_size = 4096, .memory_limit = 64 << 20, .ptracer = 1,
                         .peer_timeout_ns = 5000000000u};
    uint8_t row[ACP_ROW_SIZE];
    uint64_t word = 0;
    acp_fault fault;
    acp_engine *e = NULL;
    acp_handle_t pending;
    acp_ga_t ga;
    void *data;
    occupy(2 * LEAST);
    CHECK(acp_engine_create(&config, &e, &fault) == ACP_OK);
    CHECK(e->memory.span >= LEAST && e->memory.span < 2 * LEAST && e->control->span == e->memory.span);
    acp_engine_row(e, row);
    CHECK(acp_table_add(e, 0, row, 1) == ACP_OK);
    CHECK(acp_engine_join(e, 1, 0) == ACP_OK);
    acp_lane *lane = acp_engine_lane(e);
    CHECK(acp_memory_alloc(lane, 1 << 20, 0, &ga, &data) == ACP_OK);
    CHECK(acp_put(lane, ga + 8, words, sizeof words, &pending) == ACP_OK && !pending);
    CHECK(acp_get(lane, &word, ga + 16, 8, &pending) == ACP_OK && !pending && word == 22);
    CHECK(acp_memory_alloc(lane, 65 << 20, 0, &ga, &data) == ACP_E_FULL);
    acp_engine_leaving(e);
    acp_engine_close(e);
    acp_engine_free(e);
    return 0;
}
