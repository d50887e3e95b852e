/* Copying and summing in one pass. Each byte is read once, so the sum is that of the written bytes even if another
 * thread changes the source or the destination meanwhile. */
#include "base/crc32c_copy.h"
#include "base/crc32c.h"

#include <stdbool.h>
#include <string.h>

#define LINE ((size_t)64)
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
#define X86_WIDE __attribute__((target("avx512f,vpclmulqdq," CRC32C_SSE42)))
#define STRIDE ((size_t)128)
#define WIDE_STRIDE ((size_t)256)
#define WIDE_LEAST ((size_t)1024)
#define THREE_SUMMED 0x96 /* for _mm512_ternarylogic_epi64 */

static inline int has_wide_folding(void)
{
    return __builtin_cpu_supports("avx512f");
}

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

/* Bytes on their way to `to`; NULL: they are not copied. */
static inline X86_FOLD __m256i moved(uint8_t *to, const uint8_t *from, size_t at, bool past)
{
    __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(from + at));
    __asm__("" : "+x"(bytes)); /* else the compiler may load it again for the sum */
    if (past)
        _mm256_stream_si256((__m256i *)(void *)(to + at), bytes);
    else if (to)
        _mm256_storeu_si256((__m256i *)(void *)(to + at), bytes);
    return bytes;
}

static inline X86_FOLD uint32_t sum_of(__m256i a, __m256i b, __m256i c, __m256i d)
{
    uint8_t last[STRIDE]; /* bytes with the sum of all */
    _mm256_storeu_si256((__m256i *)(void *)last, a);
    _mm256_storeu_si256((__m256i *)(void *)(last + 32), b);
    _mm256_storeu_si256((__m256i *)(void *)(last + 64), c);
    _mm256_storeu_si256((__m256i *)(void *)(last + 96), d);
    return acp_crc32c(~0u, last, sizeof last);
}

/* A multiple of the STRIDE. Long carry-less products in place of the CRC instruction: they run while the next bytes are
 * on their way from memory. */
static X86_FOLD uint32_t folded(uint32_t crc, uint8_t *to, const uint8_t *from, size_t n, bool past)
{
    __m256i a = moved(to, from, 0, past), b = moved(to, from, 32, past);
    __m256i c = moved(to, from, 64, past), d = moved(to, from, 96, past);
    a = _mm256_xor_si256(a, _mm256_set_epi64x(0, 0, 0, ~crc));
    for (size_t i = STRIDE; i < n; i += STRIDE) {
        a = fold(a, moved(to, from, i, past));
        b = fold(b, moved(to, from, i + 32, past));
        c = fold(c, moved(to, from, i + 64, past));
        d = fold(d, moved(to, from, i + 96, past));
    }
    return sum_of(a, b, c, d);
}

/* x^2079 and x^2015, for 64 bytes over the WIDE_STRIDE. */
static inline X86_WIDE __m512i fold_wide(__m512i sum, __m512i next)
{
    const __m512i over = _mm512_broadcast_i32x4(_mm_set_epi64x(0xb9e02b86, 0xdcb17aa4));
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, over, 0x00),
                                     _mm512_clmulepi64_epi128(sum, over, 0x11), next, THREE_SUMMED);
}

static inline X86_WIDE __m512i moved_wide(uint8_t *to, const uint8_t *from, size_t at, bool past)
{
    __m512i bytes = _mm512_loadu_si512(from + at);
    __asm__("" : "+v"(bytes));
    if (past)
        _mm512_stream_si512((__m512i *)(void *)(to + at), bytes);
    else if (to)
        _mm512_storeu_si512(to + at, bytes);
    return bytes;
}

static inline X86_WIDE __m256i lower(__m512i x)
{
    return _mm512_castsi512_si256(x);
}

static inline X86_WIDE __m256i upper(__m512i x)
{
    return _mm512_extracti64x4_epi64(x, 1);
}

static X86_WIDE uint32_t folded_wide(uint32_t crc, uint8_t *to, const uint8_t *from, size_t n, bool past)
{
    __m512i a = moved_wide(to, from, 0, past), b = moved_wide(to, from, 64, past);
    __m512i c = moved_wide(to, from, 128, past), d = moved_wide(to, from, 192, past);
    a = _mm512_xor_si512(a, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
    for (size_t i = WIDE_STRIDE; i < n; i += WIDE_STRIDE) {
        a = fold_wide(a, moved_wide(to, from, i, past));
        b = fold_wide(b, moved_wide(to, from, i + 64, past));
        c = fold_wide(c, moved_wide(to, from, i + 128, past));
        d = fold_wide(d, moved_wide(to, from, i + 192, past));
    }
    return sum_of(fold(lower(a), lower(c)), fold(upper(a), upper(c)), fold(lower(b), lower(d)), fold(upper(b), upper(d)));
}

/* `past` the caches, from the begin of a line on */
static uint32_t by_folding(uint32_t crc, uint8_t *to, const uint8_t *from, size_t n, bool past)
{
    size_t wide = n >= WIDE_LEAST && has_wide_folding() ? n - n % WIDE_STRIDE : 0;
    if (wide)
        crc = folded_wide(crc, to, from, wide, past);
    if (wide < n)
        crc = folded(crc, to ? to + wide : NULL, from + wide, n - wide, past);
    if (past)
        _mm_sfence(); /* a store that says they are there comes after them */
    return crc;
}

#else

#define STRIDE ((size_t)1)

static inline int has_folding(void) { return 0; }

static uint32_t by_folding(uint32_t crc, uint8_t *to, const uint8_t *from, size_t n, bool past)
{
    (void)past;
    return to ? by_pieces(crc, to, from, n) : acp_crc32c_portable(crc, from, n);
}

#endif

static uint32_t copied(uint32_t crc, uint8_t *to, const uint8_t *from, size_t n, bool past)
{
    size_t whole = n >= STRIDE && has_folding() ? n - n % STRIDE : 0;
    if (whole)
        crc = by_folding(crc, to, from, whole, past);
    return by_pieces(crc, to + whole, from + whole, n - whole);
}

uint32_t acp_crc32c_copy(uint32_t crc, void *to, const void *from, size_t n)
{
    return copied(crc, to, from, n, false);
}

uint32_t acp_crc32c_stream(uint32_t crc, void *to, const void *from, size_t n)
{
    size_t head = -(uintptr_t)to % LINE;
    head = head < n ? head : n;
    crc = copied(crc, to, from, head, false);
    return copied(crc, (uint8_t *)to + head, (const uint8_t *)from + head, n - head, true);
}

size_t acp_crc32c_fold(uint32_t *crc, const void *data, size_t n)
{
    size_t whole = n >= LONG && has_folding() ? n - n % STRIDE : 0;
    if (whole)
        *crc = by_folding(*crc, NULL, data, whole, false);
    return whole;
}
