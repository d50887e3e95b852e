/* A process that has fewer addresses than offsets, or whose files may not have so many: its memory file has
 * what it may. */
#include "cluster/cluster.h"
#include "core/engine_state.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define LEAST ((uint64_t)64 << 30)

static void *reserve(uint64_t size)
{
    return mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* Takes all addresses but for a piece that is a quarter longer than `span`, for what comes first may lie in it, a small
 * one, and what is smaller still. */
static void occupy(uint64_t span)
{
    uint64_t longer = span + span / 4;
    void *piece = reserve(longer), *guard = reserve(span / 64), *rest = reserve(span / 16);
    CHECK(piece != MAP_FAILED && guard != MAP_FAILED && rest != MAP_FAILED);
    for (uint64_t size = (uint64_t)1 << 47; size >= span / 64; size /= 2)
        while (reserve(size) != MAP_FAILED)
            continue;
    munmap(piece, longer);
    munmap(rest, span / 16);
}

static acp_engine *begin(void)
{
    acp_config config = {.node = 1, .starter_size = 4096, .memory_limit = 64 << 20, .ptracer = 1,
                         .peer_timeout_ns = 5000000000u};
    uint8_t row[ACP_ROW_SIZE];
    acp_fault fault;
    acp_engine *e = NULL;
    CHECK(acp_engine_create(&config, &e, &fault) == ACP_OK);
    acp_engine_row(e, row);
    CHECK(acp_table_add(e, 0, row, 1) == ACP_OK);
    CHECK(acp_engine_join(e, 1, 0) == ACP_OK);
    CHECK(e->control->span == e->memory.span);
    return e;
}

static void end(acp_engine *e)
{
    static const uint64_t words[2] = {11, 22};
    acp_lane *lane = acp_engine_lane(e);
    uint64_t word = 0;
    acp_handle_t pending;
    acp_ga_t ga;
    void *data;
    CHECK(acp_memory_alloc(lane, 1 << 20, 0, &ga, &data) == ACP_OK);
    CHECK(acp_put(lane, ga + 8, words, sizeof words, &pending) == ACP_OK && !pending);
    CHECK(acp_get(lane, &word, ga + 16, 8, &pending) == ACP_OK && !pending && word == 22);
    CHECK(acp_memory_alloc(lane, 65 << 20, 0, &ga, &data) == ACP_E_FULL);
    acp_engine_leaving(e);
    acp_engine_close(e);
    acp_engine_free(e);
}

/* The hard limit of the size of files counts, and the soft one is as it was. */
static void with_short_files(uint64_t soft, uint64_t hard, uint64_t span)
{
    struct rlimit limit = {soft, hard}, after;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    acp_engine *e = begin();
    CHECK(e->memory.span == span);
    CHECK(getrlimit(RLIMIT_FSIZE, &after) == 0 && after.rlim_cur == soft && after.rlim_max == hard);
    end(e);
}

/* A quarter of what the process may have: peers' files take as much. */
static void with_few_addresses(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* their own memory counts */
    return;
#endif
    struct rlimit before, limit;
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    limit = (struct rlimit){8 * LEAST, before.rlim_max};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    acp_engine *e = begin();
    CHECK(e->memory.span == 2 * LEAST);
    end(e);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
}

static void with_no_files(void)
{
    acp_config config = {.node = 1, .starter_size = 4096, .memory_limit = 64 << 20};
    struct rlimit limit = {1 << 20, 1 << 20};
    acp_fault fault;
    acp_engine *e;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(acp_engine_create(&config, &e, &fault) == ACP_E_SYSTEM && fault.error == EFBIG);
}

int main(void)
{
    close(STDIN_FILENO); /* so that its file may be descriptor 0 */
    with_few_addresses();
    with_short_files(1 << 20, RLIM_INFINITY, ACP_OFFSET_SPAN);
    with_short_files(2 * LEAST, 2 * LEAST, 2 * LEAST);
    occupy(LEAST);
    acp_engine *e = begin();
    CHECK(e->memory.span >= LEAST && e->memory.span < 2 * LEAST);
    end(e);
    with_no_files();
    return 0;
}
