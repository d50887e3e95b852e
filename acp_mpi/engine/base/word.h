/* Whole words between private and shared memory, where others may be reading or writing: a byte
 * beyond the last is 0. */
#ifndef ACP_WORD_H
#define ACP_WORD_H

#include <stdint.h>
#include <string.h>

static inline uint64_t words_of(uint64_t size)
{
    return (size + 7) / 8;
}

static inline uint64_t word_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void words_in(void *shared, const void *from, uint64_t size)
{
    const unsigned char *p = from;
    uint64_t *to = shared, word;
    for (; size >= 8; size -= 8, p += 8) {
        memcpy(&word, p, 8);
        __atomic_store_n(to++, word, __ATOMIC_RELAXED);
    }
    if (size) {
        word = 0;
        memcpy(&word, p, size);
        __atomic_store_n(to, word, __ATOMIC_RELAXED);
    }
}

static inline void words_clear(uint64_t *shared, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        __atomic_store_n(shared + i, 0, __ATOMIC_RELAXED);
}

static inline void words_out(void *to, const void *shared, uint64_t size)
{
    const uint64_t *from = shared;
    unsigned char *p = to;
    uint64_t word;
    for (; size >= 8; size -= 8, p += 8) {
        word = word_load(from++);
        memcpy(p, &word, 8);
    }
    if (size) {
        word = word_load(from);
        memcpy(p, &word, size);
    }
}

/* Bytes that count only if they stayed unchanged meanwhile: a read may see half of a word. Takes a third of the time
 * of words_out. */
static inline void words_bytes(void *to, const void *shared, uint64_t size)
{
#if defined(__SANITIZE_THREAD__)
    for (uint64_t i = 0; i < size; i++)
        ((unsigned char *)to)[i] = __atomic_load_n((const unsigned char *)shared + i,
                                                   __ATOMIC_RELAXED);
#else
    memcpy(to, shared, size);
#endif
}

#endif
