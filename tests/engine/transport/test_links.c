/* Links over a bad network: whatever happens to connections, nothing is lost or done twice. */
#include "cluster/relayed.h"
#include "support/methods.h"
#include "core/state/operations.h"
#include "transport/link.h"

#define RANKS 2u
#define WORDS 512u
#define BLOCK ((uint64_t)300000)
#define CUTS 6u
#define PAUSE_MANY_NS ((uint64_t)800000000) /* between calls, after so many of which nothing has come */

static struct proxy proxies[RANKS];

static void start(struct cluster *c, uint64_t peer_timeout_ns)
{
    relayed_start(c, proxies, RANKS, peer_timeout_ns, test_methods);
}

static acp_handle_t issued(acp_engine *e, acp_lane *lane, acp_handle_t handle)
{
    CHECK(handle || acp_lane_fault(lane)->status == ACP_E_BUSY);
    if (!handle)
        CHECK(acp_wait_room(e, ACP_FOREVER) == ACP_OK);
    return handle;
}

static void complete(acp_engine *e)
{
    acp_failure failure;
    uint64_t more;
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    if (acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more)) {
        fprintf(stderr, "rank %u: %s\n", acp_rank(e), acp_status_name(failure.fault.status));
        CHECK(!"an operation failed");
    }
}

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Each atomic runs exactly once, each gives the value that the one before left, blocks arrive
 * whole. */
static void work(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t other = (rank + 1) % c->count;
    uint64_t *mine = words_of(e, rank), before = mine[0];
    uint64_t key[2] = {rank, 1 + before}, value[2] = {0, 0}; /* another one each time */
    unsigned char *there, *here = malloc(BLOCK);
    void *address;
    acp_ga_t ga, starter = acp_starter(e, other);
    CHECK(acp_memory_alloc(lane, BLOCK, 0, &ga, &address) == ACP_OK);
    there = address;
    value[0] = ga;
    CHECK(acp_publish(e, key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    key[0] = other;
    CHECK(acp_lookup(e, key, value, ACP_FOREVER) == ACP_OK);
    meet(e);
    for (uint64_t turn = 1; turn <= 8; turn++) {
        for (uint32_t i = 0; i < 200;) /* dependent and independent ones, with their results */
            i += issued(e, lane, acp_atomic(lane, ACP_ADD8, acp_starter(e, rank) + 8 * (1 + i),
                                            starter, 1, 0,
                                            i % 3 ? ACP_HANDLE_NULL : ACP_HANDLE_ALL)) != 0;
        complete(e);
        for (uint32_t i = 0; i < 100;) { /* a chain: nobody waits for its first answer */
            acp_handle_t h = issued(e, lane, acp_atomic(lane, ACP_ADD8, ACP_GA_NULL, starter, 1, 0,
                                                        ACP_HANDLE_CONT));
            if (h)
                acp_lane_previous(lane, h);
            i += h != 0;
        }
        for (uint64_t i = 0; i < BLOCK; i++)
            here[i] = (unsigned char)(i * 13 + turn + rank);
        while (!issued(e, lane, acp_iput(lane, value[0], here, BLOCK, ACP_HANDLE_NULL)))
            continue;
        complete(e);
        meet(e);
        for (uint64_t i = 0; i < BLOCK; i++)
            CHECK(there[i] == (unsigned char)(i * 13 + turn + other));
        CHECK(mine[0] == before + 300 * turn);
        uint64_t sum = 0, first = before + 300 * (turn - 1);
        for (uint32_t i = 0; i < 200; i++)
            sum += mine[1 + i] - first;
        CHECK(sum == 199 * 200 / 2);
        meet(e);
        memset(here, 0, BLOCK);
        while (!issued(e, lane, acp_iget(lane, here, value[0], BLOCK, ACP_HANDLE_NULL)))
            continue;
        complete(e);
        for (uint64_t i = 0; i < BLOCK; i++)
            CHECK(here[i] == (unsigned char)(i * 13 + turn + rank));
        meet(e);
    }
    acp_memory_drop(lane, there, BLOCK);
    free(here);
}

/* Each call runs once, what it brings is whole. */
static void calls(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { CALLS = 16, APPENDS_AT = 512 };
    uint64_t *mine = words_of(e, rank) + APPENDS_AT, most = ACP_CALL_MOST;
    struct acp_call echo[CALLS], append[CALLS];
    unsigned char *bytes = malloc(2 * CALLS * ACP_CALL_MOST);
    acp_ga_t object = acp_starter(e, (rank + 1) % c->count) + 8 * APPENDS_AT;
    for (uint32_t turn = 0; turn < 4; turn++) {
        mine[0] = 0;
        meet(e);
        for (uint32_t i = 0; i < CALLS; i++) {
            unsigned char *in = bytes + 2 * i * ACP_CALL_MOST;
            memset(in, (int)(i + turn), ACP_CALL_MOST);
            in[0] = (unsigned char)rank;
            echo[i] = (struct acp_call){.method = ECHO, .object = object, .in = in,
                                        .in_size = 1 + (i * 7919 + turn) % (i % 4 ? 4096 : most),
                                        .out = in + ACP_CALL_MOST, .out_room = ACP_CALL_MOST};
            append[i] = (struct acp_call){.method = APPEND, .object = object, .in = in,
                                          .in_size = 8 + i};
            while (!issued(e, lane, acp_icall(lane, &echo[i], ACP_HANDLE_NULL)))
                continue;
            while (!issued(e, lane, acp_icall(lane, &append[i],
                                              i % 4 ? ACP_HANDLE_NULL : ACP_HANDLE_ALL)))
                continue;
        }
        complete(e);
        for (uint32_t i = 0; i < CALLS; i++) {
            const unsigned char *out = echo[i].out;
            CHECK(echo[i].out_size == echo[i].in_size);
            CHECK(out[echo[i].in_size - 1] == (unsigned char)rank);
            for (uint64_t k = 0; k + 1 < echo[i].in_size; k++)
                CHECK(out[k] == (unsigned char)(i + turn));
        }
        meet(e);
        CHECK(mine[0] == CALLS * 8 + CALLS * (CALLS - 1) / 2);
        meet(e);
    }
    free(bytes);
}

static void nothing_is_lost_or_repeated(void)
{
    static const struct {
        uint64_t cut, flip;
    } networks[] = {{0, 0}, {400000, 0}, {150000, 0}, {0, 150000}, {300000, 300000}};
    struct cluster c;
    start(&c, 20000000000u);
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        relayed_spoil(&c, proxies, networks[i].cut, networks[i].flip);
        cluster_run(&c, work);
        cluster_run(&c, calls);
        relayed_spoil(&c, proxies, 0, 0);
        uint64_t cuts = proxies[0].cuts + proxies[1].cuts;
        uint64_t flips = proxies[0].flips + proxies[1].flips;
        printf("  a cut in %llu bytes, a flipped bit in %llu: %llu cuts and %llu flips so far\n",
               (unsigned long long)networks[i].cut, (unsigned long long)networks[i].flip,
               (unsigned long long)cuts, (unsigned long long)flips);
        fflush(stdout);
        CHECK(!networks[i].cut || cuts);
        CHECK(!networks[i].flip || flips);
    }
    relayed_stop(&c, proxies);
}

static void a_pause_is_no_death(void)
{
    struct cluster c;
    uint64_t value = 7;
    acp_handle_t pending;
    start(&c, 4000000000u);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e);
    for (uint64_t round = 0; round < 3; round++) {
        CHECK(acp_put(lane, acp_starter(e, 1) + 8 * round, &value, 8, &pending) == ACP_OK);
        CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
        relayed_stall(&c, proxies, true);
        CHECK(acp_put(lane, acp_starter(e, 1) + 8 * round, &round, 8, &pending) == ACP_OK);
        CHECK(acp_wait(e, pending, 1000000000) == ACP_E_TIMEOUT);
        relayed_stall(&c, proxies, false);
        CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
        CHECK(words_of(c.engines[1], 1)[round] == round);
    }
    relayed_stop(&c, proxies);
}

/* Many calls that take and bring as much as they may; the handle of the last. */
static acp_handle_t issue_calls(acp_engine *e, acp_lane *lane, struct acp_call *calls,
                                uint32_t count, unsigned char *here)
{
    acp_handle_t h = 0;
    for (uint32_t i = 0; i < count; i++) {
        calls[i] = (struct acp_call){.method = ECHO, .object = acp_starter(e, 1), .in = here,
                                     .in_size = ACP_CALL_MOST, .out_room = ACP_CALL_MOST,
                                     .out = here + (1 + i) * ACP_CALL_MOST};
        memset(calls[i].out, 6, ACP_CALL_MOST);
        h = acp_icall(lane, &calls[i], ACP_HANDLE_NULL);
        CHECK(h != 0);
    }
    return h;
}

/* A peer that does not read costs bounded memory; what it asks for is read when it reads. */
static void a_peer_that_does_not_read_is_not_owed_much(void)
{
    struct cluster c;
    uint64_t size = (uint64_t)48 << 20, key[2] = {0, 1}, value[2] = {0, 0};
    unsigned char *here = malloc(size);
    acp_ga_t ga;
    void *address;
    start(&c, 20000000000u);
    acp_engine *e = c.engines[0], *server = c.engines[1];
    acp_lane *lane = acp_engine_lane(e);
    CHECK(acp_memory_alloc(acp_engine_lane(server), size, 0, &ga, &address) == ACP_OK);
    memset(address, 5, size);
    memset(here, 6, size);
    value[0] = ga;
    CHECK(acp_publish(server, key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    CHECK(acp_lookup(e, key, value, ACP_FOREVER) == ACP_OK);
    struct acp_call calls[200];
    for (int way = 0; way < 3; way++) {
        size_t most = 0;
        proxies_stall_after(proxies, RANKS, 1 << 20);
        acp_handle_t h = way == 0   ? acp_iget(lane, here, ga, size, ACP_HANDLE_NULL)
                         : way == 1 ? acp_iput(lane, ga, here, size, ACP_HANDLE_NULL)
                                    : issue_calls(e, lane, calls, 200, here);
        CHECK(h != 0);
        while (!proxies[0].stalled && !proxies[1].stalled)
            CHECK(acp_wait(e, h, 1000000) == ACP_E_TIMEOUT);
        relayed_stall(&c, proxies, true);
        for (int i = 0; i < 50; i++) {
            CHECK(acp_wait(e, h, 10000000) == ACP_E_TIMEOUT);
            for (uint32_t rank = 0; rank < RANKS; rank++) {
                pthread_mutex_lock(&c.engines[rank]->lock);
                for (struct link *l = c.engines[rank]->tcp.links; l; l = l->next)
                    most = l->out.held > most ? l->out.held : most;
                pthread_mutex_unlock(&c.engines[rank]->lock);
            }
        }
        relayed_stall(&c, proxies, false);
        CHECK(acp_wait(e, h, ACP_FOREVER) == ACP_OK);
        CHECK(most > 0 && most <= HELD_MOST + 4 * CHUNK_BYTES);
    }
    complete(e);
    CHECK(memcmp(here, address, size) == 0 && here[0] == 5);
    for (int i = 0; i < 200; i++)
        CHECK(calls[i].out_size == ACP_CALL_MOST);
    acp_memory_drop(acp_engine_lane(server), address, size);
    free(here);
    relayed_stop(&c, proxies);
}

static void ended(acp_engine *e, acp_handle_t pending)
{
    acp_failure failure;
    uint64_t more;
    CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    CHECK(!acp_failures_take(e, pending, true, &failure, 1, &more));
}

static void *block_of(acp_engine *e, uint64_t size, acp_ga_t *ga)
{
    void *address;
    CHECK(acp_memory_alloc(acp_engine_lane(e), size, 0, ga, &address) == ACP_OK);
    return address;
}

/* However often its connection was cut: frames have come in between. */
static void calls_at_once(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    for (const struct link *link = e->tcp.links; link; link = link->next)
        CHECK(link->pause < PAUSE_MANY_NS);
    pthread_mutex_unlock(&e->lock);
}

/* A long transfer is stopped in the network, with all bytes under way that may be: small operations to and from the same
 * rank go on meanwhile, each once, and the transfer is whole when its connection has been cut and resumed. */
static void small_operations_pass_long_ones(void)
{
    enum { SMALL = 60 }; /* times three, with the long one: as many as may be under way since the oldest */
    struct cluster c;
    uint64_t size = (uint64_t)6 << 20, total = 0, value, old;
    acp_ga_t here_ga, there_ga;
    acp_handle_t pending;
    start(&c, 60000000000u);
    acp_engine *e = c.engines[0], *peer = c.engines[1];
    acp_lane *lane = acp_engine_lane(e);
    acp_ga_t word = acp_starter(e, 1);
    unsigned char *here = block_of(e, size, &here_ga), *there = block_of(peer, size, &there_ga);
    for (int way = 0; way < 2; way++) {
        memset(here, way ? 1 : 2, size);
        memset(there, way ? 2 : 1, size);
        for (uint32_t i = 0; i < RANKS; i++)
            proxies[i].hold_at = 2 << 20;
        acp_handle_t h = way ? acp_copy(lane, here_ga, there_ga, size, ACP_HANDLE_NULL)
                             : acp_copy(lane, there_ga, here_ga, size, ACP_HANDLE_NULL);
        CHECK(h != 0);
        while (!proxies[0].holds && !proxies[1].holds)
            CHECK(acp_wait(e, h, 1000000) == ACP_E_TIMEOUT);
        for (uint32_t i = 0; i < SMALL; i++) {
            CHECK(acp_fetch(lane, ACP_ADD8, word, 1, 0, &old, &pending) == ACP_OK);
            ended(e, pending);
            CHECK(old == total++);
            CHECK(acp_put(lane, word + 8, &total, sizeof total, &pending) == ACP_OK);
            ended(e, pending);
            CHECK(acp_get(lane, &value, word + 8, sizeof value, &pending) == ACP_OK);
            ended(e, pending);
            CHECK(value == total);
        }
        CHECK(acp_wait(e, h, 0) == ACP_E_TIMEOUT);
        for (uint32_t i = 0; i < RANKS; i++)
            proxies[i].hold_at = 0;
        relayed_cut(&c, proxies);
        ended(e, h);
        CHECK(memcmp(here, there, size) == 0 && here[0] == 2);
    }
    for (uint32_t i = 0; i < CUTS; i++) {
        relayed_cut(&c, proxies);
        CHECK(acp_fetch(lane, ACP_ADD8, word, 1, 0, &old, &pending) == ACP_OK);
        ended(e, pending);
        CHECK(old == total++);
    }
    calls_at_once(e);
    calls_at_once(peer);
    CHECK(words_of(peer, 1)[0] == total);
    acp_memory_drop(lane, here, size);
    acp_memory_drop(acp_engine_lane(peer), there, size);
    relayed_stop(&c, proxies);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"nothing is lost or repeated", nothing_is_lost_or_repeated},
                 {"a pause is no death", a_pause_is_no_death},
                 {"a peer that does not read", a_peer_that_does_not_read_is_not_owed_much},
                 {"small operations pass long ones", small_operations_pass_long_ones}};
    static const char *const names[] = {[ACP_LINKS_CRC] = "sums", [ACP_LINKS_MAC] = "codes",
                                        [ACP_LINKS_ENCRYPT] = "encryption"};
    struct libcrypto crypto = {.handle = NULL};
    uint32_t last = libcrypto_open(&crypto) ? ACP_LINKS_ENCRYPT : ACP_LINKS_MAC;
    for (cluster_links = ACP_LINKS_CRC; cluster_links <= last; cluster_links++) {
        for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
            printf("%s, with %s\n", tests[i].name, names[cluster_links]);
            fflush(stdout);
            tests[i].run();
        }
    }
    libcrypto_close(&crypto);
    return 0;
}
