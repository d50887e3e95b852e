/* SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), with which the processes
 * of a job prove to each other that they know its secret, and HKDF (RFC 5869),
 * which makes the keys of a connection from it. */
#ifndef ACP_SHA256_H
#define ACP_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ACP_SHA256_SIZE = 32, ACP_SHA256_BLOCK = 64 };

typedef struct acp_sha256_state {
    uint32_t h[8];
    uint64_t length; /* bytes so far, those in `block` included */
    uint8_t block[ACP_SHA256_BLOCK];
} acp_sha256_state;

void acp_sha256_init(acp_sha256_state *state);
void acp_sha256_update(acp_sha256_state *state, const void *data, size_t n);
void acp_sha256_final(acp_sha256_state *state, uint8_t out[ACP_SHA256_SIZE]);
void acp_sha256(const void *data, size_t n, uint8_t out[ACP_SHA256_SIZE]);

typedef struct acp_hmac_state {
    acp_sha256_state inner, outer;
} acp_hmac_state;

/* Keys of any length. `final` wipes the state, which holds the key in another form. */
void acp_hmac_init(acp_hmac_state *state, const void *key, size_t keylen);
void acp_hmac_update(acp_hmac_state *state, const void *data, size_t n);
void acp_hmac_final(acp_hmac_state *state, uint8_t out[ACP_SHA256_SIZE]);
void acp_hmac(const void *key, size_t keylen, const void *data, size_t n,
              uint8_t out[ACP_SHA256_SIZE]);

/* HKDF-SHA-256: `size` bytes, at most 255 digests, from input key material, a salt and what they are for. */
void acp_hkdf(const void *salt, size_t salt_size, const void *key, size_t key_size,
              const void *info, size_t info_size, uint8_t *out, size_t size);

/* Whether n bytes are equal, in a time that does not tell where they differ. */
bool acp_equal_ct(const void *a, const void *b, size_t n);

#endif
