/* Every operation over every road between engines of one process. */
#include "cluster/fake_mpi.h"
#include "operations/op_table.h"

static uint64_t *word_of(acp_engine *e, acp_ga_t ga)
{
    void *address;
    CHECK(acp_query_address(acp_engine_lane(e), ga, 8, &address) == ACP_OK);
    return address;
}

/* Issues an operation, after a wait where there is no free slot now; gives its handle. */
#define ISSUE(call)                                                                             \
    __extension__({                                                                             \
        acp_handle_t handle_;                                                                   \
        while (!(handle_ = (call)) && acp_lane_fault(lane)->status == ACP_E_BUSY)               \
            CHECK(acp_wait_room(e, ACP_FOREVER) == ACP_OK);                                     \
        if (!handle_)                                                                           \
            fprintf(stderr, "refused: %s\n", acp_status_name(acp_lane_fault(lane)->status));    \
        CHECK(handle_ != 0);                                                                    \
        handle_;                                                                                \
    })

static void complete_all(acp_engine *e)
{
    acp_failure failures[4];
    uint64_t more;
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    uint32_t n = acp_failures_take(e, ACP_HANDLE_ALL, false, failures, 4, &more);
    for (uint32_t i = 0; i < n; i++)
        fprintf(stderr, "rank %u: handle %llu kind %u: %s errno %d\n", acp_rank(e),
                (unsigned long long)failures[i].handle, failures[i].kind,
                acp_status_name(failures[i].fault.status), failures[i].fault.error);
    CHECK(n == 0);
}

static void meet(acp_engine *e)
{
    int rc = acp_barrier(e, NULL, 0, 0, ACP_FOREVER);
    if (rc)
        fprintf(stderr, "barrier: %s\n", acp_status_name(rc));
    CHECK(rc == ACP_OK);
}

/* Third-party copies in every combination of caller, source and destination. */
static void copies(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t n = c->count;
    uint64_t *mine = word_of(e, acp_starter(e, rank));
    mine[0] = 1000 + rank;
    meet(e);
    for (uint32_t src = 0; src < n; src++)
        for (uint32_t dst = 0; dst < n; dst++)
            ISSUE(acp_copy(lane, acp_starter(e, dst) + 64 + 8 * (rank * n + src),
                                acp_starter(e, src), 8, ACP_HANDLE_NULL));
    complete_all(e);
    meet(e);
    for (uint32_t caller = 0; caller < n; caller++)
        for (uint32_t src = 0; src < n; src++)
            CHECK(mine[8 + caller * n + src] == 1000 + src);
    meet(e);
}

static void atomics(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t n = c->count, rounds = 500;
    uint64_t *mine = word_of(e, acp_starter(e, rank));
    memset(mine, 0, 4096);
    meet(e);
    for (uint32_t i = 0; i < rounds; i++) {
        ISSUE(acp_atomic(lane, ACP_ADD8, ACP_GA_NULL, acp_starter(e, 0), 3, 0,
                         ACP_HANDLE_NULL));
    }
    complete_all(e);
    meet(e);
    if (rank == 0)
        CHECK(mine[0] == 3ull * rounds * n);
    /* a chain: each result lands before the next starts */
    acp_ga_t base = acp_starter(e, (rank + 1) % n);
    for (uint32_t i = 0; i < 100; i++) {
        acp_lane_previous(lane, ISSUE(acp_atomic(lane, ACP_ADD8,
                                                 acp_starter(e, rank) + 1024 + 8 * i,
                                                 base + 512 + 8 * rank, 1, 0,
                                                 i ? ACP_HANDLE_CONT : ACP_HANDLE_NULL)));
    }
    complete_all(e);
    for (uint32_t i = 0; i < 100; i++)
        CHECK(mine[128 + i] == i);
    meet(e);
}

/* A chain of dependent copies once around all ranks. */
static void chain(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t *mine = word_of(e, acp_starter(e, rank));
    mine[400] = rank == 0 ? 4711 : 0;
    meet(e);
    if (rank == 0) {
        acp_handle_t order = ACP_HANDLE_NULL;
        for (uint32_t i = 0; i + 1 < c->count; i++) {
            order = ISSUE(acp_copy(lane, acp_starter(e, i + 1) + 3200,
                                   acp_starter(e, i) + 3200, 8, order));
        }
        complete_all(e);
    }
    meet(e);
    CHECK(mine[400] == 4711);
    meet(e);
}

/* Long transfers: in the background, in parts, both ways and by a third party. */
static void long_copies(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t size = (3 << 20) + 13, key[2] = {rank, 77}, value[2] = {0, 0};
    unsigned char *data, *local = malloc(size);
    acp_ga_t ga;
    void *address;
    CHECK(acp_memory_alloc(lane, size, 0, &ga, &address) == ACP_OK);
    data = address;
    for (uint64_t i = 0; i < size; i++)
        data[i] = (unsigned char)(i * 31 + rank);
    value[0] = ga;
    CHECK(acp_publish(e, key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    uint32_t next = (rank + 1) % c->count;
    key[0] = next;
    CHECK(acp_lookup(e, key, value, ACP_FOREVER) == ACP_OK);
    meet(e);
    ISSUE(acp_iget(lane, local, value[0], size, ACP_HANDLE_NULL));
    complete_all(e);
    for (uint64_t i = 0; i < size; i++)
        CHECK(local[i] == (unsigned char)(i * 31 + next));
    meet(e);
    for (uint64_t i = 0; i < size; i++)
        local[i] = (unsigned char)(i * 7 + rank);
    ISSUE(acp_iput(lane, value[0], local, size, ACP_HANDLE_NULL));
    complete_all(e);
    meet(e);
    uint32_t before = (rank + c->count - 1) % c->count;
    for (uint64_t i = 0; i < size; i++)
        CHECK(data[i] == (unsigned char)(i * 7 + before));
    meet(e);
    acp_memory_drop(lane, data, size);
    free(local);
    meet(e);
}

/* Registered private memory: copies into it and atomics on it. */
static void private_memory(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t size = 200000, key[2] = {rank, 88}, value[2] = {0, 0}, ticket;
    uint64_t *data = calloc(1, size);
    acp_ga_t ga;
    CHECK(acp_segment_register(lane, data, size, 1, &ga) == ACP_OK);
    CHECK(acp_ga_color(ga) == 1);
    value[0] = ga;
    CHECK(acp_publish(e, key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    uint32_t next = (rank + 1) % c->count, after = (rank + 2) % c->count;
    acp_ga_t there, beyond;
    key[0] = next;
    CHECK(acp_lookup(e, key, value, ACP_FOREVER) == ACP_OK);
    there = value[0];
    key[0] = after;
    CHECK(acp_lookup(e, key, value, ACP_FOREVER) == ACP_OK);
    beyond = value[0];
    data[0] = 10 + rank;
    meet(e);
    ISSUE(acp_copy(lane, beyond + 80000, there, 70000, ACP_HANDLE_NULL));
    ISSUE(acp_atomic(lane, ACP_ADD8, ga + 8, there + 16, 5, 0, ACP_HANDLE_NULL));
    complete_all(e);
    meet(e);
    CHECK(data[10000] == 10 + (rank + c->count - 1) % c->count || c->count < 2);
    CHECK(data[2] == 5);
    meet(e);
    CHECK(acp_segment_retire(lane, ga, 0, &ticket) == ACP_OK);
    CHECK(acp_segment_quiet(e, ticket, ACP_FOREVER) == ACP_OK);
    meet(e);
    acp_handle_t h = acp_copy(lane, acp_starter(e, rank), there, 8, ACP_HANDLE_NULL);
    if (h) {
        acp_failure failure;
        uint64_t more;
        acp_complete(e, h, ACP_FOREVER);
        CHECK(acp_failures_take(e, h, false, &failure, 1, &more) == 1);
        CHECK(failure.fault.status == ACP_E_UNREGISTERED);
    } else {
        CHECK(acp_lane_fault(lane)->status == ACP_E_UNREGISTERED);
    }
    for (int left = 0; left < 2; left++) { /* who waits for it alone has its error, unless it leaves */
        uint64_t word, more;
        acp_failure failure;
        int rc = acp_get(lane, &word, there, 8, &h);
        CHECK(rc == ACP_OK ? h : rc == ACP_E_UNREGISTERED);
        if (rc != ACP_OK)
            continue;
        if (left)
            acp_await_alone(e, h, false);
        CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
        CHECK(acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more) == (uint32_t)left);
        CHECK(acp_failures_take(e, h, true, &failure, 1, &more) == (uint32_t)!left);
        CHECK(failure.fault.status == ACP_E_UNREGISTERED && acp_quiet(e));
    }
    meet(e);
    free(data);
}

/* Who looks for a name in vain leaves no question with its keeper. */
static void names_in_vain(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t key[2], value[2] = {0, 0}, asked = 0;
    (void)lane;
    for (uint32_t i = 0; i < 4 * c->count; i++) {
        key[0] = i;
        key[1] = 1000 + rank;
        CHECK(acp_lookup(e, key, value, 0) == ACP_E_TIMEOUT);
        key[1] = 2000 + rank; /* its keeper has heard of the end when it has answered this */
        CHECK(acp_publish(e, key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    }
    meet(e);
    pthread_mutex_lock(&e->lock);
    for (struct op *task = e->ops.tasks; task; task = task->next_task)
        asked += task->command.kind == ACP_LOOKUP;
    pthread_mutex_unlock(&e->lock);
    CHECK(asked == 0);
    meet(e);
}

static bool none_left(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool none = !e->sync.names && !e->sync.offers && !e->sync.ended;
    pthread_mutex_unlock(&e->lock);
    return none;
}

/* Names that are over leave nothing with their keepers, nor with those who published them. */
static void names_that_are_over(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t next = (rank + 1) % c->count, before = (rank + c->count - 1) % c->count;
    uint64_t key[2] = {0, 0}, value[2];
    int64_t whose;
    void *address;
    for (uint32_t i = 0; i < 4 * c->count; i++) {
        key[0] = i;
        key[1] = 3000 + rank;
        value[1] = 100;
        CHECK(acp_memory_alloc(lane, value[1], 0, &value[0], &address) == ACP_OK);
        CHECK(acp_publish(e, key, value, ACP_GIVEN, NULL, ACP_FOREVER) == ACP_OK);
    }
    meet(e);
    for (uint32_t i = 0; i < 4 * c->count; i++) {
        key[0] = i;
        key[1] = 3000 + next;
        value[0] = value[1] = 0;
        if (c->count > 1)
            CHECK(acp_publish(e, key, value, 0, &whose, ACP_FOREVER) == ACP_E_TAKEN && whose == next);
        if (i % 2)
            CHECK(acp_publish(e, key, value, ACP_REPLACE, NULL, ACP_FOREVER) == ACP_OK);
    }
    meet(e);
    for (uint32_t i = 0; i < 4 * c->count; i++) {
        key[0] = i;
        key[1] = 3000 + (i % 2 ? rank : next);
        if (c->count > 1)
            CHECK(acp_withdraw(e, key, &whose, ACP_FOREVER) == ACP_E_TAKEN && whose == (i % 2 ? before : next));
    }
    meet(e);
    for (uint32_t i = 0; i < 4 * c->count; i++) {
        key[0] = i;
        key[1] = 3000 + (i % 2 ? next : rank);
        CHECK(acp_withdraw(e, key, &whose, ACP_FOREVER) == ACP_OK);
        CHECK(acp_withdraw(e, key, &whose, ACP_FOREVER) == ACP_E_TAKEN && whose == -1);
    }
    meet(e);
    while (!none_left(e))
        sched_yield();
    meet(e);
}

static void many(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t n = 3000, bad, eight = 8, one = 1;
    uint64_t *dst = malloc(n * 8), *src = malloc(n * 8), *old = malloc(n * 8);
    uint64_t *mine = word_of(e, acp_starter(e, rank));
    for (uint64_t i = 0; i < 512; i++)
        mine[i] = i * 3 + rank;
    mine[600] = 0;
    meet(e);
    uint32_t next = (rank + 1) % c->count;
    for (uint64_t i = 0; i < n; i++) {
        src[i] = acp_starter(e, next) + 8 * (i % 512);
        dst[i] = acp_starter(e, rank) + 8 * (640 + i % 512);
        old[i] = 0;
    }
    acp_column d = {(char *)dst, 8}, s = {(char *)src, 8}, size = {(char *)&eight, 0};
    ISSUE(acp_copy_many(lane, d, s, size, n, ACP_HANDLE_NULL, &bad));
    complete_all(e);
    for (uint64_t i = 0; i < 512; i++)
        CHECK(mine[640 + i] == i * 3 + next);
    for (uint64_t i = 0; i < n; i++)
        dst[i] = acp_starter(e, next) + 8 * 600;
    meet(e);
    ISSUE(acp_atomic_many(lane, ACP_ADD8, d, (acp_column){(char *)&one, 0},
                               (acp_column){NULL, 0}, old, n, ACP_HANDLE_NULL, &bad));
    complete_all(e);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += old[i];
    CHECK(sum == n * (n - 1) / 2);
    meet(e);
    CHECK(mine[600] == n);
    meet(e);
    free(dst);
    free(src);
    free(old);
}

static void await(acp_engine *e, acp_ga_t ga, uint64_t value)
{
    acp_word word;
    CHECK(acp_word_find(acp_engine_lane(e), ga, 8, &word) == ACP_OK);
    CHECK(acp_word_wait(e, &word, ACP_GE, value, false, NULL, -1, ACP_FOREVER) == ACP_OK);
}

static void flags(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_handle_t pending;
    uint64_t *mine = word_of(e, acp_starter(e, rank));
    mine[700] = 0;
    meet(e);
    for (uint64_t turn = 1; turn <= 50; turn++) {
        if (rank != 0)
            await(e, acp_starter(e, rank) + 5600, turn);
        uint64_t value = turn;
        CHECK(acp_put(lane, acp_starter(e, (rank + 1) % c->count) + 5600, &value, 8, &pending) ==
              ACP_OK);
        CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
        if (rank == 0)
            await(e, acp_starter(e, 0) + 5600, turn);
    }
    meet(e);
}

int main(int argc, char **argv)
{
    bool shared = CLUSTER_SHARED || (argc > 1 && !strcmp(argv[1], "shared"));
    static const struct {
        const char *name;
        acp_path path;
        uint32_t nodes;
        bool window;
    } ways[] = {{"load and store", ACP_PATH_ANY, 1, false},
                {"owner's ring", ACP_PATH_OWNER, 1, false},
                {"link", ACP_PATH_LINK, 1, false},
                {"four nodes", ACP_PATH_ANY, 4, false},
                {"two nodes", ACP_PATH_ANY, 2, false},
                {"window", ACP_PATH_WINDOW, 1, true},
                {"two nodes and a window", ACP_PATH_ANY, 2, true}};
    static const cluster_body bodies[] = {
        names_that_are_over, copies, atomics, chain, long_copies, private_memory, many, flags,
        names_in_vain};
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        for (uint32_t count = 1; count <= 4; count++) {
            struct cluster c;
            printf("%s, %u ranks\n", ways[w].name, count);
            fflush(stdout);
            cluster_start(&c, count, ways[w].nodes, ways[w].path, shared);
            if (ways[w].window)
                cluster_open_window(&c, ways[w].path == ACP_PATH_ANY);
            for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
                cluster_run(&c, bodies[b]);
            cluster_close_window(&c);
            cluster_stop(&c);
        }
    }
    return 0;
}
