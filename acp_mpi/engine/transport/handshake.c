/* The state machine: each side gathers one message of a known size and magic
 * at a time, judges it, and either answers and awaits the next or ends. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* getrandom, explicit_bzero */
#endif
#include "transport/handshake.h"
#include "base/sha256.h"
#include "core/engine.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

enum {
    MAGIC_SIZE = 4,
    NONCE_SIZE = 32,
    AT_VERSION = 4, AT_OLDEST = 6, /* in HELLO and CHALLENGE, in all versions to come */
    AT_LINKS = 7,
    /* HELLO */
    AT_ROLE = 5, AT_CLIENT_SLOT = 8, AT_WANTED_SLOT = 12, AT_PROCESS_NONCE = 16,
    AT_JOB = 24, AT_CLIENT_NONCE = 40,
    /* CHALLENGE */
    AT_STATUS = 5, AT_SERVER_SLOT = 8, AT_SERVER_NONCE = 12, AT_SERVER_MAC = 44,
    /* PROOF */
    AT_CLIENT_MAC = 8,
};

enum { HELLO, CHALLENGE, PROOF };

static const struct {
    char magic[MAGIC_SIZE + 1];
    size_t size;
} message[] = {
    [HELLO] = {"ACPH", ACP_HELLO_SIZE},
    [CHALLENGE] = {"ACPC", ACP_CHALLENGE_SIZE},
    [PROOF] = {"ACPP", ACP_PROOF_SIZE},
};

static uint8_t *part_place(acp_handshake *hs, int which)
{
    return which == HELLO ? hs->hello : which == CHALLENGE ? hs->challenge : hs->proof;
}

static void store_le(uint8_t *p, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t load_le(const uint8_t *p, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)p[i] << 8 * i;
    return value;
}

static bool fill_random(uint8_t *p, size_t n)
{
    ssize_t got;
    /* up to 256 bytes come whole or, when a signal arrives early in the
     * system's life, not at all */
    while ((got = getrandom(p, n, 0)) < 0 && errno == EINTR)
        ;
    return got == (ssize_t)n;
}

/* The two sides' labels differ, so that no proof can be sent back as the
 * other's. HELLO and CHALLENGE have fixed sizes: nothing to delimit. */
static void make_mac(const acp_handshake *hs, const char *label, size_t of_challenge,
                     uint8_t out[ACP_SHA256_SIZE])
{
    acp_hmac_state state;
    acp_hmac_init(&state, hs->secret, sizeof hs->secret);
    acp_hmac_update(&state, label, strlen(label));
    acp_hmac_update(&state, hs->hello, sizeof hs->hello);
    acp_hmac_update(&state, hs->challenge, of_challenge);
    acp_hmac_final(&state, out);
}

static void server_mac(const acp_handshake *hs, uint8_t out[ACP_SHA256_SIZE])
{
    make_mac(hs, "acp server", AT_SERVER_MAC, out);
}

static void client_mac(const acp_handshake *hs, uint8_t out[ACP_SHA256_SIZE])
{
    make_mac(hs, "acp client", ACP_CHALLENGE_SIZE, out);
}

/* Keys of both directions. */
static void make_keys(acp_handshake *hs, const uint8_t server[ACP_SHA256_SIZE], const uint8_t client[ACP_SHA256_SIZE])
{
    static const char label[] = "acp frames";
    uint8_t salt[2 * NONCE_SIZE], info[sizeof label - 1 + 2 * ACP_SHA256_SIZE], keys[2][ACP_LINK_KEY_SIZE];
    if (hs->links == ACP_LINKS_CRC)
        return;
    memcpy(salt, hs->hello + AT_CLIENT_NONCE, NONCE_SIZE);
    memcpy(salt + NONCE_SIZE, hs->challenge + AT_SERVER_NONCE, NONCE_SIZE);
    memcpy(info, label, sizeof label - 1);
    memcpy(info + sizeof label - 1, server, ACP_SHA256_SIZE);
    memcpy(info + sizeof label - 1 + ACP_SHA256_SIZE, client, ACP_SHA256_SIZE);
    acp_hkdf(salt, sizeof salt, hs->secret, sizeof hs->secret, info, sizeof info, keys[0], sizeof keys);
    memcpy(hs->out_key, keys[hs->serves], sizeof hs->out_key);
    memcpy(hs->in_key, keys[!hs->serves], sizeof hs->in_key);
    explicit_bzero(keys, sizeof keys);
}

/* An empty message of one's own, to be filled in and sent. */
static uint8_t *part_compose(acp_handshake *hs, int which)
{
    uint8_t *p = part_place(hs, which);
    memset(p, 0, message[which].size);
    memcpy(p, message[which].magic, MAGIC_SIZE);
    if (which != PROOF) {
        p[AT_VERSION] = ACP_HANDSHAKE_VERSION;
        p[AT_OLDEST] = ACP_HANDSHAKE_OLDEST;
        p[AT_LINKS] = hs->links;
    }
    return p;
}

static void send_message(acp_handshake *hs, int which)
{
    hs->out_len = message[which].size;
    memcpy(hs->out, part_place(hs, which), hs->out_len);
}

static int part_await(acp_handshake *hs, int which)
{
    hs->awaited = which;
    hs->in_len = 0;
    return ACP_HANDSHAKE_MORE;
}

static int handshake_end(acp_handshake *hs, int result)
{
    explicit_bzero(hs->secret, sizeof hs->secret);
    return hs->result = result;
}

/* ---- Server ------------------------------------------------------------- */

/* A client is told a slot and given a MAC only if it knows the job; any other (the secret differs, as the job's name
 * is made from it) still learns the reason, so that its user reads more than "connection closed". */
static int answer_hello(acp_handshake *hs, int verdict)
{
    uint8_t *challenge = part_compose(hs, CHALLENGE);
    challenge[AT_STATUS] = (uint8_t)-verdict;
    if (verdict != ACP_HANDSHAKE_BAD_VERSION && verdict != ACP_HANDSHAKE_BAD_JOB) {
        store_le(challenge + AT_SERVER_SLOT, hs->slot, 4);
        if (!fill_random(challenge + AT_SERVER_NONCE, NONCE_SIZE))
            return handshake_end(hs, ACP_HANDSHAKE_NO_RANDOM);
        server_mac(hs, challenge + AT_SERVER_MAC);
    }
    send_message(hs, CHALLENGE);
    return verdict < 0 ? handshake_end(hs, verdict) : part_await(hs, PROOF);
}

static int judge_hello(acp_handshake *hs)
{
    const uint8_t *hello = hs->hello;
    acp_role served = hs->slot == ACP_NO_SLOT ? ACP_ROLE_MEMBER : ACP_ROLE_LINK;
    if (memcmp(hello + AT_JOB, hs->job, sizeof hs->job) != 0)
        return ACP_HANDSHAKE_BAD_JOB;
    if (hello[AT_ROLE] != served)
        return ACP_HANDSHAKE_BAD_ROLE;
    if (load_le(hello + AT_WANTED_SLOT, 4) != hs->slot)
        return ACP_HANDSHAKE_WRONG_SLOT;
    hs->peer_links = hello[AT_LINKS];
    if (hs->rises && hs->peer_links == ACP_LINKS_MAC && hs->links == ACP_LINKS_CRC)
        hs->links = ACP_LINKS_MAC;
    return hs->peer_links && hs->peer_links != hs->links ? ACP_HANDSHAKE_BAD_LINKS : 0;
}

static int judge_proof(acp_handshake *hs)
{
    uint8_t mac[ACP_SHA256_SIZE];
    client_mac(hs, mac);
    hs->peer_links = hs->links;
    if (!acp_equal_ct(mac, hs->proof + AT_CLIENT_MAC, sizeof mac))
        return handshake_end(hs, ACP_HANDSHAKE_BAD_MAC);
    hs->peer_role = hs->hello[AT_ROLE];
    hs->peer_slot = (uint32_t)load_le(hs->hello + AT_CLIENT_SLOT, 4);
    hs->peer_nonce = load_le(hs->hello + AT_PROCESS_NONCE, 8);
    make_keys(hs, hs->challenge + AT_SERVER_MAC, mac);
    return handshake_end(hs, ACP_HANDSHAKE_DONE);
}

/* ---- Client ------------------------------------------------------------- */

static int judge_challenge(acp_handshake *hs)
{
    const uint8_t *challenge = hs->challenge;
    int status = challenge[AT_STATUS];
    /* These come without a MAC: there is no secret or no format in common. Believing a forged one costs no more than
     * the cut its forger could make. */
    if (status == -ACP_HANDSHAKE_BAD_JOB || status == -ACP_HANDSHAKE_BAD_VERSION)
        return handshake_end(hs, -status);
    uint8_t mac[ACP_SHA256_SIZE];
    server_mac(hs, mac);
    if (!acp_equal_ct(mac, challenge + AT_SERVER_MAC, sizeof mac))
        return handshake_end(hs, ACP_HANDSHAKE_BAD_MAC);
    if (status == -ACP_HANDSHAKE_BAD_ROLE || status == -ACP_HANDSHAKE_WRONG_SLOT)
        return handshake_end(hs, -status);
    hs->peer_links = challenge[AT_LINKS];
    if (status == -ACP_HANDSHAKE_BAD_LINKS)
        return handshake_end(hs, -status);
    if (status != 0 || hs->peer_links < ACP_LINKS_CRC || hs->peer_links > ACP_LINKS_ENCRYPT)
        return handshake_end(hs, ACP_HANDSHAKE_REFUSED);
    if (load_le(challenge + AT_SERVER_SLOT, 4) != hs->slot)
        return handshake_end(hs, ACP_HANDSHAKE_WRONG_SLOT);
    if (hs->links && hs->links != hs->peer_links)
        return handshake_end(hs, ACP_HANDSHAKE_BAD_LINKS);
    hs->links = hs->peer_links;
    uint8_t *own = part_compose(hs, PROOF) + AT_CLIENT_MAC;
    client_mac(hs, own);
    make_keys(hs, mac, own);
    send_message(hs, PROOF);
    return handshake_end(hs, ACP_HANDSHAKE_DONE);
}

/* ---- Both --------------------------------------------------------------- */

static void side_begin(acp_handshake *hs, const uint8_t *secret, const uint8_t *job,
                       uint32_t slot, uint8_t links)
{
    memset(hs, 0, sizeof *hs);
    memcpy(hs->secret, secret, sizeof hs->secret);
    memcpy(hs->job, job, sizeof hs->job);
    hs->slot = slot;
    hs->links = links;
}

int acp_handshake_client(acp_handshake *hs, const uint8_t secret[ACP_SECRET_SIZE],
                         const uint8_t job[ACP_JOB_SIZE], acp_role role,
                         uint32_t slot, uint32_t want, uint64_t process_nonce, uint8_t links)
{
    side_begin(hs, secret, job, want, links);
    uint8_t *hello = part_compose(hs, HELLO);
    hello[AT_ROLE] = (uint8_t)role;
    store_le(hello + AT_CLIENT_SLOT, slot, 4);
    store_le(hello + AT_WANTED_SLOT, want, 4);
    store_le(hello + AT_PROCESS_NONCE, process_nonce, 8);
    memcpy(hello + AT_JOB, job, sizeof hs->job);
    if (!fill_random(hello + AT_CLIENT_NONCE, NONCE_SIZE))
        return handshake_end(hs, ACP_HANDSHAKE_NO_RANDOM);
    send_message(hs, HELLO);
    return part_await(hs, CHALLENGE);
}

int acp_handshake_server(acp_handshake *hs, const uint8_t secret[ACP_SECRET_SIZE],
                         const uint8_t job[ACP_JOB_SIZE], uint32_t slot, uint8_t links)
{
    side_begin(hs, secret, job, slot, links);
    hs->serves = true;
    return part_await(hs, HELLO);
}

/* Judge the bytes of the awaited message so far. */
static int judge(acp_handshake *hs)
{
    const uint8_t *in = part_place(hs, hs->awaited);
    size_t magic = hs->in_len < MAGIC_SIZE ? hs->in_len : MAGIC_SIZE;
    if (memcmp(in, message[hs->awaited].magic, magic) != 0)
        return handshake_end(hs, ACP_HANDSHAKE_BAD_MAGIC);
    /* a message of another version may have another size: no waiting for it */
    if (hs->awaited != PROOF &&
        ((hs->in_len > AT_VERSION && in[AT_VERSION] < ACP_HANDSHAKE_OLDEST) ||
         (hs->in_len > AT_OLDEST && in[AT_OLDEST] > ACP_HANDSHAKE_VERSION)))
        return hs->awaited == HELLO ? answer_hello(hs, ACP_HANDSHAKE_BAD_VERSION)
                                    : handshake_end(hs, ACP_HANDSHAKE_BAD_VERSION);
    if (hs->in_len < message[hs->awaited].size)
        return ACP_HANDSHAKE_MORE;
    switch (hs->awaited) {
    case HELLO: return answer_hello(hs, judge_hello(hs));
    case CHALLENGE: return judge_challenge(hs);
    default: return judge_proof(hs);
    }
}

int acp_handshake_feed(acp_handshake *hs, const void *data, size_t n, size_t *used)
{
    const uint8_t *from = data;
    *used = 0;
    while (hs->result == ACP_HANDSHAKE_MORE && *used < n) {
        size_t room = message[hs->awaited].size - hs->in_len;
        size_t take = n - *used < room ? n - *used : room;
        memcpy(part_place(hs, hs->awaited) + hs->in_len, from + *used, take);
        hs->in_len += take;
        *used += take;
        judge(hs);
    }
    return hs->result;
}

size_t acp_handshake_wants(const acp_handshake *hs)
{
    if (hs->result != ACP_HANDSHAKE_MORE)
        return 0;
    return hs->in_len <= AT_OLDEST ? 1 : message[hs->awaited].size - hs->in_len;
}

void acp_handshake_cancel(acp_handshake *hs)
{
    explicit_bzero(hs, sizeof *hs);
    hs->result = ACP_HANDSHAKE_REFUSED;
}

const char *acp_handshake_error(int result)
{
    static const char *const meaning[] = {
        "handshake not finished",
        "the other side is no ACP process",
        "the other side has another version of acp_mpi",
        "the other side belongs to another job or has another secret",
        "a rank was taken for the rendezvous or the reverse",
        "another rank answers at this address",
        "the other side does not know the job's secret",
        "the other side refused",
        "no random numbers from the system (getrandom)",
        "the other side protects its links in another way: set ACP_LINKS alike for all processes of the job",
    };
    if (result == ACP_HANDSHAKE_DONE)
        return "handshake done";
    return result <= 0 && result >= ACP_HANDSHAKE_BAD_LINKS ? meaning[-result]
                                                            : "unknown handshake error";
}
