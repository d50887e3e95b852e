/* Copying and summing in one pass. Each byte is read once, so the sum is that of the written bytes even if another
 * thread changes the source or the destination meanwhile. */
#include "base/crc32c_copy.h"
#include "base/crc32c.h"

#include <string.h>

#define LONG ((size_t)512) /* less is summed before a fold has ended */

/* Through a piece of the stack, which stays in the cache next to the processor. */
static uint32_t by_pieces(uint32_t crc, uint8_t *to, const uint8_t *from, size_t n)
{
    uint8_t piece[3072];
    while (n) {
        size_t part = n < sizeof piece ? n : sizeof piece;
        memcpy(piece, from, part);
        crc = acp_crc32c(crc, piece, part);
        memcpy(to, piece, part);
        to += part;
        from += part;
        n -= part;
    }
    return crc;
}

#if defined(__x86_64__)

#include <immintrin.h>

#define X86_FOLD __attribute__((target("avx2,vpclmulqdq," CRC32C_SSE42)))
#define STRIDE ((size_t)128)

static inline int has_folding(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
}

/* Carries 32 bytes of the sum over the STRIDE to the next ones and adds those: x^1056 and x^992
 * modulo the polynomial, reflected, take the halves of each 16 bytes there. */
static inline X86_FOLD __m256i fold(__m256i sum, __m256i next)
{
    const __m256i over = _mm256_set_epi64x(0xd3b6092, 0x6992cea2, 0xd3b6092, 0x6992cea2);
    __m256i carried = _mm256_xor_si256(_mm256_clmulepi64_epi128(sum, over, 0x00),
                                       _mm256_clmulepi64_epi128(sum, over, 0x11));
    return _mm256_xor_si256(carried, next);
}

static inline X86_FOLD __m256i moved(uint8_t *to, const uint8_t *from, size_t at)
{
    __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(from + at));
    __asm__("" : "+x"(bytes)); /* else the compiler may load it again for the sum */
    if (to)
        _mm256_storeu_si256((__m256i *)(void *)(to + at), bytes);
    return bytes;
}

/* A multiple of the STRIDE; `to` NULL: no copy. Long carry-less products in place of the CRC instruction: they run
 * while the next bytes are on their way from memory. */
static inline __attribute__((always_inline)) X86_FOLD uint32_t folded(uint32_t crc, uint8_t *to,
                                                                    const uint8_t *from, size_t n)
{
    __m256i a = moved(to, from, 0), b = moved(to, from, 32);
    __m256i c = moved(to, from, 64), d = moved(to, from, 96);
    a = _mm256_xor_si256(a, _mm256_set_epi64x(0, 0, 0, ~crc));
    for (size_t i = STRIDE; i < n; i += STRIDE) {
        a = fold(a, moved(to, from, i));
        b = fold(b, moved(to, from, i + 32));
        c = fold(c, moved(to, from, i + 64));
        d = fold(d, moved(to, from, i + 96));
    }
    uint8_t last[STRIDE]; /* bytes with the sum of all */
    _mm256_storeu_si256((__m256i *)(void *)last, a);
    _mm256_storeu_si256((__m256i *)(void *)(last + 32), b);
    _mm256_storeu_si256((__m256i *)(void *)(last + 64), c);
    _mm256_storeu_si256((__m256i *)(void *)(last + 96), d);
    return acp_crc32c(~0u, last, sizeof last);
}

static X86_FOLD uint32_t copied_by_folding(uint32_t crc, uint8_t *to, const uint8_t *from, size_t n)
{
    return folded(crc, to, from, n);
}

static X86_FOLD uint32_t by_folding(uint32_t crc, const uint8_t *from, size_t n)
{
    return folded(crc, NULL, from, n);
}

#else

#define STRIDE ((size_t)1)

static inline int has_folding(void) { return 0; }

static uint32_t copied_by_folding(uint32_t crc, uint8_t *to, const uint8_t *from, size_t n)
{
    return by_pieces(crc, to, from, n);
}

static uint32_t by_folding(uint32_t crc, const uint8_t *from, size_t n)
{
    return acp_crc32c_portable(crc, from, n);
}

#endif

uint32_t acp_crc32c_copy(uint32_t crc, void *to, const void *from, size_t n)
{
    size_t whole = has_folding() ? n - n % STRIDE : 0;
    if (whole)
        crc = copied_by_folding(crc, to, from, whole);
    return by_pieces(crc, (uint8_t *)to + whole, (const uint8_t *)from + whole, n - whole);
}

size_t acp_crc32c_fold(uint32_t *crc, const void *data, size_t n)
{
    size_t whole = has_folding() && n >= LONG ? n - n % STRIDE : 0;
    if (whole)
        *crc = by_folding(*crc, data, whole);
    return whole;
}
