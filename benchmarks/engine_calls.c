/* What one call costs from C, through the engine's public header. Prints, in ns for one call, the
 * median over the rounds: copy, its bare counterpart, add8, its bare counterpart. */
#include "engine_pair.h"

enum { SIDES = 4 };

struct scene {
    acp_lane *lane;          /* of rank 0, which calls */
    acp_ga_t own, remote;    /* 16 words in each rank's memory */
    uint64_t *own_words, *remote_words;
};

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
    engine_pair_print(ns, SIDES, rounds);
}

int main(int argc, char **argv)
{
    int rounds;
    long count = 2000000;
    acp_engine *engines[2];
    acp_ga_t gas[2];
    void *words[2], *seen;

    engine_pair_arguments(argc, argv, &rounds, &count);
    engine_pair_start(engines);
    for (uint32_t i = 0; i < 2; i++)
        check(acp_memory_alloc(acp_engine_lane(engines[i]), 4096, 0, &gas[i], &words[i]),
              "acp_memory_alloc");
    struct scene scene = {.lane = acp_engine_lane(engines[0]), .own = gas[0], .remote = gas[1],
                          .own_words = words[0]};
    check(acp_query_address(scene.lane, gas[1], 4096, &seen), "acp_query_address");
    scene.remote_words = seen;
    measure(&scene, rounds, count);
    engine_pair_end(engines);
    return 0;
}
