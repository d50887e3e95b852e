/* The hash of a key's bytes: the same in every process of every job. */
#ifndef ACP_HASH_H
#define ACP_HASH_H

#include <stdint.h>
#include <string.h>

static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_word(const unsigned char *p, uint64_t size)
{
    uint64_t word = 0;
    memcpy(&word, p, size);
    return word;
}

/* Never 0 or 1, which have another meaning where hashes are kept. */
static inline uint64_t hash_bytes(const void *bytes, uint64_t size)
{
    const unsigned char *p = bytes;
    uint64_t h = 0x2d358dccaa6c78a5ull, a = 0, b = 0, left = size;
    for (; left > 16; left -= 16, p += 16)
        h = hash_fold(hash_word(p, 8) ^ 0x8bb84b93962eacc9ull, hash_word(p + 8, 8) ^ h);
    if (left >= 8) {
        a = hash_word(p, 8);
        b = hash_word(p + left - 8, 8);
    } else if (left >= 4) {
        a = hash_word(p, 4);
        b = hash_word(p + left - 4, 4);
    } else if (left) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[left / 2] << 8 | p[left - 1];
    }
    h = hash_fold(a ^ 0x4b33a62ed433d4a3ull, b ^ h);
    h = hash_fold(h ^ 0x8bb84b93962eacc9ull, size ^ 0x4d5a2da51de1aa47ull);
    return h < 2 ? h + 2 : h;
}

/* Which of `count` parts keeps it; within a part bits 0 to 2 choose the stripe, the high ones the place. */
static inline uint32_t hash_part(uint64_t hash, uint32_t count)
{
    return (uint32_t)((uint64_t)(uint32_t)hash * count >> 32);
}

#endif
