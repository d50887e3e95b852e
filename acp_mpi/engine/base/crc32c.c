/* CRC-32C three ways: x86-64 instruction, ARMv8 instruction, tables.
 *
 * All functions but the two public ones work on the raw register, without the
 * inversion at both ends. The register is bit-reflected: its bit 31 is x^0. */
#include "base/crc32c.h"
#include "base/crc32c_copy.h"

#include <string.h>

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word); /* p has no alignment */
    return word;
}

/* ---- Tables: eight bytes a step ("slice by 8") -------------------------- */

/* A CRC is linear, so an entry is the sum of the entries of its index's bits,
 * and 64 constants (x^32 ... x^95 modulo the polynomial) make all 2,048: the
 * compiler builds the tables, and there is no first use to race for. */
#define ENTRY(i, b0, b1, b2, b3, b4, b5, b6, b7)                               \
    (((i) & 1 ? b0 : 0) ^ ((i) & 2 ? b1 : 0) ^ ((i) & 4 ? b2 : 0) ^            \
     ((i) & 8 ? b3 : 0) ^ ((i) & 16 ? b4 : 0) ^ ((i) & 32 ? b5 : 0) ^          \
     ((i) & 64 ? b6 : 0) ^ ((i) & 128 ? b7 : 0))
#define ROW4(i, ...)                                                           \
    ENTRY(i, __VA_ARGS__), ENTRY(i + 1, __VA_ARGS__),                          \
        ENTRY(i + 2, __VA_ARGS__), ENTRY(i + 3, __VA_ARGS__)
#define ROW16(i, ...)                                                          \
    ROW4(i, __VA_ARGS__), ROW4(i + 4, __VA_ARGS__), ROW4(i + 8, __VA_ARGS__),  \
        ROW4(i + 12, __VA_ARGS__)
#define ROW64(i, ...)                                                          \
    ROW16(i, __VA_ARGS__), ROW16(i + 16, __VA_ARGS__),                         \
        ROW16(i + 32, __VA_ARGS__), ROW16(i + 48, __VA_ARGS__)
#define TABLE(...)                                                             \
    {                                                                          \
        ROW64(0, __VA_ARGS__), ROW64(64, __VA_ARGS__),                         \
            ROW64(128, __VA_ARGS__), ROW64(192, __VA_ARGS__)                   \
    }

/* table[k][b]: the sum that byte b adds to the register when k more bytes follow. */
static const uint32_t table[8][256] = {
    TABLE(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu,
          0x20bd8edeu, 0x417b1dbcu, 0x82f63b78u),
    TABLE(0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u,
          0x7f8be302u, 0xff17c604u, 0xfbc3faf9u),
    TABLE(0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au,
          0xe144fb14u, 0xc76580d9u, 0x8b277743u),
    TABLE(0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du,
          0xd725148bu, 0xaba65fe7u, 0x52a0c93fu),
    TABLE(0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u,
          0x1ba8b557u, 0x37516aaeu, 0x6ea2d55cu),
    TABLE(0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu,
          0x85f4168du, 0x0e045bebu, 0x1c08b7d6u),
    TABLE(0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u,
          0x3d5b83bdu, 0x7ab7077au, 0xf56e0ef4u),
    TABLE(0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u,
          0x0d006599u, 0x1a00cb32u, 0x34019664u),
};

static uint32_t by_tables(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word = load64(p);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        word ^= crc;
        crc = table[7][word & 255] ^ table[6][word >> 8 & 255] ^
              table[5][word >> 16 & 255] ^ table[4][word >> 24 & 255] ^
              table[3][word >> 32 & 255] ^ table[2][word >> 40 & 255] ^
              table[1][word >> 48 & 255] ^ table[0][word >> 56];
    }
    for (; n; p++, n--)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return crc;
}

/* ---- x86-64: the CRC32 instruction of SSE4.2 ---------------------------- */

#if defined(__x86_64__)

#include <immintrin.h>

#define X86_CRC __attribute__((target(CRC32C_SSE42 ",pclmul")))

/* The instruction takes a new operand every cycle but answers after three, so
 * three lanes run side by side. A lane's register is carried over the m bytes
 * that follow the lane by a carry-less product with x^(8m-33); the missing 33
 * are the product's own shift by one and the 32 of the instruction that
 * reduces it, which is the one that takes the last lane's last word. */
static inline X86_CRC uint32_t three_lanes(uint32_t crc, const uint8_t *p,
                                           size_t lane, int over_two,
                                           int over_one)
{
    uint64_t first = crc, second = 0, third = 0;
    size_t last = lane - 8;
    for (size_t i = 0; i < last; i += 8) {
        first = _mm_crc32_u64(first, load64(p + i));
        second = _mm_crc32_u64(second, load64(p + lane + i));
        third = _mm_crc32_u64(third, load64(p + 2 * lane + i));
    }
    first = _mm_crc32_u64(first, load64(p + last));
    second = _mm_crc32_u64(second, load64(p + lane + last));
    __m128i carried = _mm_xor_si128(
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)first),
                             _mm_cvtsi32_si128(over_two), 0),
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)second),
                             _mm_cvtsi32_si128(over_one), 0));
    uint64_t word =
        load64(p + 2 * lane + last) ^ (uint64_t)_mm_cvtsi128_si64(carried);
    return (uint32_t)_mm_crc32_u64(third, word);
}

static X86_CRC uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
    enum { LONG = 1024, SHORT = 128 }; /* lanes: pages, and middling frames */
    for (; n >= 3 * LONG; p += 3 * LONG, n -= 3 * LONG)
        crc = three_lanes(crc, p, LONG, (int)0xa51b6135u, 0x170076fa);
    for (; n >= 3 * SHORT; p += 3 * SHORT, n -= 3 * SHORT)
        crc = three_lanes(crc, p, SHORT, (int)0xb9e02b86u, 0x0d3b6092);
    for (; n >= 8; p += 8, n -= 8)
        crc = (uint32_t)_mm_crc32_u64(crc, load64(p));
    if (n >= 4) { /* the head of a frame has 60 bytes */
        uint32_t word;
        memcpy(&word, p, sizeof word);
        crc = _mm_crc32_u32(crc, word);
        p += 4;
        n -= 4;
    }
    for (; n; p++, n--)
        crc = _mm_crc32_u8(crc, *p);
    return crc;
}

static inline int has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

/* ---- ARMv8: where the compiler was told that it is there ---------------- */

#elif defined(__ARM_FEATURE_CRC32)

#include <arm_acle.h>

static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8)
        crc = __crc32cd(crc, load64(p));
    for (; n; p++, n--)
        crc = __crc32cb(crc, *p);
    return crc;
}

static inline int has_instruction(void) { return 1; }

#else

static uint32_t by_instruction(uint32_t crc, const uint8_t *p, size_t n)
{
    return by_tables(crc, p, n);
}

static inline int has_instruction(void) { return 0; }

#endif

uint32_t acp_crc32c(uint32_t crc, const void *data, size_t n)
{
    size_t done = acp_crc32c_fold(&crc, data, n);
    const uint8_t *rest = (const uint8_t *)data + done;
    return has_instruction() ? ~by_instruction(~crc, rest, n - done)
                             : ~by_tables(~crc, rest, n - done);
}

uint32_t acp_crc32c_portable(uint32_t crc, const void *data, size_t n)
{
    return ~by_tables(~crc, data, n);
}
