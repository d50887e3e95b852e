/* The handshake, in pieces, between those who know different things, and against garbage. */
#include "support/check.h"
#include "support/draws.h"
#include "core/engine.h"
#include "transport/handshake.h"

#include <string.h>

static const uint8_t secret[ACP_SECRET_SIZE] = "the secret of this job, 32 bytes";
static const uint8_t other_secret[ACP_SECRET_SIZE] = "another secret";
static const uint8_t job[ACP_JOB_SIZE] = "this job";
static const uint8_t other_job[ACP_JOB_SIZE] = "another job";

static const uint64_t NONCE = 0x0123456789abcdefULL;

static void start(acp_handshake *client, acp_handshake *server)
{
    CHECK(acp_handshake_client(client, secret, job, ACP_ROLE_LINK, 3, 7,
                               NONCE, 0) == ACP_HANDSHAKE_MORE);
    CHECK(acp_handshake_server(server, secret, job, 7, ACP_LINKS_CRC) == ACP_HANDSHAKE_MORE);
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
                         ACP_NO_SLOT, 0, 0);
    acp_handshake_server(&server, secret, job, ACP_NO_SLOT, ACP_LINKS_CRC);
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
    acp_handshake_server(&server, other_secret, job, 7, ACP_LINKS_CRC);
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
    acp_handshake_server(&server, secret, other_job, 7, ACP_LINKS_CRC);
    check_refusal(&client, &server, ACP_HANDSHAKE_BAD_JOB);

    start(&client, &server);
    acp_handshake_server(&server, secret, job, 8, ACP_LINKS_CRC);
    check_refusal(&client, &server, ACP_HANDSHAKE_WRONG_SLOT);

    start(&client, &server);
    acp_handshake_server(&server, secret, job, ACP_NO_SLOT, ACP_LINKS_CRC);
    check_refusal(&client, &server, ACP_HANDSHAKE_BAD_ROLE);

    start(&client, &server);
    client.out[4] = ACP_HANDSHAKE_OLDEST - 1; /* an earlier one */
    check_refusal(&client, &server, ACP_HANDSHAKE_BAD_VERSION);

    start(&client, &server);
    client.out[4] = client.out[6] = ACP_HANDSHAKE_VERSION + 1; /* a later one that forgets this one */
    check_refusal(&client, &server, ACP_HANDSHAKE_BAD_VERSION);

    start(&client, &server);
    client.out[4] = client.hello[4] = ACP_HANDSHAKE_VERSION + 1; /* a later one that does not */
    CHECK(carry(&client, &server, 1, "") == ACP_HANDSHAKE_MORE);
    CHECK(carry(&server, &client, 1, "") == ACP_HANDSHAKE_DONE);
    CHECK(carry(&client, &server, 1, "") == ACP_HANDSHAKE_DONE);

    for (int result = ACP_HANDSHAKE_BAD_LINKS - 1; result <= 1; result++)
        CHECK(strlen(acp_handshake_error(result)) > 10);
}

/* What one side sends with the other receives with, and no other key is the same. */
static void test_keys_are_those_of_one_connection_and_direction(void)
{
    acp_handshake sides[2][2];
    for (int i = 0; i < 2; i++) {
        acp_handshake *client = &sides[i][0], *server = &sides[i][1];
        acp_handshake_client(client, secret, job, ACP_ROLE_LINK, 3, 7, NONCE, i ? 0 : ACP_LINKS_MAC);
        acp_handshake_server(server, secret, job, 7, ACP_LINKS_MAC);
        carry(client, server, 1000, "");
        carry(server, client, 1000, "");
        CHECK(carry(client, server, 1000, "") == ACP_HANDSHAKE_DONE);
        CHECK(client->links == ACP_LINKS_MAC && server->links == ACP_LINKS_MAC);
        CHECK(memcmp(client->out_key, server->in_key, sizeof client->out_key) == 0);
        CHECK(memcmp(client->in_key, server->out_key, sizeof client->in_key) == 0);
        CHECK(memcmp(client->in_key, client->out_key, sizeof client->in_key) != 0);
    }
    CHECK(memcmp(sides[0][0].out_key, sides[1][0].out_key, ACP_LINK_KEY_SIZE) != 0);
    CHECK(memcmp(sides[0][0].in_key, sides[1][0].in_key, ACP_LINK_KEY_SIZE) != 0);
    static const uint8_t wiped[ACP_LINK_KEY_SIZE];
    acp_handshake_cancel(&sides[0][0]);
    CHECK(memcmp(sides[0][0].out_key, wiped, sizeof wiped) == 0 && memcmp(sides[0][0].in_key, wiped, sizeof wiped) == 0);
}

static void test_sides_that_protect_frames_in_different_ways_refuse(void)
{
    for (uint8_t one = ACP_LINKS_CRC; one <= ACP_LINKS_ENCRYPT; one++) {
        for (uint8_t other = ACP_LINKS_CRC; other <= ACP_LINKS_ENCRYPT; other++) {
            acp_handshake client, server;
            if (one == other)
                continue;
            acp_handshake_client(&client, secret, job, ACP_ROLE_LINK, 3, 7, NONCE, one);
            acp_handshake_server(&server, secret, job, 7, other);
            check_refusal(&client, &server, ACP_HANDSHAKE_BAD_LINKS);
            CHECK(client.peer_links == other && server.peer_links == one);
        }
    }
}

/* Somebody between them makes both believe that the other one wants sums only. */
static void test_nobody_talks_the_sides_out_of_protection(void)
{
    enum { AT_LINKS = 7 };
    acp_handshake client, server;
    acp_handshake_client(&client, secret, job, ACP_ROLE_LINK, 3, 7, NONCE, ACP_LINKS_MAC);
    acp_handshake_server(&server, secret, job, 7, ACP_LINKS_MAC);
    client.out[AT_LINKS] = 0;
    CHECK(carry(&client, &server, 1000, "") == ACP_HANDSHAKE_MORE);
    CHECK(carry(&server, &client, 1000, "") == ACP_HANDSHAKE_BAD_MAC);
    acp_handshake_client(&client, secret, job, ACP_ROLE_LINK, 3, 7, NONCE, 0);
    acp_handshake_server(&server, secret, job, 7, ACP_LINKS_MAC);
    CHECK(carry(&client, &server, 1000, "") == ACP_HANDSHAKE_MORE);
    server.out[AT_LINKS] = ACP_LINKS_CRC;
    CHECK(carry(&server, &client, 1000, "") == ACP_HANDSHAKE_BAD_MAC);
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
    test_handshake_succeeds_in_pieces_of_any_size();
    test_handshake_serves_members_of_the_rendezvous();
    test_two_handshakes_have_no_nonce_in_common();
    test_neither_side_accepts_another_secret();
    test_refusals_name_their_reason_at_both_sides();
    test_keys_are_those_of_one_connection_and_direction();
    test_sides_that_protect_frames_in_different_ways_refuse();
    test_nobody_talks_the_sides_out_of_protection();
    test_a_refusal_needs_the_secret_too();
    test_garbage_ends_at_the_first_wrong_byte();
    test_every_flipped_bit_is_refused();
    test_garbage_never_passes_and_never_harms();
    return 0;
}
