/* Calls of methods over every road: each runs once, where its object is, and brings its answer. */
#include "cluster/calls.h"
#include "core/engine.h"

#include <sched.h>

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void complete(acp_engine *e)
{
    acp_failure failure;
    uint64_t more;
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    CHECK(acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more) == 0);
}

static void bytes_both_ways(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static const uint64_t sizes[] = {0, 1, 7, 8, 63, 64, 65, 4096, 65535, 65536};
    unsigned char *in = malloc(ACP_CALL_MOST), *out = malloc(ACP_CALL_MOST);
    for (uint32_t other = 0; other < c->count; other++) {
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct acp_call call = {.method = ECHO, .object = acp_starter(e, other), .a = 5 + i,
                                    .b = 3, .in = in, .in_size = sizes[i], .out = out,
                                    .out_room = i % 2 ? ACP_CALL_MOST : sizes[i]};
            fill(in, sizes[i], i + rank);
            CHECK(call_now(e, lane, &call) == ACP_OK);
            CHECK(call.out_size == sizes[i] && reversed(in, out, sizes[i]));
            CHECK(call.result[0] == 8 + i && call.result[1] == 2 + i);
        }
    }
    meet(e);
    free(in);
    free(out);
}

static void many_outstanding(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { CALLS = 60 };
    static const uint64_t step = ACP_CALL_MOST / CALLS;
    uint64_t *mine = word_of(e, acp_starter(e, rank));
    struct acp_call *calls = calloc(c->count * CALLS * 2, sizeof *calls);
    unsigned char *bytes = malloc(c->count * CALLS * 2 * ACP_CALL_MOST);
    mine[0] = 0;
    meet(e);
    for (uint64_t i = 0; i < c->count * CALLS; i++) { /* one to each rank, again and again */
        struct acp_call *echo = &calls[2 * i], *add = echo + 1;
        unsigned char *in = bytes + 2 * i * ACP_CALL_MOST, *out = in + ACP_CALL_MOST;
        acp_ga_t object = acp_starter(e, (uint32_t)i % c->count);
        *echo = (struct acp_call){.method = ECHO, .object = object, .in = in,
                                  .in_size = i / c->count * step, .out = out,
                                  .out_room = ACP_CALL_MOST};
        *add = (struct acp_call){.method = ADD, .object = object, .a = 3};
        fill(in, echo->in_size, i);
        icall(e, lane, echo, ACP_HANDLE_NULL);
        icall(e, lane, add, ACP_HANDLE_NULL);
    }
    complete(e);
    for (uint64_t i = 0; i < c->count * CALLS; i++)
        CHECK(calls[2 * i].out_size == calls[2 * i].in_size &&
              reversed(calls[2 * i].in, calls[2 * i].out, calls[2 * i].in_size));
    meet(e);
    CHECK(mine[0] == 3ull * CALLS * c->count);
    meet(e);
    free(bytes);
    free(calls);
}

/* What each rank appends stands there once and in its order. */
static void in_order(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { CALLS = 50 };
    struct acp_call calls[CALLS];
    uint32_t records[CALLS][2], next[CLUSTER_MOST] = {0};
    uint64_t *mine = word_of(e, acp_starter(e, rank));
    acp_ga_t object = acp_starter(e, 0);
    mine[0] = 0;
    meet(e);
    for (uint32_t i = 0; i < CALLS; i++) {
        records[i][0] = rank;
        records[i][1] = i;
        calls[i] = (struct acp_call){.method = APPEND, .object = object, .in = records[i],
                                     .in_size = sizeof records[i]};
        icall(e, lane, &calls[i], i % 2 ? ACP_HANDLE_CONT : ACP_HANDLE_ALL);
    }
    complete(e);
    meet(e);
    const uint32_t *there = (const uint32_t *)(const void *)(mine + 1);
    for (uint64_t i = 0; rank == 0 && i < CALLS * c->count; i++) {
        CHECK(there[2 * i] < c->count && there[2 * i + 1] == next[there[2 * i]]);
        next[there[2 * i]]++;
    }
    meet(e);
    /* behind a put, whose bytes it finds; what follows it finds what it left */
    uint64_t value = 100, *words = word_of(e, acp_starter(e, rank));
    struct acp_call add = {.method = ADD, .object = acp_starter(e, (rank + 1) % c->count), .a = 7};
    acp_handle_t pending;
    acp_lane_previous(lane, acp_iput(lane, add.object, &value, 8, ACP_HANDLE_NULL));
    icall(e, lane, &add, ACP_HANDLE_CONT);
    acp_handle_t copy = acp_copy(lane, add.object + 8, add.object, 8, ACP_HANDLE_CONT);
    CHECK(copy != 0);
    complete(e);
    CHECK(add.result[0] == 100);
    CHECK(acp_get(lane, &value, add.object + 8, 8, &pending) == ACP_OK);
    CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    CHECK(value == 107);
    meet(e);
    CHECK(words[0] == 107);
    meet(e);
}

/* While somebody holds the lock the owner serves everything else. */
static void a_held_lock(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t *mine = word_of(e, acp_starter(e, rank)), old, zero = 0;
    acp_ga_t object = acp_starter(e, 0);
    unsigned char in[1000], out[1000];
    struct acp_call call = {.method = LOCKED, .object = object};
    struct acp_call echo = {.method = ECHO, .object = object, .in = in, .in_size = sizeof in,
                            .out = out, .out_room = sizeof out};
    acp_handle_t pending, handle;
    mine[0] = 1;
    mine[1] = mine[2] = 0;
    meet(e);
    handle = icall(e, lane, &call, ACP_HANDLE_NULL);
    CHECK(acp_wait(e, handle, 5000000) == ACP_E_TIMEOUT);
    CHECK(acp_fetch(lane, ACP_ADD8, object + 16, 1, 0, &old, &pending) == ACP_OK);
    CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    fill(in, sizeof in, rank);
    CHECK(call_now(e, lane, &echo) == ACP_OK && reversed(in, out, sizeof in));
    CHECK(!acp_done(e, handle));
    meet(e);
    if (rank == c->count - 1) {
        CHECK(acp_put(lane, object, &zero, 8, &pending) == ACP_OK);
        CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    }
    CHECK(acp_wait(e, handle, ACP_FOREVER) == ACP_OK);
    CHECK(call.result[0] < c->count);
    meet(e);
    if (rank == 0)
        CHECK(mine[1] == c->count && mine[2] == c->count);
    meet(e);
    /* with an end that nobody announces, while no thread waits */
    mine[0] = 20;
    mine[1] = 0;
    meet(e);
    if (rank == c->count - 1) {
        call = (struct acp_call){.method = RELUCTANT, .object = object};
        handle = icall(e, lane, &call, ACP_HANDLE_NULL);
        while (!acp_done(e, handle))
            sched_yield();
        CHECK(call.result[0] == 1);
    }
    meet(e);
}

static void what_fails(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static unsigned char bytes[CLUSTER_MOST][ACP_CALL_MOST + 1];
    acp_failure failure = {.fault.status = ACP_OK};
    uint64_t more;
    for (uint32_t other = 0; other < c->count; other++) {
        acp_ga_t object = acp_starter(e, other);
        struct acp_call call = {.method = REFUSE, .object = object, .out = bytes[rank],
                                .out_room = 100}, next = {.method = ADD, .object = object};
        CHECK(call_now(e, lane, &call) == ACP_E_FULL);
        call = (struct acp_call){.method = ECHO, .object = object, .in = bytes[rank],
                                 .in_size = 10, .out = bytes[rank], .out_room = 9};
        CHECK(call_now(e, lane, &call) == ACP_E_ARGUMENT);
        call.in_size = ACP_CALL_MOST + 1;
        CHECK(call_now(e, lane, &call) == ACP_E_ARGUMENT);
        call.in_size = 0;
        call.out_room = ACP_CALL_MOST + 1;
        CHECK(call_now(e, lane, &call) == ACP_E_ARGUMENT);
        call = (struct acp_call){.method = 200, .object = object};
        CHECK(call_now(e, lane, &call) == ACP_E_ARGUMENT);
        call = (struct acp_call){.method = ADD, .object = object + (1 << 22)};
        CHECK(call_now(e, lane, &call) == ACP_E_UNREGISTERED);
        call.object = ACP_GA_NULL;
        CHECK(call_now(e, lane, &call) == ACP_E_NULL);
        call.object = acp_ga(c->count, 0, 4096);
        CHECK(call_now(e, lane, &call) == ACP_E_RANK);
        /* what was to follow a call that failed does not run */
        call = (struct acp_call){.method = REFUSE, .object = object};
        acp_handle_t handle = acp_icall(lane, &call, ACP_HANDLE_NULL);
        acp_lane_previous(lane, handle);
        if (handle) {
            CHECK(icall(e, lane, &next, ACP_HANDLE_CONT) != 0);
            CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
            CHECK(acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more) == 1);
            CHECK(failure.fault.status == ACP_E_FULL && failure.fault.ga == object &&
                  failure.fault.size == 7 && failure.kind == ACP_CALL && more == 1);
        } else {
            CHECK(acp_lane_fault(lane)->status == ACP_E_FULL);
        }
        /* one that waited for its order */
        uint64_t word = 0;
        CHECK(acp_iput(lane, acp_starter(e, (rank + 1) % c->count) + 64, &word, 8,
                       ACP_HANDLE_NULL) != 0);
        if (acp_icall(lane, &call, ACP_HANDLE_ALL)) {
            CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
            CHECK(acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more) == 1);
        }
        CHECK(failure.fault.status == ACP_E_FULL ||
              acp_lane_fault(lane)->status == ACP_E_FULL);
    }
    meet(e);
}

static void every_road(void)
{
    static const struct {
        const char *name;
        acp_path path;
        uint32_t nodes;
    } ways[] = {{"load and store", ACP_PATH_ANY, 1}, {"owner's ring", ACP_PATH_OWNER, 1},
                {"link", ACP_PATH_LINK, 1}, {"window", ACP_PATH_WINDOW, 1},
                {"two nodes", ACP_PATH_ANY, 2}};
    static void (*const bodies[])(struct cluster *, uint32_t, acp_engine *, acp_lane *) = {
        bytes_both_ways, many_outstanding, in_order, a_held_lock, what_fails};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        for (uint32_t count = 1; count <= 3; count++) {
            struct cluster c;
            printf("  %s, %u ranks\n", ways[w].name, count);
            fflush(stdout);
            start(&c, count, ways[w].nodes, ways[w].path);
            for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
                cluster_run(&c, bodies[b]);
            cluster_stop(&c);
        }
    }
}

/* An object in memory that only its owner may touch. */
static void private_object(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static uint64_t words[512]; /* of rank 0 */
    uint64_t key[2] = {0, 5}, value[2] = {0, 0}, ticket;
    acp_ga_t ga;
    if (rank == 0) {
        CHECK(acp_segment_register(lane, words, sizeof words, 1, &ga) == ACP_OK);
        value[0] = ga;
        CHECK(acp_publish(e, key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    }
    CHECK(acp_lookup(e, key, value, ACP_FOREVER) == ACP_OK);
    struct acp_call call = {.method = ADD, .object = value[0] + 8, .a = 1};
    for (int i = 0; i < 20; i++)
        CHECK(call_now(e, lane, &call) == ACP_OK);
    meet(e);
    if (rank == 0) {
        CHECK(words[1] == 20 * c->count);
        words[1] = 0;
        CHECK(acp_segment_retire(lane, ga, 0, &ticket) == ACP_OK);
        CHECK(acp_segment_quiet(e, ticket, ACP_FOREVER) == ACP_OK);
    }
    meet(e);
    CHECK(call_now(e, lane, &call) == ACP_E_UNREGISTERED);
    meet(e);
}

static void objects_in_private_memory(void)
{
    static const acp_path paths[] = {ACP_PATH_ANY, ACP_PATH_OWNER, ACP_PATH_LINK};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        struct cluster c;
        start(&c, 3, 1, paths[i]);
        cluster_run(&c, private_object);
        cluster_stop(&c);
    }
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"every road", every_road},
                 {"objects in private memory", objects_in_private_memory}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        printf("%s\n", tests[i].name);
        fflush(stdout);
        tests[i].run();
    }
    return 0;
}
