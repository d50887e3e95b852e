/* Check sum, hash and HMAC against published vectors, and each other. */
#include "support/check.h"
#include "support/draws.h"
#include "base/crc32c.h"
#include "base/crc32c_copy.h"
#include "base/sha256.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static int is_hex(const uint8_t *p, const char *hex)
{
    for (; *hex; hex += 2, p++) {
        char text[3];
        snprintf(text, sizeof text, "%02x", (unsigned)*p);
        if (memcmp(text, hex, 2) != 0)
            return 0;
    }
    return 1;
}

static void check_crc(uint32_t expected, const void *data, size_t n)
{
    CHECK(acp_crc32c(0, data, n) == expected);
    CHECK(acp_crc32c_portable(0, data, n) == expected);
}

static void test_crc_has_the_published_values(void)
{
    uint8_t up[32], down[32], zeros[32] = {0}, ones[32];
    for (int i = 0; i < 32; i++)
        up[i] = (uint8_t)i, down[i] = (uint8_t)(31 - i), ones[i] = 0xff;
    check_crc(0x00000000, NULL, 0);
    check_crc(0xe3069283, "123456789", 9);
    check_crc(0x8a9136aa, zeros, 32); /* RFC 3720, appendix B.4 */
    check_crc(0x62a8ab43, ones, 32);
    check_crc(0x46dd794e, up, 32);
    check_crc(0x113fdb5c, down, 32);
    static const uint8_t iscsi_read[48] = {
        0x01, 0xc0, 0, 0, 0, 0, 0,    0,    0,    0,    0, 0,    0,    0, 0,
        0,    0x14, 0, 0, 0, 0, 0,    0x04, 0,    0,    0, 0,    0x14, 0, 0,
        0,    0x18, 0x28, 0, 0, 0, 0, 0,    0,    0,    0x02};
    check_crc(0xd9963a56, iscsi_read, 48);
}

/* One bit at a time, as the polynomial is defined. */
static uint32_t crc_by_bits(const uint8_t *p, size_t n)
{
    uint32_t crc = ~0u;
    for (; n; n--, p++) {
        crc ^= *p;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void test_crc_at_every_size_start_and_split(void)
{
    enum { SIZE = 8000, START = 16 };
    static uint8_t data[SIZE + START];
    uint64_t seed = 1;
    fill(data, sizeof data, &seed);
    for (size_t n = 0; n <= SIZE; n = n < 1000 ? n + 1 : n + 97)
        check_crc(crc_by_bits(data, n), data, n);
    for (size_t start = 0; start < START; start++) {
        check_crc(crc_by_bits(data + start, SIZE), data + start, SIZE);
        check_crc(crc_by_bits(data + start, 777), data + start, 777);
    }
    uint32_t whole = acp_crc32c(0, data, SIZE);
    for (size_t cut = 0; cut <= SIZE; cut++) {
        uint32_t crc = acp_crc32c(acp_crc32c(0, data, cut), data + cut,
                                  SIZE - cut);
        CHECK(crc == whole);
    }
    for (size_t cut = 0; cut <= SIZE; cut += 61) {
        uint32_t crc = acp_crc32c_portable(0, data, cut);
        CHECK(acp_crc32c_portable(crc, data + cut, SIZE - cut) == whole);
    }
}

/* Every byte arrives, no byte beside is touched, and the sum is that of the bytes. */
static void check_copy(uint32_t seed, const uint8_t *from, size_t start, size_t n)
{
    enum { SIZE = 8000, BESIDE = 64 };
    static uint8_t to[SIZE + 2 * BESIDE], untouched[SIZE + 2 * BESIDE];
    memset(untouched, 0x5a, sizeof untouched);
    CHECK(n <= SIZE && start <= BESIDE);
    for (int past = 0; past < 2; past++) {
        memset(to, 0x5a, sizeof to);
        uint32_t crc = (past ? acp_crc32c_stream : acp_crc32c_copy)(seed, to + start, from, n);
        CHECK(crc == acp_crc32c_portable(seed, from, n));
        CHECK(memcmp(to + start, from, n) == 0);
        CHECK(memcmp(to, untouched, start) == 0);
        CHECK(memcmp(to + start + n, untouched, sizeof to - start - n) == 0);
    }
}

static void test_a_copy_is_summed_at_every_size_and_start(void)
{
    enum { SIZE = 7000, START = 40 };
    static uint8_t data[SIZE + START];
    uint64_t seed = 2;
    fill(data, sizeof data, &seed);
    for (size_t n = 0; n <= SIZE; n = n < 1000 ? n + 1 : n + 61)
        check_copy((uint32_t)(n * 0x9e3779b9u), data, n % 33, n);
    for (size_t start = 0; start < START; start++)
        check_copy(~0u, data + start, START - start, SIZE);
}

enum { RESTLESS = 2048 };
static uint8_t restless[RESTLESS];
static _Atomic bool enough;

/* That others read it meanwhile is what is tested. */
__attribute__((no_sanitize("thread"))) static void *keep_changing(void *unused)
{
    for (uint64_t i = 0; !enough; i += sizeof(uint64_t)) {
        volatile uint64_t *word = (volatile uint64_t *)(void *)(restless + i % RESTLESS);
        *word = i * 0x9e3779b97f4a7c15u;
    }
    return unused;
}

/* A frame whose sum is not that of its bytes would be sent again and again, and refused each time. */
static void test_what_changes_while_it_is_copied_has_the_sum_of_the_copy(void)
{
    enum { COPIES = 100000 };
    static uint8_t to[RESTLESS];
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, keep_changing, NULL) == 0);
    for (int i = 0; i < COPIES; i++) {
        uint32_t crc = (i % 2 ? acp_crc32c_stream : acp_crc32c_copy)(0, to, restless, RESTLESS - (size_t)(i % 200));
        CHECK(crc == acp_crc32c_portable(0, to, RESTLESS - (size_t)(i % 200)));
    }
    enough = true;
    CHECK(pthread_join(thread, NULL) == 0);
}

static void check_sha(const char *text, const char *hex)
{
    uint8_t digest[ACP_SHA256_SIZE];
    acp_sha256(text, strlen(text), digest);
    CHECK(is_hex(digest, hex));
}

static void test_sha256_has_the_published_values(void)
{
    check_sha("", "e3b0c44298fc1c149afbf4c8996fb924"
                  "27ae41e4649b934ca495991b7852b855");
    check_sha("abc", "ba7816bf8f01cfea414140de5dae2223"
                     "b00361a396177a9cb410ff61f20015ad");
    check_sha("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
              "248d6a61d20638b8e5c026930c3e6039"
              "a33ce45964ff2167f6ecedd419db06c1");
    check_sha("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
              "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
              "cf5b16a778af8380036ce59e7b049237"
              "0b249b11e8f07a51afac45037afee9d1");

    acp_sha256_state state;
    uint8_t digest[ACP_SHA256_SIZE];
    char piece[1000]; /* not a multiple of the block */
    memset(piece, 'a', sizeof piece);
    acp_sha256_init(&state);
    for (int i = 0; i < 1000; i++)
        acp_sha256_update(&state, piece, sizeof piece);
    acp_sha256_final(&state, digest);
    CHECK(is_hex(digest, "cdc76e5c9914fb9281a1c7e284d73e67"
                         "f1809a48a497200e046d39ccc7112cd0"));
}

static void check_hmac(const void *key, size_t keylen, const void *data,
                       size_t n, const char *hex)
{
    uint8_t mac[ACP_SHA256_SIZE], pieces[ACP_SHA256_SIZE];
    acp_hmac(key, keylen, data, n, mac);
    CHECK(is_hex(mac, hex));
    for (size_t cut = 0; cut <= n; cut++) {
        acp_hmac_state state;
        acp_hmac_init(&state, key, keylen);
        acp_hmac_update(&state, data, cut);
        acp_hmac_update(&state, (const uint8_t *)data + cut, n - cut);
        acp_hmac_final(&state, pieces);
        CHECK(acp_equal_ct(mac, pieces, sizeof mac));
    }
}

static void test_hmac_has_the_values_of_rfc_4231(void)
{
    uint8_t key[131], data[50];
    memset(key, 0x0b, 20);
    check_hmac(key, 20, "Hi There", 8,
               "b0344c61d8db38535ca8afceaf0bf12b"
               "881dc200c9833da726e9376c2e32cff7");
    check_hmac("Jefe", 4, "what do ya want for nothing?", 28,
               "5bdcc146bf60754e6a042426089575c7"
               "5a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, 20);
    memset(data, 0xdd, 50);
    check_hmac(key, 20, data, 50,
               "773ea91e36800e46854db8ebd09181a7"
               "2959098b3ef8c122d9635514ced565fe");
    for (int i = 0; i < 25; i++)
        key[i] = (uint8_t)(i + 1);
    memset(data, 0xcd, 50);
    check_hmac(key, 25, data, 50,
               "82558a389a443c0ea4cc819899f2083a"
               "85f0faa3e578f8077a2e3ff46729665b");
    memset(key, 0x0c, 20);
    check_hmac(key, 20, "Test With Truncation", 20,
               "a3b6167473100ee06e0c796c2955552b"); /* 128 bits are given */
    memset(key, 0xaa, 131);
    const char *large_key = "Test Using Larger Than Block-Size Key - Hash Key "
                            "First";
    check_hmac(key, 131, large_key, strlen(large_key),
               "60e431591ee0b67f0d8a26aacbf5b77f"
               "8e0bc6213728c5140546040f0ee37f54");
    const char *large_both =
        "This is a test using a larger than block-size key and a larger than "
        "block-size data. The key needs to be hashed before being used by the "
        "HMAC algorithm.";
    check_hmac(key, 131, large_both, strlen(large_both),
               "9b09ffa71b942fcb27635fbcd5b0e944"
               "bfdc63644f0713938a7f51535c3a35e2");
}

static void test_equality_sees_every_bit(void)
{
    uint8_t a[32] = {0}, b[32] = {0};
    CHECK(acp_equal_ct(a, b, sizeof a));
    CHECK(acp_equal_ct(a, b, 0));
    for (int bit = 0; bit < 256; bit++) {
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(!acp_equal_ct(a, b, sizeof a));
        b[bit / 8] = 0;
    }
}

int main(void)
{
    test_crc_has_the_published_values();
    test_crc_at_every_size_start_and_split();
    test_a_copy_is_summed_at_every_size_and_start();
    test_what_changes_while_it_is_copied_has_the_sum_of_the_copy();
    test_sha256_has_the_published_values();
    test_hmac_has_the_values_of_rfc_4231();
    test_equality_sees_every_bit();
    return 0;
}
