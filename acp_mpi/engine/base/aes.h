/* AES-256 (FIPS 197) in constant time, without tables and special instructions: four blocks at once, one bit of each
 * byte to a word. For processors without instructions for it, see gmac.c. */
#ifndef ACP_AES_H
#define ACP_AES_H

#include <stddef.h>
#include <stdint.h>

enum { AES_KEY_SIZE = 32, AES_BLOCK = 16, AES_ROUNDS = 14, AES_AT_ONCE = 4 * AES_BLOCK };

/* Word b of a round has bit b of byte i of that round's key at bit i, four times. */
struct aes_planes {
    uint64_t round[AES_ROUNDS + 1][8];
};

void aes_expand(struct aes_planes *key, const uint8_t from[AES_KEY_SIZE]);
void aes_encrypt(const struct aes_planes *key, uint8_t blocks[AES_AT_ONCE]);

#endif
