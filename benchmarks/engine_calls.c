/* What one call costs from C, through the engine's public header: two engines, each a rank of one
 * job with its own mapping of the other's memory, in one process. Prints, in ns for one call, the
 * median over the rounds: copy, its bare counterpart, add8, its bare counterpart. */
#include "core/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDES = 4, ROUNDS_MOST = 64 };

struct scene {
    acp_lane *lane;          /* of rank 0, which calls */
    acp_ga_t own, remote;    /* 16 words in each rank's memory */
    uint64_t *own_words, *remote_words;
};

static void check(int status, const char *what)
{
    if (status != ACP_OK) {
        fprintf(stderr, "%s: %s\n", what, acp_status_name(status));
        exit(1);
    }
}

static void copies(const struct scene *s, long count)
{
    for (long i = 0; i < count; i++)
        if (!acp_copy(s->lane, s->remote, s->own, 8, ACP_HANDLE_NULL))
            check(acp_lane_fault(s->lane)->status, "acp_copy");
}

static void bare_copies(const struct scene *s, long count)
{
    for (long i = 0; i < count; i++)
        *(volatile uint64_t *)s->remote_words = *(volatile uint64_t *)s->own_words;
}

static void additions(const struct scene *s, long count)
{
    for (long i = 0; i < count; i++)
        if (!acp_atomic(s->lane, ACP_ADD8, s->own + 8, s->remote + 8, 1, 0, ACP_HANDLE_NULL))
            check(acp_lane_fault(s->lane)->status, "acp_atomic");
}

static void bare_additions(const struct scene *s, long count)
{
    for (long i = 0; i < count; i++)
        *(volatile uint64_t *)(s->own_words + 1) =
            __atomic_fetch_add(s->remote_words + 1, 1, __ATOMIC_SEQ_CST);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const struct scene *s, int rounds, long count)
{
    static void (*const sides[SIDES])(const struct scene *, long) = {
        copies, bare_copies, additions, bare_additions};
    static double ns[SIDES][ROUNDS_MOST];
    for (int side = 0; side < SIDES; side++)
        sides[side](s, count / 10);
    for (int round = 0; round < rounds; round++)
        for (int turn = 0; turn < SIDES; turn++) {
            int side = (round + turn) % SIDES;
            uint64_t start = acp_now();
            sides[side](s, count);
            ns[side][round] = (double)(acp_now() - start) / (double)count;
        }
    for (int side = 0; side < SIDES; side++) {
        qsort(ns[side], (size_t)rounds, sizeof ns[side][0], ascending);
        printf("%.3f\n", ns[side][rounds / 2]);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 11;
    long count = argc > 2 ? atol(argv[2]) : 2000000;
    acp_engine *engines[2];
    uint8_t rows[2][ACP_ROW_SIZE];
    acp_ga_t gas[2];
    void *words[2];

    if (rounds < 1 || rounds > ROUNDS_MOST || count < 10) {
        fprintf(stderr, "usage: %s [rounds [calls in a round]]\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < 2; i++) {
        acp_fault fault;
        acp_config config = {.node = 1, .memory_limit = 1 << 26, .starter_size = 4096, .ptracer = 1,
                             .peer_timeout_ns = 5000000000u};
        memset(config.secret, 7, sizeof config.secret);
        check(acp_engine_create(&config, &engines[i], &fault), "acp_engine_create");
        acp_engine_row(engines[i], rows[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        check(acp_table_add(engines[i], 0, rows[0], 2), "acp_table_add");
        check(acp_engine_join(engines[i], 2, i), "acp_engine_join");
        check(acp_memory_alloc(acp_engine_lane(engines[i]), 4096, 0, &gas[i], &words[i]),
              "acp_memory_alloc");
    }
    struct scene scene = {.lane = acp_engine_lane(engines[0]), .own = gas[0], .remote = gas[1],
                          .own_words = words[0]};
    void *seen;
    check(acp_query_address(scene.lane, gas[1], 4096, &seen), "acp_query_address");
    scene.remote_words = seen;
    measure(&scene, rounds, count);

    for (int i = 0; i < 2; i++)
        acp_engine_leaving(engines[i]);
    for (int i = 0; i < 2; i++)
        acp_engine_close(engines[i]);
    for (int i = 0; i < 2; i++)
        acp_engine_free(engines[i]);
    return 0;
}
