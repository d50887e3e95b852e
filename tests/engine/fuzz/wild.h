/* What fuzzers of shared memory have in common: rubbish, a thread that writes it, rounds that are processes of their
 * own. */
#ifndef ACP_TESTS_WILD_H
#define ACP_TESTS_WILD_H

#include "fuzz.h"

#include <sys/wait.h>

#define WILD_PATIENCE_S 30u /* of a round: then somebody waits for ever */

struct wild_part {
    uint64_t at, size; /* size 0: it is not there */
};

static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    return z ^ z >> 29;
}

/* What a program writes by mistake: small numbers, text, addresses of its own, what stood elsewhere. */
static uint64_t rubbish(uint64_t *state, uint64_t here)
{
    switch (draw(state) % 8) {
    case 0: return 0;
    case 1: return draw(state) % 4096;
    case 2: return UINT64_MAX - draw(state) % 16;
    case 3: return (uint64_t)(uintptr_t)&fuzz;
    case 4: return here ^ 1ull << draw(state) % 64;
    case 5: return here + 8 * (draw(state) % 64) - 256;
    case 6: return 0x2020202020202020ull;
    default: return draw(state);
    }
}

/* Words of one of the parts, some at a time, until it is over. */
static void wild_write(unsigned char *base, const struct wild_part *parts, uint64_t count, uint64_t *state,
                       _Atomic bool *over)
{
    const struct wild_part *part;
    do
        part = &parts[draw(state) % count];
    while (!part->size);
    uint64_t burst = 1 + draw(state) % 64;
    while (!*over) {
        for (uint64_t i = 0; i < burst; i++) {
            uint64_t *word = (uint64_t *)(void *)(base + part->at + draw(state) % (part->size / 8) * 8);
            __atomic_store_n(word, rubbish(state, *word), __ATOMIC_RELAXED);
        }
        usleep(500);
    }
}

static int wild_rounds(const char *name, uint64_t rounds, void (*round)(uint64_t seed))
{
#if defined(__SANITIZE_THREAD__)
    return 0; /* nothing but races */
#endif
    fuzz_begin(name, rounds);
    while (fuzz_more()) {
        uint64_t seed = fuzz_draw();
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            fuzz.target = NULL;
            alarm(WILD_PATIENCE_S);
            round(seed);
            _exit(0);
        }
        CHECK(waitpid(child, &status, 0) == child);
        if (status)
            fprintf(stderr, "the round ended with status %#x\n", status);
        CHECK(status == 0);
    }
    return fuzz_end();
}

#endif
