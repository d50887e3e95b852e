/* SHA-256 and HMAC as the standards write them: a handshake hashes a few
 * hundred bytes, so clarity goes before speed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* explicit_bzero */
#endif
#include "base/sha256.h"

#include <string.h>

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotr(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static inline uint32_t load_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 |
           p[3];
}

static inline void store_be32(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)(x >> 24);
    p[1] = (uint8_t)(x >> 16);
    p[2] = (uint8_t)(x >> 8);
    p[3] = (uint8_t)x;
}

static void compress(uint32_t h[8], const uint8_t *block)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = load_be32(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t v[8]; /* a b c d e f g h of the standard */
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
        uint32_t ch = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + ch + round_constant[i] + w[i];
        uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
        uint32_t maj = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + s0 + maj;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

void acp_sha256_init(acp_sha256_state *state)
{
    *state = (acp_sha256_state){
        .h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
              0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
    };
}

void acp_sha256_update(acp_sha256_state *state, const void *data, size_t n)
{
    const uint8_t *p = data;
    size_t held = state->length % ACP_SHA256_BLOCK;
    state->length += n;
    if (held) {
        size_t room = ACP_SHA256_BLOCK - held, take = n < room ? n : room;
        if (take)
            memcpy(state->block + held, p, take);
        if (take < room)
            return;
        compress(state->h, state->block);
        p += take;
        n -= take;
    }
    for (; n >= ACP_SHA256_BLOCK; p += ACP_SHA256_BLOCK, n -= ACP_SHA256_BLOCK)
        compress(state->h, p);
    if (n)
        memcpy(state->block, p, n);
}

void acp_sha256_final(acp_sha256_state *state, uint8_t out[ACP_SHA256_SIZE])
{
    static const uint8_t padding[ACP_SHA256_BLOCK] = {0x80};
    uint64_t bits = state->length * 8;
    uint8_t length[8];
    store_be32(length, (uint32_t)(bits >> 32));
    store_be32(length + 4, (uint32_t)bits);
    /* 1 to 64 bytes of padding leave exactly the last 8 of a block free */
    size_t pad = ACP_SHA256_BLOCK - (state->length + 8) % ACP_SHA256_BLOCK;
    acp_sha256_update(state, padding, pad);
    acp_sha256_update(state, length, sizeof length);
    for (int i = 0; i < 8; i++)
        store_be32(out + 4 * i, state->h[i]);
}

void acp_sha256(const void *data, size_t n, uint8_t out[ACP_SHA256_SIZE])
{
    acp_sha256_state state;
    acp_sha256_init(&state);
    acp_sha256_update(&state, data, n);
    acp_sha256_final(&state, out);
}

void acp_hmac_init(acp_hmac_state *state, const void *key, size_t keylen)
{
    uint8_t pad[ACP_SHA256_BLOCK] = {0};
    if (keylen > sizeof pad)
        acp_sha256(key, keylen, pad);
    else if (keylen)
        memcpy(pad, key, keylen);
    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] ^= 0x36;
    acp_sha256_init(&state->inner);
    acp_sha256_update(&state->inner, pad, sizeof pad);
    for (size_t i = 0; i < sizeof pad; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    acp_sha256_init(&state->outer);
    acp_sha256_update(&state->outer, pad, sizeof pad);
    explicit_bzero(pad, sizeof pad);
}

void acp_hmac_update(acp_hmac_state *state, const void *data, size_t n)
{
    acp_sha256_update(&state->inner, data, n);
}

void acp_hmac_final(acp_hmac_state *state, uint8_t out[ACP_SHA256_SIZE])
{
    uint8_t digest[ACP_SHA256_SIZE];
    acp_sha256_final(&state->inner, digest);
    acp_sha256_update(&state->outer, digest, sizeof digest);
    acp_sha256_final(&state->outer, out);
    explicit_bzero(state, sizeof *state);
}

void acp_hmac(const void *key, size_t keylen, const void *data, size_t n,
              uint8_t out[ACP_SHA256_SIZE])
{
    acp_hmac_state state;
    acp_hmac_init(&state, key, keylen);
    acp_hmac_update(&state, data, n);
    acp_hmac_final(&state, out);
}

void acp_hkdf(const void *salt, size_t salt_size, const void *key, size_t key_size,
              const void *info, size_t info_size, uint8_t *out, size_t size)
{
    uint8_t extracted[ACP_SHA256_SIZE], block[ACP_SHA256_SIZE];
    acp_hmac(salt, salt_size, key, key_size, extracted);
    for (uint8_t number = 1; size; number++) {
        size_t part = size < sizeof block ? size : sizeof block;
        acp_hmac_state state;
        acp_hmac_init(&state, extracted, sizeof extracted);
        if (number > 1)
            acp_hmac_update(&state, block, sizeof block);
        acp_hmac_update(&state, info, info_size);
        acp_hmac_update(&state, &number, 1);
        acp_hmac_final(&state, block);
        memcpy(out, block, part);
        out += part;
        size -= part;
    }
    explicit_bzero(extracted, sizeof extracted);
    explicit_bzero(block, sizeof block);
}

bool acp_equal_ct(const void *a, const void *b, size_t n)
{
    const uint8_t *p = a, *q = b;
    uint8_t difference = 0;
    for (size_t i = 0; i < n; i++)
        difference |= (uint8_t)(p[i] ^ q[i]);
    /* the compiler must not learn that the answer is settled early */
    __asm__("" : "+r"(difference));
    return difference == 0;
}
