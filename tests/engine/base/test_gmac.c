/* AES-256, HKDF, GMAC and GCM against published vectors; the ways to make a tag against each other. */
#include "support/check.h"
#include "support/draws.h"
#include "base/aes.h"
#include "base/gmac.h"
#include "base/libcrypto.h"
#include "base/sha256.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST ((size_t)66000)

static struct libcrypto crypto;
static uint64_t draws = 35;

static size_t bytes(uint8_t *to, const char *hex)
{
    size_t n = 0;
    for (; *hex; hex += 2, n++) {
        unsigned byte;
        CHECK(sscanf(hex, "%2x", &byte) == 1);
        to[n] = (uint8_t)byte;
    }
    return n;
}

static bool is_hex(const uint8_t *p, const char *hex)
{
    uint8_t expected[128];
    return memcmp(p, expected, bytes(expected, hex)) == 0;
}

/* FIPS 197, appendix C.3 */
static void test_aes_has_the_published_value(void)
{
    uint8_t key[AES_KEY_SIZE], four[AES_AT_ONCE];
    struct aes_planes planes;
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof four; i++)
        four[i] = (uint8_t)(0x11 * (i % AES_BLOCK) + i / AES_BLOCK);
    aes_expand(&planes, key);
    aes_encrypt(&planes, four);
    CHECK(is_hex(four, "8ea2b7ca516745bfeafc49904b496089"));
    for (size_t i = 1; i < 4; i++)
        CHECK(memcmp(four, four + AES_BLOCK * i, AES_BLOCK) != 0);
}

/* RFC 5869, appendix A.1 to A.3 */
static void test_hkdf_has_the_published_values(void)
{
    uint8_t key[80], salt[80], info[80], out[82];
    memset(key, 0x0b, 22);
    for (int i = 0; i < 13; i++)
        salt[i] = (uint8_t)i, info[i] = (uint8_t)(0xf0 + i);
    acp_hkdf(salt, 13, key, 22, info, 10, out, 42);
    CHECK(is_hex(out, "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"));
    acp_hkdf(NULL, 0, key, 22, NULL, 0, out, 42);
    CHECK(is_hex(out, "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"));
    for (int i = 0; i < 80; i++)
        key[i] = (uint8_t)i, salt[i] = (uint8_t)(0x60 + i), info[i] = (uint8_t)(0xb0 + i);
    acp_hkdf(salt, 80, key, 80, info, 80, out, 82);
    CHECK(is_hex(out, "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e"
                      "590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"));
}

static void check_tag(const char *key_hex, const char *nonce_hex, const char *text_hex, const char *tag_hex)
{
    uint8_t key[GMAC_KEY_SIZE], nonce[12], text[64], tag[GMAC_TAG];
    struct gmac g;
    size_t size = bytes(text, text_hex);
    uint64_t counter = 0;
    bytes(key, key_hex);
    bytes(nonce, nonce_hex);
    for (int i = 4; i < 12; i++)
        counter = counter << 8 | nonce[i];
    for (int fast = 0; fast <= gmac_is_fast(); fast++) {
        gmac_init(&g, key, fast);
        g.prefix = (uint32_t)nonce[0] << 24 | (uint32_t)nonce[1] << 16 | (uint32_t)nonce[2] << 8 | nonce[3];
        gmac_tag(&g, counter, NULL, text, size, tag);
        CHECK(is_hex(tag, tag_hex));
    }
}

/* Test case 13 of the GCM specification, and four of NIST's validation set (gcmEncryptExtIV256, without plaintext) */
static void test_gmac_has_the_published_values(void)
{
    check_tag("0000000000000000000000000000000000000000000000000000000000000000", "000000000000000000000000", "",
              "530f8afbc74536b9a963b4f1c4cb738b");
    check_tag("b52c505a37d78eda5dd34f20c22540ea1b58963cf8e5bf8ffa85f9f2492505b4", "516c33929df5a3284ff463d7", "",
              "bdc1ac884d332457a1d2664f168c76f0");
    check_tag("78dc4e0aaf52d935c3c01eea57428f00ca1fd475f5da86a49c8dd73d68c8e223", "d79cf22d504cc793c3fb6c8a",
              "b96baa8c1c75a671bfb2d08d06be5f36", "3e5d486aa2e30b22e040b85723a06e76");
    check_tag("4457ff33683cca6ca493878bdc00373893a9763412eef8cddb54f91318e0da88", "699d1f29d7b8c55300bb1fd2",
              "6749daeea367d0e9809e2dc2f309e6e3", "d60c74d2517fde4a74e0cd4709ed43a9");
    check_tag("886cff5f3e6b8d0e1ad0a38fcdb26de97e8acbe79f6bed66959a598fa5047d65", "3a8efa1cd74bbab5448f9945",
              "519fee519d25c7a304d6c6aa1897ee1eb8c59655", "f6d47505ec96c98a42dc3ae719877b87");
}

/* Test cases 13 and 14 of the GCM specification */
static void test_the_library_has_the_published_values(void)
{
    static const uint8_t zeros[32];
    uint8_t out[16], tag[LIBCRYPTO_TAG];
    void *key = libcrypto_key(&crypto, zeros, true), *inverse = libcrypto_key(&crypto, zeros, false);
    CHECK(key && inverse);
    CHECK(libcrypto_begin(&crypto, key, 0) && libcrypto_tag(&crypto, key, tag));
    CHECK(is_hex(tag, "530f8afbc74536b9a963b4f1c4cb738b"));
    CHECK(libcrypto_begin(&crypto, key, 0) && libcrypto_go_on(&crypto, key, out, zeros, sizeof out) &&
          libcrypto_tag(&crypto, key, tag));
    CHECK(is_hex(out, "cea7403d4d606b6e074ec5d3baf39d18") && is_hex(tag, "d0d1c8a799996bf0265b98b5d48ab919"));
    CHECK(libcrypto_begin(&crypto, inverse, 0) && libcrypto_go_on(&crypto, inverse, out, out, sizeof out) &&
          libcrypto_check(&crypto, inverse, tag) && memcmp(out, zeros, sizeof out) == 0);
    tag[7] ^= 1;
    CHECK(libcrypto_begin(&crypto, inverse, 0) && libcrypto_go_on(&crypto, inverse, out, out, sizeof out) &&
          !libcrypto_check(&crypto, inverse, tag));
    libcrypto_forget(&crypto, key);
    libcrypto_forget(&crypto, inverse);
}

static void tag_by_library(const uint8_t *key, uint64_t counter, const uint8_t *head, const uint8_t *body, size_t size,
                           uint8_t *tag)
{
    void *context = libcrypto_key(&crypto, key, true);
    CHECK(context && libcrypto_begin(&crypto, context, counter) &&
          libcrypto_go_on(&crypto, context, NULL, head, GMAC_HEAD) &&
          libcrypto_go_on(&crypto, context, NULL, body, size) && libcrypto_tag(&crypto, context, tag));
    libcrypto_forget(&crypto, context);
}

/* Of every size up to some groups of blocks, and of some up to a frame's. */
static void test_all_ways_make_the_same_tag(void)
{
    uint8_t *body = malloc(MOST), key[GMAC_KEY_SIZE], head[GMAC_HEAD], tags[3][GMAC_TAG];
    struct gmac g;
    for (size_t i = 0; i < MOST; i++)
        body[i] = (uint8_t)next_random(&draws);
    for (size_t round = 0; round < 1000; round++) {
        size_t size = round < 900 ? (uint64_t)round : next_random(&draws) % MOST;
        uint64_t counter = round % 3 ? (uint64_t)round : next_random(&draws);
        for (size_t i = 0; i < sizeof key; i++)
            key[i] = (uint8_t)next_random(&draws), head[i] = head[i + 32] = (uint8_t)next_random(&draws);
        for (int way = 0; way < 2; way++) {
            gmac_init(&g, key, way == 1 && gmac_is_fast());
            gmac_tag(&g, counter, head, body + MOST - size, size, tags[way]);
        }
        CHECK(memcmp(tags[0], tags[1], GMAC_TAG) == 0);
        if (crypto.handle) {
            tag_by_library(key, counter, head, body + MOST - size, size, tags[2]);
            CHECK(memcmp(tags[0], tags[2], GMAC_TAG) == 0);
        }
    }
    free(body);
}

/* Four counters share their encryption in portable code. */
static void test_tags_of_counters_in_any_order_are_their_own(void)
{
    uint8_t key[GMAC_KEY_SIZE] = {1}, tags[16][GMAC_TAG], again[GMAC_TAG];
    struct gmac g;
    for (int fast = 0; fast <= gmac_is_fast(); fast++) {
        gmac_init(&g, key, fast);
        for (uint64_t i = 0; i < 16; i++)
            gmac_tag(&g, i, NULL, key, sizeof key, tags[i]);
        for (uint64_t i = 0; i < 16; i++) {
            uint64_t counter = (7 * i + 3) % 16;
            gmac_tag(&g, counter, NULL, key, sizeof key, again);
            for (uint64_t k = 0; k < 16; k++)
                CHECK((memcmp(again, tags[k], sizeof again) == 0) == (k == counter));
        }
    }
}

int main(void)
{
    test_aes_has_the_published_value();
    test_hkdf_has_the_published_values();
    test_gmac_has_the_published_values();
    test_tags_of_counters_in_any_order_are_their_own();
    printf("  tags %s the processor's instructions%s\n", gmac_is_fast() ? "with" : "without",
           libcrypto_open(&crypto) ? "; libcrypto is there" : "");
    if (crypto.handle)
        test_the_library_has_the_published_values();
    test_all_ways_make_the_same_tag();
    libcrypto_close(&crypto);
    return 0;
}
