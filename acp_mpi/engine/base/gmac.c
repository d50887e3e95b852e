/* GHASH as POLYVAL, its mirror image (RFC 8452, appendix A): blocks with their bytes reversed are factors as processors
 * take them. x^-128 is part of each product, so that a sum of products takes one reduction. */
#include "base/gmac.h"

#include <string.h>

static void store_be64(uint8_t *p, uint64_t x)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(x >> (56 - 8 * i));
}

static uint64_t load_be64(const uint8_t *p)
{
    uint64_t x = 0;
    for (int i = 0; i < 8; i++)
        x = x << 8 | p[i];
    return x;
}

static void nonce_block(const struct gmac *g, uint64_t counter, uint8_t block[AES_BLOCK])
{
    store_be64(block, (uint64_t)g->prefix << 32 | counter >> 32);
    store_be64(block + 8, counter << 32 | 1);
}

static void lengths_block(size_t size, uint8_t block[AES_BLOCK])
{
    store_be64(block, 8 * (uint64_t)size);
    memset(block + 8, 0, 8);
}

/* ---- Portable, in constant time ------------------------------------------ */

/* The low half of a carry-less product, by products of integers: of each factor every fourth bit is left, so that what
 * is carried ends in the gaps. */
static inline uint64_t product_low(uint64_t x, uint64_t y)
{
    const uint64_t comb = 0x1111111111111111;
    uint64_t x0 = x & comb, x1 = x & comb << 1, x2 = x & comb << 2, x3 = x & comb << 3;
    uint64_t y0 = y & comb, y1 = y & comb << 1, y2 = y & comb << 2, y3 = y & comb << 3;
    uint64_t z0 = x0 * y0 ^ x1 * y3 ^ x2 * y2 ^ x3 * y1;
    uint64_t z1 = x0 * y1 ^ x1 * y0 ^ x2 * y3 ^ x3 * y2;
    uint64_t z2 = x0 * y2 ^ x1 * y1 ^ x2 * y0 ^ x3 * y3;
    uint64_t z3 = x0 * y3 ^ x1 * y2 ^ x2 * y1 ^ x3 * y0;
    return (z0 & comb) | (z1 & comb << 1) | (z2 & comb << 2) | (z3 & comb << 3);
}

static inline uint64_t mirrored(uint64_t x)
{
    x = (x >> 1 & 0x5555555555555555) | (x & 0x5555555555555555) << 1;
    x = (x >> 2 & 0x3333333333333333) | (x & 0x3333333333333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f0f0f0f0f) | (x & 0x0f0f0f0f0f0f0f0f) << 4;
    return __builtin_bswap64(x);
}

/* The high half is the low one of the mirror images. */
static inline uint64_t product_high(uint64_t mirrored_x, uint64_t mirrored_y)
{
    return mirrored(product_low(mirrored_x, mirrored_y)) >> 1;
}

/* x^-64 times the polynomial in three words: adds the multiple of the modulus that clears the lowest. */
static inline void fold_word(uint64_t *low, uint64_t *mid, uint64_t *high)
{
    *mid ^= *low << 63 ^ *low << 62 ^ *low << 57;
    *high ^= *low ^ *low >> 1 ^ *low >> 2 ^ *low >> 7;
}

static void dot(uint64_t s[2], const uint64_t h[2])
{
    uint64_t sum = s[0] ^ s[1], h_sum = h[0] ^ h[1];
    uint64_t m0 = mirrored(s[0]), m1 = mirrored(s[1]), h0 = mirrored(h[0]), h1 = mirrored(h[1]);
    uint64_t low[2] = {product_low(s[0], h[0]), product_high(m0, h0)};
    uint64_t high[2] = {product_low(s[1], h[1]), product_high(m1, h1)};
    uint64_t mid[2] = {product_low(sum, h_sum) ^ low[0] ^ high[0],
                       product_high(m0 ^ m1, h0 ^ h1) ^ low[1] ^ high[1]};
    uint64_t r0 = low[0], r1 = low[1] ^ mid[0], r2 = high[0] ^ mid[1], r3 = high[1];
    fold_word(&r0, &r1, &r2);
    fold_word(&r1, &r2, &r3);
    s[0] = r2;
    s[1] = r3;
}

/* The last block may be short: zeros follow it. */
static void absorb(uint64_t s[2], const uint64_t h[2], const uint8_t *p, size_t size)
{
    for (; size >= AES_BLOCK; p += AES_BLOCK, size -= AES_BLOCK) {
        s[1] ^= load_be64(p);
        s[0] ^= load_be64(p + 8);
        dot(s, h);
    }
    if (size) {
        uint8_t last[AES_BLOCK] = {0};
        memcpy(last, p, size);
        absorb(s, h, last, sizeof last);
    }
}

static void tag_portable(struct gmac *g, uint64_t counter, const uint8_t *head, const uint8_t *body, size_t size,
                         uint8_t tag[GMAC_TAG])
{
    const uint64_t *h = g->power[GMAC_POWERS - 1];
    uint64_t s[2] = {0, 0};
    uint8_t lengths[AES_BLOCK];
    size_t head_size = head ? GMAC_HEAD : 0;
    if (g->masks_of != counter >> 2) {
        for (uint64_t i = 0; i < 4; i++)
            nonce_block(g, (counter & ~(uint64_t)3) + i, g->masks + AES_BLOCK * i);
        aes_encrypt(&g->planes, g->masks);
        g->masks_of = counter >> 2;
    }
    lengths_block(head_size + size, lengths);
    absorb(s, h, head, head_size);
    absorb(s, h, body, size);
    absorb(s, h, lengths, sizeof lengths);
    store_be64(tag, s[1]);
    store_be64(tag + 8, s[0]);
    for (int i = 0; i < GMAC_TAG; i++)
        tag[i] ^= g->masks[AES_BLOCK * (counter & 3) + (unsigned)i];
}

/* ---- x86-64: AES-NI and PCLMULQDQ, of 256 bits where there is that ------- */

#if defined(__x86_64__)

#include <immintrin.h>

#define GROUP_BLOCKS 16
#define GROUP_BYTES ((size_t)AES_BLOCK * GROUP_BLOCKS)
#define PAIR_BYTES (2 * GROUP_BYTES)
#define X86_GMAC __attribute__((target("aes,pclmul,ssse3,sse4.1")))
#define X86_WIDE __attribute__((target("aes,pclmul,avx2,vpclmulqdq")))
#define THREE_SUMMED 0x96 /* for _mm512_ternarylogic_epi64 */
#define X86_WIDEST __attribute__((target("aes,pclmul,avx512f,avx512bw,vpclmulqdq")))

bool gmac_is_fast(void)
{
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("ssse3") &&
           __builtin_cpu_supports("sse4.1");
}

static inline bool is_wide(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
}

static inline bool is_widest(void)
{
    return is_wide() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
}

static inline X86_GMAC __m128i reversed(__m128i x)
{
    return _mm_shuffle_epi8(x, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

static inline X86_GMAC __m128i reduced(__m128i low, __m128i mid, __m128i high)
{
    const __m128i modulus = _mm_set_epi64x((long long)0xc200000000000000, 1);
    low = _mm_xor_si128(low, _mm_slli_si128(mid, 8));
    high = _mm_xor_si128(high, _mm_srli_si128(mid, 8));
    for (int i = 0; i < 2; i++)
        low = _mm_xor_si128(_mm_shuffle_epi32(low, 0x4e), _mm_clmulepi64_si128(low, modulus, 0x10));
    return _mm_xor_si128(high, low);
}

/* At most GMAC_POWERS whole blocks go on from the hash `s`. */
static inline X86_GMAC __m128i blocks(const struct gmac *g, __m128i s, const uint8_t *p, size_t count)
{
    const __m128i *power = (const __m128i *)(const void *)g->power[GMAC_POWERS - count];
    __m128i low = _mm_setzero_si128(), mid = low, high = low;
    for (size_t i = 0; i < count; i++) {
        __m128i x = reversed(_mm_loadu_si128((const __m128i *)(const void *)(p + AES_BLOCK * i)));
        __m128i h = _mm_load_si128(power + i);
        x = i ? x : _mm_xor_si128(x, s);
        low = _mm_xor_si128(low, _mm_clmulepi64_si128(x, h, 0x00));
        high = _mm_xor_si128(high, _mm_clmulepi64_si128(x, h, 0x11));
        mid = _mm_xor_si128(mid, _mm_xor_si128(_mm_clmulepi64_si128(x, h, 0x01), _mm_clmulepi64_si128(x, h, 0x10)));
    }
    return reduced(low, mid, high);
}

static inline X86_WIDE __m128i half_sum(__m256i x)
{
    return _mm_xor_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

/* The same of a group of blocks at a time, two in a register. */
static X86_WIDE void blocks_wide(const struct gmac *g, __m128i *s, const uint8_t *p, size_t groups)
{
    const __m256i reverse = _mm256_broadcastsi128_si256(
        _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const __m256i *power = (const __m256i *)(const void *)g->power[GMAC_POWERS - GROUP_BLOCKS];
    for (; groups; groups--, p += GROUP_BYTES) {
        __m256i low = _mm256_setzero_si256(), mid = low, high = low;
        for (int i = 0; i < GROUP_BLOCKS / 2; i++) {
            __m256i x = _mm256_shuffle_epi8(
                _mm256_loadu_si256((const __m256i *)(const void *)(p + 2 * AES_BLOCK * i)), reverse);
            __m256i h = _mm256_load_si256(power + i);
            x = i ? x : _mm256_xor_si256(x, _mm256_zextsi128_si256(*s));
            low = _mm256_xor_si256(low, _mm256_clmulepi64_epi128(x, h, 0x00));
            high = _mm256_xor_si256(high, _mm256_clmulepi64_epi128(x, h, 0x11));
            mid = _mm256_xor_si256(mid, _mm256_xor_si256(_mm256_clmulepi64_epi128(x, h, 0x01),
                                                         _mm256_clmulepi64_epi128(x, h, 0x10)));
        }
        *s = reduced(half_sum(low), half_sum(mid), half_sum(high));
    }
}

static inline X86_WIDEST __m128i quarter_sum(__m512i x)
{
    return half_sum(_mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1)));
}

/* The same of pairs of groups, four blocks in a register. Those that wait for the hash so far come last. */
static X86_WIDEST void blocks_widest(const struct gmac *g, __m128i *s, const uint8_t *p, size_t pairs)
{
    const __m512i reverse = _mm512_broadcast_i32x4(
        _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    const uint8_t *power = (const uint8_t *)g->power;
    for (; pairs; pairs--, p += PAIR_BYTES) {
        __m512i low = _mm512_setzero_si512(), mid = low, high = low;
        for (size_t i = PAIR_BYTES / 64; i-- > 0;) {
            __m512i x = _mm512_shuffle_epi8(_mm512_loadu_si512(p + 64 * i), reverse);
            __m512i h = _mm512_loadu_si512(power + 64 * i);
            x = i ? x : _mm512_xor_si512(x, _mm512_zextsi128_si512(*s));
            low = _mm512_xor_si512(low, _mm512_clmulepi64_epi128(x, h, 0x00));
            high = _mm512_xor_si512(high, _mm512_clmulepi64_epi128(x, h, 0x11));
            mid = _mm512_ternarylogic_epi64(mid, _mm512_clmulepi64_epi128(x, h, 0x01),
                                            _mm512_clmulepi64_epi128(x, h, 0x10), THREE_SUMMED);
        }
        *s = reduced(quarter_sum(low), quarter_sum(mid), quarter_sum(high));
    }
}

static X86_GMAC __m128i encrypted(const struct gmac *g, __m128i x)
{
    const __m128i *round = (const __m128i *)(const void *)g->round;
    x = _mm_xor_si128(x, _mm_load_si128(round));
    for (int i = 1; i < AES_ROUNDS; i++)
        x = _mm_aesenc_si128(x, _mm_load_si128(round + i));
    return _mm_aesenclast_si128(x, _mm_load_si128(round + AES_ROUNDS));
}

/* A short last block and the lengths are hashed in one step with the whole blocks before them; so is all of a short
 * message. */
static X86_GMAC void tag_fast(const struct gmac *g, uint64_t counter, const uint8_t *head, const uint8_t *body,
                              size_t size, uint8_t tag[GMAC_TAG])
{
    uint8_t nonce[AES_BLOCK], last[GROUP_BYTES];
    __m128i s = _mm_setzero_si128();
    size_t at = 0, rest = size, head_size = head ? GMAC_HEAD : 0;
    nonce_block(g, counter, nonce);
    __m128i mask = encrypted(g, _mm_loadu_si128((const __m128i *)(const void *)nonce));
    if (head_size + size + AES_BLOCK <= GROUP_BYTES) {
        if (head)
            memcpy(last, head, GMAC_HEAD);
        at = head_size;
    } else {
        size_t groups = size / GROUP_BYTES;
        if (head)
            s = blocks(g, s, head, GMAC_HEAD / AES_BLOCK);
        if (groups > 1 && is_widest()) {
            blocks_widest(g, &s, body, groups / 2);
            body += groups / 2 * PAIR_BYTES;
            groups %= 2;
        }
        if (groups && is_wide()) {
            blocks_wide(g, &s, body, groups);
            body += groups * GROUP_BYTES;
            groups = 0;
        }
        for (; groups; groups--, body += GROUP_BYTES)
            s = blocks(g, s, body, GROUP_BLOCKS);
        rest = size % GROUP_BYTES;
        if (rest + AES_BLOCK > GROUP_BYTES) {
            s = blocks(g, s, body, GROUP_BLOCKS - 1);
            body += GROUP_BYTES - AES_BLOCK;
            rest -= GROUP_BYTES - AES_BLOCK;
        }
    }
    if (rest)
        memcpy(last + at, body, rest);
    at += rest;
    if (at % AES_BLOCK) {
        size_t gap = AES_BLOCK - at % AES_BLOCK;
        memset(last + at, 0, gap);
        at += gap;
    }
    lengths_block(head_size + size, last + at);
    s = blocks(g, s, last, at / AES_BLOCK + 1);
    _mm_storeu_si128((__m128i *)(void *)tag, _mm_xor_si128(reversed(s), mask));
}

#else

bool gmac_is_fast(void)
{
    return false;
}

static void tag_fast(const struct gmac *g, uint64_t counter, const uint8_t *head, const uint8_t *body, size_t size,
                     uint8_t tag[GMAC_TAG])
{
    (void)g, (void)counter, (void)head, (void)body, (void)size, (void)tag;
}

#endif

/* ---- Both ---------------------------------------------------------------- */

/* POLYVAL's key is that of GHASH times x, its bytes reversed. */
static void powers_of(struct gmac *g, const uint8_t h[AES_BLOCK])
{
    uint64_t *first = g->power[GMAC_POWERS - 1];
    uint64_t low = load_be64(h + 8), high = load_be64(h), carried = 0 - (high >> 63);
    first[0] = low << 1 ^ (carried & 1);
    first[1] = (high << 1 | low >> 63) ^ (carried & 0xc200000000000000);
    for (int i = GMAC_POWERS - 2; i >= 0; i--) {
        memcpy(g->power[i], g->power[i + 1], sizeof g->power[i]);
        dot(g->power[i], first);
    }
}

/* The bit-sliced round keys as bytes. */
static void rounds_of(struct gmac *g)
{
    for (int round = 0; round <= AES_ROUNDS; round++)
        for (int i = 0; i < AES_BLOCK; i++) {
            unsigned byte = 0;
            for (int bit = 0; bit < 8; bit++)
                byte |= (unsigned)(g->planes.round[round][bit] >> i & 1) << bit;
            g->round[round][i] = (uint8_t)byte;
        }
}

void gmac_init(struct gmac *g, const uint8_t key[GMAC_KEY_SIZE], bool fast)
{
    uint8_t zeros[AES_AT_ONCE] = {0};
    memset(g, 0, sizeof *g);
    g->fast = fast;
    g->masks_of = ~(uint64_t)0;
    aes_expand(&g->planes, key);
    rounds_of(g);
    aes_encrypt(&g->planes, zeros);
    powers_of(g, zeros);
}

void gmac_tag(struct gmac *g, uint64_t counter, const void *head, const void *body, size_t size,
              uint8_t tag[GMAC_TAG])
{
    if (g->fast)
        tag_fast(g, counter, head, body, size, tag);
    else
        tag_portable(g, counter, head, body, size, tag);
}
