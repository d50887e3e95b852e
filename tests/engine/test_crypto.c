/* Check sum, hash, HMAC and handshake against published vectors, each other,
 * and garbage. */
#include "check.h"
#include "crc32c.h"
#include "handshake.h"
#include "hmac.h"

#include <string.h>

/* Reproducible "random" bytes (xorshift64*). */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dULL;
}

static void fill(uint8_t *p, size_t n, uint64_t *state)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(next_random(state) >> 56);
}

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

/* ---- CRC-32C ------------------------------------------------------------ */

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

/* ---- SHA-256 and HMAC --------------------------------------------------- */

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

/* ---- Handshake ---------------------------------------------------------- */

static const uint8_t secret[ACP_SECRET_SIZE] = "the secret of this job, 32 bytes";
static const uint8_t other_secret[ACP_SECRET_SIZE] = "another secret";
static const uint8_t job[ACP_JOB_SIZE] = "this job";
static const uint8_t other_job[ACP_JOB_SIZE] = "another job";

static const uint64_t NONCE = 0x0123456789abcdefULL;

static void start(acp_handshake *client, acp_handshake *server)
{
    CHECK(acp_handshake_client(client, secret, job, ACP_ROLE_LINK, 3, 7,
                               NONCE) == ACP_HANDSHAKE_MORE);
    CHECK(acp_handshake_server(server, secret, job, 7) == ACP_HANDSHAKE_MORE);
}

/* Move what `from` has to say in pieces; `frames` follow in the same piece. */
static int carry(acp_handshake *from, acp_handshake *to, size_t piece,
                 const char *frames)
{
    uint8_t bytes[ACP_CHALLENGE_SIZE + 16];
    size_t length = from->out_len, extra = strlen(frames), used;
    memcpy(bytes, from->out, length);
    memcpy(bytes + length, frames, extra);
    from->out_len = 0;
    int result = to->result;
    for (size_t at = 0; at < length;) {
        size_t n = length + extra - at < piece ? length + extra - at : piece;
        result = acp_handshake_feed(to, bytes + at, n, &used);
        CHECK(used <= n);
        at += used;
        CHECK(at <= length);
        if (result < 0)
            break;
    }
    return result;
}

static void test_handshake_succeeds_in_pieces_of_any_size(void)
{
    for (size_t piece = 1; piece <= ACP_CHALLENGE_SIZE + 16; piece++) {
        acp_handshake client, server;
        start(&client, &server);
        CHECK(client.out_len == ACP_HELLO_SIZE && server.out_len == 0);
        CHECK(carry(&client, &server, piece, "") == ACP_HANDSHAKE_MORE);
        CHECK(server.out_len == ACP_CHALLENGE_SIZE && server.peer_role == 0);
        CHECK(carry(&server, &client, piece, "") == ACP_HANDSHAKE_DONE);
        CHECK(client.out_len == ACP_PROOF_SIZE);
        CHECK(carry(&client, &server, piece, "frames") == ACP_HANDSHAKE_DONE);
        CHECK(server.out_len == 0 && server.peer_role == ACP_ROLE_LINK);
        CHECK(server.peer_slot == 3 && server.peer_nonce == NONCE);
        size_t used;
        CHECK(acp_handshake_feed(&server, "frames", 6, &used) ==
              ACP_HANDSHAKE_DONE);
        CHECK(used == 0);
        static const uint8_t wiped[ACP_SECRET_SIZE] = {0};
        CHECK(memcmp(server.secret, wiped, sizeof wiped) == 0);
        CHECK(memcmp(client.secret, wiped, sizeof wiped) == 0);
    }
}

static void test_handshake_serves_members_of_the_rendezvous(void)
{
    acp_handshake client, server;
    acp_handshake_client(&client, secret, job, ACP_ROLE_MEMBER, ACP_NO_SLOT,
                         ACP_NO_SLOT, 0);
    acp_handshake_server(&server, secret, job, ACP_NO_SLOT);
    CHECK(carry(&client, &server, 1000, "") == ACP_HANDSHAKE_MORE);
    CHECK(carry(&server, &client, 1000, "") == ACP_HANDSHAKE_DONE);
    CHECK(carry(&client, &server, 1000, "") == ACP_HANDSHAKE_DONE);
    CHECK(server.peer_role == ACP_ROLE_MEMBER);
    CHECK(server.peer_slot == ACP_NO_SLOT);
}

static void test_two_handshakes_have_no_nonce_in_common(void)
{
    acp_handshake client, again, server;
    start(&client, &server);
    start(&again, &server);
    CHECK(memcmp(client.hello + 40, again.hello + 40, 32) != 0);
}

static void test_neither_side_accepts_another_secret(void)
{
    acp_handshake client, server;
    start(&client, &server); /* the client notices first */
    acp_handshake_server(&server, other_secret, job, 7);
    CHECK(carry(&client, &server, 1000, "") == ACP_HANDSHAKE_MORE);
    CHECK(carry(&server, &client, 1000, "") == ACP_HANDSHAKE_BAD_MAC);
    CHECK(client.out_len == 0);

    start(&client, &server); /* a client that goes on regardless */
    carry(&client, &server, 1000, "");
    carry(&server, &client, 1000, "");
    client.out[ACP_PROOF_SIZE - 1] ^= 1;
    CHECK(carry(&client, &server, 1000, "") == ACP_HANDSHAKE_BAD_MAC);
    CHECK(server.peer_role == 0 && server.peer_slot == 0);
}

/* Refusals reach both sides under the same name. */
static void check_refusal(acp_handshake *client, acp_handshake *server,
                          int reason)
{
    CHECK(carry(client, server, 1, "") == reason);
    CHECK(server->out_len == ACP_CHALLENGE_SIZE);
    CHECK(carry(server, client, 1, "") == reason);
    CHECK(client->out_len == 0);
}

static void test_refusals_name_their_reason_at_both_sides(void)
{
    acp_handshake client, server;
    start(&client, &server);
    acp_handshake_server(&server, secret, other_job, 7);
    check_refusal(&client, &server, ACP_HANDSHAKE_BAD_JOB);

    start(&client, &server);
    acp_handshake_server(&server, secret, job, 8);
    check_refusal(&client, &server, ACP_HANDSHAKE_WRONG_SLOT);

    start(&client, &server);
    acp_handshake_server(&server, secret, job, ACP_NO_SLOT);
    check_refusal(&client, &server, ACP_HANDSHAKE_BAD_ROLE);

    start(&client, &server);
    client.out[4]++;
    check_refusal(&client, &server, ACP_HANDSHAKE_BAD_VERSION);

    for (int result = ACP_HANDSHAKE_NO_RANDOM - 1; result <= 1; result++)
        CHECK(strlen(acp_handshake_error(result)) > 10);
}

static void test_a_refusal_needs_the_secret_too(void)
{
    acp_handshake client, server;
    start(&client, &server);
    carry(&client, &server, 1000, "");
    server.out[5] = -ACP_HANDSHAKE_WRONG_SLOT; /* forged on the way */
    CHECK(carry(&server, &client, 1000, "") == ACP_HANDSHAKE_BAD_MAC);
}

static void test_garbage_ends_at_the_first_wrong_byte(void)
{
    for (int good = 0; good < 4; good++) {
        acp_handshake client, server;
        start(&client, &server);
        size_t used;
        CHECK(acp_handshake_feed(&server, "ACPH", (size_t)good, &used) ==
              ACP_HANDSHAKE_MORE);
        CHECK(acp_handshake_feed(&server, "\r", 1, &used) ==
              ACP_HANDSHAKE_BAD_MAGIC);
        CHECK(server.out_len == 0);
        CHECK(acp_handshake_feed(&client, "ACPC", (size_t)good, &used) ==
              ACP_HANDSHAKE_MORE);
        CHECK(acp_handshake_feed(&client, "\r", 1, &used) ==
              ACP_HANDSHAKE_BAD_MAGIC);
    }
}

static void test_every_flipped_bit_is_refused(void)
{
    for (int message = 0; message < 3; message++) {
        for (size_t bit = 0;; bit++) {
            acp_handshake client, server;
            acp_handshake *from = message == 1 ? &server : &client;
            acp_handshake *to = message == 1 ? &client : &server;
            start(&client, &server);
            if (message > 0)
                carry(&client, &server, 1000, "");
            if (message > 1)
                carry(&server, &client, 1000, "");
            if (bit == 8 * from->out_len)
                break;
            int pad = message == 2 && bit >= 32 && bit < 64; /* no meaning */
            from->out[bit / 8] ^= (uint8_t)(1 << bit % 8);
            int result = carry(from, to, 1000, "");
            if (result == ACP_HANDSHAKE_MORE) /* a HELLO that looks sound */
                result = carry(to, from, 1000, "");
            CHECK(pad ? result == ACP_HANDSHAKE_DONE : result < 0);
        }
    }
}

static void test_garbage_never_passes_and_never_harms(void)
{
    uint64_t seed = 20240229;
    for (int round = 0; round < 100000; round++) {
        acp_handshake client, server;
        start(&client, &server);
        acp_handshake *to = round & 1 ? &client : &server;
        const acp_handshake *like = round & 1 ? &server : &client;
        uint8_t bytes[256];
        fill(bytes, sizeof bytes, &seed);
        size_t sound = 0; /* so much of the start is as it should be */
        if (round & 1)
            carry(&client, &server, 1000, "");
        if (round & 2) {
            sound = next_random(&seed) % ACP_HELLO_SIZE;
            memcpy(bytes, like->out, sound);
        }
        for (size_t at = 0; at < sizeof bytes;) {
            size_t n = 1 + next_random(&seed) % 100, used;
            if (n > sizeof bytes - at)
                n = sizeof bytes - at;
            int result = acp_handshake_feed(to, bytes + at, n, &used);
            CHECK(result != ACP_HANDSHAKE_DONE && used <= n);
            CHECK(result != ACP_HANDSHAKE_MORE || used == n);
            at += n;
        }
        CHECK(to->result < 0 && to->peer_role == 0);
    }
}

int main(void)
{
    test_crc_has_the_published_values();
    test_crc_at_every_size_start_and_split();
    test_sha256_has_the_published_values();
    test_hmac_has_the_values_of_rfc_4231();
    test_equality_sees_every_bit();
    test_handshake_succeeds_in_pieces_of_any_size();
    test_handshake_serves_members_of_the_rendezvous();
    test_two_handshakes_have_no_nonce_in_common();
    test_neither_side_accepts_another_secret();
    test_refusals_name_their_reason_at_both_sides();
    test_a_refusal_needs_the_secret_too();
    test_garbage_ends_at_the_first_wrong_byte();
    test_every_flipped_bit_is_refused();
    test_garbage_never_passes_and_never_harms();
    return 0;
}
