/* "Random" numbers and bytes that are the same in every run. */
#ifndef ACP_TESTS_DRAWS_H
#define ACP_TESTS_DRAWS_H

#include <stddef.h>
#include <stdint.h>

/* xorshift64* */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dULL;
}

static inline void fill(uint8_t *p, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(next_random(state) >> 56);
}

#endif
