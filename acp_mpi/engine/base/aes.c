/* Bit b of 64 bytes lies in one word, its bit i that of byte i: every step is and, xor and shift of words, and takes the
 * same time whatever the bytes are. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* explicit_bzero */
#endif
#include "base/aes.h"

#include <string.h>

/* Swaps the bits of `x` at `mask` with those `by` above. */
static inline uint64_t swapped(uint64_t x, uint64_t mask, int by)
{
    uint64_t difference = (x ^ x >> by) & mask;
    return x ^ difference ^ difference << by;
}

/* Eight bytes as a square of bits: rows become columns. */
static inline uint64_t transposed(uint64_t x)
{
    x = swapped(x, 0x00aa00aa00aa00aa, 7);
    x = swapped(x, 0x0000cccc0000cccc, 14);
    return swapped(x, 0x00000000f0f0f0f0, 28);
}

static void planes_of(uint64_t plane[8], const uint8_t bytes[AES_AT_ONCE])
{
    memset(plane, 0, 8 * sizeof *plane);
    for (int group = 0; group < 8; group++) {
        uint64_t square = 0;
        for (int i = 0; i < 8; i++)
            square |= (uint64_t)bytes[8 * group + i] << 8 * i;
        square = transposed(square);
        for (int bit = 0; bit < 8; bit++)
            plane[bit] |= (square >> 8 * bit & 255) << 8 * group;
    }
}

static void bytes_of(uint8_t bytes[AES_AT_ONCE], const uint64_t plane[8])
{
    for (int group = 0; group < 8; group++) {
        uint64_t square = 0;
        for (int bit = 0; bit < 8; bit++)
            square |= (plane[bit] >> 8 * group & 255) << 8 * bit;
        square = transposed(square);
        for (int i = 0; i < 8; i++)
            bytes[8 * group + i] = (uint8_t)(square >> 8 * i);
    }
}

/* Takes a polynomial of degree 14 modulo x^8 + x^4 + x^3 + x + 1. */
static inline void reduce(uint64_t out[8], uint64_t product[15])
{
    for (int i = 14; i >= 8; i--) {
        product[i - 4] ^= product[i];
        product[i - 5] ^= product[i];
        product[i - 7] ^= product[i];
        product[i - 8] ^= product[i];
    }
    memcpy(out, product, 8 * sizeof *out);
}

static inline void multiply(uint64_t out[8], const uint64_t a[8], const uint64_t b[8])
{
    uint64_t product[15] = {0};
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            product[i + j] ^= a[i] & b[j];
    reduce(out, product);
}

static inline void square(uint64_t out[8], const uint64_t a[8])
{
    uint64_t product[15] = {0};
    for (int i = 0; i < 8; i++)
        product[2 * i] = a[i];
    reduce(out, product);
}

/* The inverse in the field is the 254th power; the affine map follows. */
static void substitute(uint64_t x[8])
{
    uint64_t two[8], three[8], twelve[8], fifteen[8], high[8];
    square(two, x);
    multiply(three, two, x);
    square(twelve, three);
    square(twelve, twelve);
    multiply(fifteen, twelve, three);
    square(high, fifteen);
    for (int i = 0; i < 3; i++)
        square(high, high);        /* 240 */
    multiply(high, high, twelve);  /* 252 */
    multiply(high, high, two);     /* 254 */
    for (int i = 0; i < 8; i++)
        x[i] = high[i] ^ high[(i + 4) % 8] ^ high[(i + 5) % 8] ^ high[(i + 6) % 8] ^ high[(i + 7) % 8] ^
               (0x63 >> i & 1 ? ~(uint64_t)0 : 0);
}

/* Byte r + 4c of a block lies in row r and column c; row r moves r columns to the left. */
static inline void shift_rows(uint64_t x[8])
{
    for (int i = 0; i < 8; i++) {
        uint64_t row1 = x[i] & 0x2222222222222222, row2 = x[i] & 0x4444444444444444,
                 row3 = x[i] & 0x8888888888888888;
        x[i] = (x[i] & 0x1111111111111111) |
               (row1 >> 4 & 0x0fff0fff0fff0fff) | (row1 << 12 & 0xf000f000f000f000) |
               (row2 >> 8 & 0x00ff00ff00ff00ff) | (row2 << 8 & 0xff00ff00ff00ff00) |
               (row3 >> 12 & 0x000f000f000f000f) | (row3 << 4 & 0xfff0fff0fff0fff0);
    }
}

/* In each column: the byte `by` rows below. */
static inline uint64_t below(uint64_t x, int by)
{
    uint64_t stay = by == 1 ? 0x7777777777777777 : 0x3333333333333333;
    return (x >> by & stay) | (x << (4 - by) & ~stay);
}

static inline void mix_columns(uint64_t x[8])
{
    uint64_t pair[8], out[8];
    for (int i = 0; i < 8; i++)
        pair[i] = x[i] ^ below(x[i], 1);
    for (int i = 0; i < 8; i++)
        out[i] = (i ? pair[i - 1] : 0) ^ (i == 1 || i == 3 || i == 4 ? pair[7] : 0) ^ below(x[i], 1) ^
                 below(pair[i], 2);
    out[0] ^= pair[7];
    memcpy(x, out, sizeof out);
}

void aes_encrypt(const struct aes_planes *key, uint8_t blocks[AES_AT_ONCE])
{
    uint64_t x[8];
    planes_of(x, blocks);
    for (int i = 0; i < 8; i++)
        x[i] ^= key->round[0][i];
    for (int round = 1; round <= AES_ROUNDS; round++) {
        substitute(x);
        shift_rows(x);
        if (round < AES_ROUNDS)
            mix_columns(x);
        for (int i = 0; i < 8; i++)
            x[i] ^= key->round[round][i];
    }
    bytes_of(blocks, x);
}

static void substitute_word(uint8_t word[4])
{
    uint8_t bytes[AES_AT_ONCE] = {0};
    uint64_t x[8];
    memcpy(bytes, word, 4);
    planes_of(x, bytes);
    substitute(x);
    bytes_of(bytes, x);
    memcpy(word, bytes, 4);
}

void aes_expand(struct aes_planes *key, const uint8_t from[AES_KEY_SIZE])
{
    enum { WORDS = 4 * (AES_ROUNDS + 1), OF_KEY = AES_KEY_SIZE / 4 };
    uint8_t word[WORDS][4], constant = 1, four[AES_AT_ONCE];
    memcpy(word, from, AES_KEY_SIZE);
    for (int i = OF_KEY; i < WORDS; i++) {
        uint8_t *next = word[i], last[4];
        memcpy(last, word[i - 1], 4);
        memcpy(next, last, 4);
        if (i % OF_KEY == 0)
            for (int k = 0; k < 4; k++)
                next[k] = last[(k + 1) % 4];
        if (i % 4 == 0)
            substitute_word(next);
        if (i % OF_KEY == 0) {
            next[0] ^= constant;
            constant = (uint8_t)(constant << 1);
        }
        for (int k = 0; k < 4; k++)
            next[k] ^= word[i - OF_KEY][k];
    }
    for (int round = 0; round <= AES_ROUNDS; round++) {
        for (int block = 0; block < 4; block++)
            memcpy(four + AES_BLOCK * block, word[4 * round], AES_BLOCK);
        planes_of(key->round[round], four);
    }
    explicit_bzero(word, sizeof word);
    explicit_bzero(four, sizeof four);
}
