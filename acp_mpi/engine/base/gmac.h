/* AES-256-GMAC (NIST SP 800-38D): AES-256-GCM of bytes that are authenticated and not encrypted. The nonce has 12 bytes,
 * a prefix of 4 and a counter of 8, both most significant byte first. A key never authenticates two messages with one
 * counter: that would give it away. */
#ifndef ACP_GMAC_H
#define ACP_GMAC_H

#include "base/aes.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GMAC_KEY_SIZE = AES_KEY_SIZE, GMAC_TAG = 16, GMAC_HEAD = 64, GMAC_POWERS = 32 };

/* One key. The processor's instructions for AES and carry-less products take the first half, portable code the other
 * one. */
struct gmac {
    alignas(32) uint64_t power[GMAC_POWERS][2]; /* of the hash key, the highest first, as POLYVAL (RFC 8452) takes it */
    alignas(16) uint8_t round[AES_ROUNDS + 1][AES_BLOCK];
    bool fast;
    uint32_t prefix;
    struct aes_planes planes;
    uint64_t masks_of;          /* the counter, but its last two bits, of `masks`; all ones: none yet */
    uint8_t masks[AES_AT_ONCE]; /* encrypted nonces of four counters */
};

/* Are there instructions for it? */
bool gmac_is_fast(void);
/* `fast`: by these instructions. Both ways give the same tags. */
void gmac_init(struct gmac *g, const uint8_t key[GMAC_KEY_SIZE], bool fast);
/* The tag of GMAC_HEAD bytes, NULL: none, and a body behind them. */
void gmac_tag(struct gmac *g, uint64_t counter, const void *head, const void *body, size_t size,
              uint8_t tag[GMAC_TAG]);

#endif
