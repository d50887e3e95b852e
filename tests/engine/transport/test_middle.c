/* A man in the middle of all links, with frames that have codes and with encrypted ones: whatever he does to a frame, its
 * connection ends there and is resumed, and nothing is lost, changed or done twice. */
#include "cluster/cluster.h"
#include "cluster/middle.h"
#include "base/libcrypto.h"

#define RANKS 3u
#define TURNS 3u
#define ADDS 60u
#define BLOCK ((uint64_t)150000)
#define MEAN 40u
#define EACH 4u /* attacks of a kind on the connections to one rank */

static struct middle middles[RANKS];

static void start(struct cluster *c)
{
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    cluster_create(c, RANKS, RANKS, ACP_PATH_LINK, CLUSTER_SHARED, CLUSTER_PATIENCE_NS, rows);
    for (uint32_t i = 0; i < RANKS; i++)
        middle_start(&middles[i], ((struct row *)(void *)rows[i])->port, i + 1);
    for (uint32_t i = 0; i < RANKS; i++) {
        uint8_t seen[CLUSTER_MOST][ACP_ROW_SIZE];
        memcpy(seen, rows, sizeof seen);
        for (uint32_t other = 0; other < RANKS; other++)
            if (other != i)
                ((struct row *)(void *)seen[other])->port = middles[other].port;
        CHECK(acp_table_add(c->engines[i], 0, seen[0], RANKS) == ACP_OK);
        CHECK(acp_engine_join(c->engines[i], RANKS, i) == ACP_OK);
    }
}

static void stop(struct cluster *c)
{
    for (uint32_t i = 0; i < RANKS; i++)
        middles[i].attack = MIDDLE_NONE;
    cluster_stop(c);
    for (uint32_t i = 0; i < RANKS; i++)
        middle_stop(&middles[i]);
}

static uint64_t attacks(void)
{
    return middles[0].attacks + middles[1].attacks + middles[2].attacks;
}

static uint64_t ends(void)
{
    return middles[0].ends + middles[1].ends + middles[2].ends;
}

static void complete(acp_engine *e)
{
    acp_failure failure;
    uint64_t more;
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    CHECK(!acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more));
}

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Each rank adds to a counter of each other rank and puts a block there, then looks at what it got. */
static void work(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static acp_ga_t at[RANKS];
    unsigned char *here = malloc(BLOCK), *blocks; /* by sender */
    uint64_t *counter;
    void *address, *memory;
    (void)c;
    CHECK(acp_memory_alloc(lane, RANKS * BLOCK, 0, &at[rank], &memory) == ACP_OK);
    blocks = memory;
    CHECK(acp_query_address(lane, acp_starter(e, rank), 8, &address) == ACP_OK);
    counter = address;
    uint64_t before = *counter;
    meet(e);
    for (uint32_t turn = 1; turn <= TURNS; turn++) {
        for (uint32_t i = 0; i < ADDS; i++)
            for (uint32_t other = 0; other < RANKS; other++)
                CHECK(other == rank || acp_atomic(lane, ACP_ADD8, ACP_GA_NULL, acp_starter(e, other), 1, 0,
                                                  i % 5 ? ACP_HANDLE_NULL : ACP_HANDLE_ALL));
        for (uint32_t other = 0; other < RANKS; other++) {
            memset(here, (int)(16 * turn + rank), BLOCK);
            if (other != rank)
                CHECK(acp_iput(lane, at[other] + rank * BLOCK, here, BLOCK, ACP_HANDLE_NULL));
            complete(e);
        }
        meet(e);
        CHECK(*counter == before + (RANKS - 1) * ADDS * turn);
        for (uint32_t other = 0; other < RANKS; other++)
            for (uint64_t i = 0; i < BLOCK; i++)
                CHECK(other == rank || blocks[other * BLOCK + i] == 16 * turn + other);
        meet(e);
    }
    acp_memory_drop(lane, memory, RANKS * BLOCK);
    free(here);
}

static void no_attack_comes_through(void)
{
    static const char *const names[] = {[MIDDLE_CHANGE] = "changes", [MIDDLE_DROP] = "drops",
                                        [MIDDLE_REPEAT] = "repeats", [MIDDLE_SWAP] = "swaps",
                                        [MIDDLE_REFLECT] = "reflects", [MIDDLE_SPLICE] = "splices",
                                        [MIDDLE_OLD] = "replays"};
    struct cluster c;
    start(&c);
    cluster_run(&c, work);
    for (uint32_t attack = MIDDLE_CHANGE; attack < MIDDLE_ATTACKS; attack++) {
        uint64_t begin = attacks();
        for (uint32_t i = 0; i < RANKS; i++) {
            middles[i].mean = attack < MIDDLE_REFLECT ? MEAN : 2; /* those need the first frames of a connection */
            middles[i].left = EACH;
            middles[i].attack = attack;
        }
        do {
            for (uint32_t i = 0; i < RANKS && attack > MIDDLE_SWAP; i++)
                middles[i].cut = true;
            cluster_run(&c, work);
        } while (attacks() - begin < RANKS * EACH);
        for (uint32_t i = 0; i < RANKS; i++)
            middles[i].attack = MIDDLE_NONE;
        cluster_run(&c, work); /* a frame behind an attacked one ends the connection, if not that one */
        printf("  he %s frames: %llu attacks, %llu connections ended\n", names[attack],
               (unsigned long long)(attacks() - begin), (unsigned long long)ends());
        fflush(stdout);
        CHECK(ends() == attacks());
    }
    stop(&c);
}

int main(void)
{
    struct libcrypto crypto = {.handle = NULL};
    uint32_t last = libcrypto_open(&crypto) ? ACP_LINKS_ENCRYPT : ACP_LINKS_MAC;
    for (cluster_links = ACP_LINKS_MAC; cluster_links <= last; cluster_links++) {
        printf("frames %s\n", cluster_links == ACP_LINKS_MAC ? "with codes" : "encrypted");
        no_attack_comes_through();
    }
    libcrypto_close(&crypto);
    return 0;
}
