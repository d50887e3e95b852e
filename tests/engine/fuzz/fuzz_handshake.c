/* What arrives in place of a handshake. The files of corpus/handshake hold what a server or a
 * client is sent in one certain opening: its random numbers are set here, so that the one valid
 * sequence of bytes is known and nothing else may pass. */
#include "opening.h"
#include "fuzz.h"
#include "transport/handshake.h"

#define MOST 512
#define PAD_FROM (ACP_HELLO_SIZE + 4) /* 4 bytes of PROOF mean nothing */

/* Feeds pieces of any size, each in memory of just its size; the result. */
static int feed(acp_handshake *hs, const unsigned char *bytes, size_t size, size_t *taken)
{
    int result = hs->result;
    *taken = 0;
    for (size_t at = 0; at < size;) {
        size_t n = 1 + fuzz_below(fuzz_below(2) ? size - at : 7), used = MOST;
        n = n < size - at ? n : size - at;
        unsigned char *piece = malloc(n);
        CHECK(piece);
        memcpy(piece, bytes + at, n);
        result = acp_handshake_feed(hs, piece, n, &used);
        free(piece);
        CHECK(used <= n && hs->out_len <= sizeof hs->out);
        CHECK(result != ACP_HANDSHAKE_MORE || used == n);
        CHECK(result == hs->result);
        *taken += used;
        at += used;
        if (result != ACP_HANDSHAKE_MORE)
            break;
    }
    return result;
}

static void run(bool server, const unsigned char *bytes, size_t size, bool expected)
{
    static const unsigned char wiped[ACP_SECRET_SIZE];
    acp_handshake *hs = malloc(sizeof *hs);
    size_t taken, used;
    CHECK(hs);
    if (server)
        opening_server(hs);
    else
        opening_client(hs);
    int result = feed(hs, bytes, size, &taken);
    CHECK((result == ACP_HANDSHAKE_DONE) == expected);
    CHECK(result >= ACP_HANDSHAKE_BAD_LINKS && result <= ACP_HANDSHAKE_DONE);
    CHECK(result != ACP_HANDSHAKE_MORE || taken < ACP_HELLO_SIZE + ACP_PROOF_SIZE);
    if (result != ACP_HANDSHAKE_DONE)
        CHECK(hs->peer_role == 0 && hs->peer_slot == 0 && hs->peer_nonce == 0);
    if (result != ACP_HANDSHAKE_MORE) {
        CHECK(memcmp(hs->secret, wiped, sizeof wiped) == 0);
        CHECK(acp_handshake_feed(hs, bytes, size, &used) == result && used == 0);
    }
    acp_handshake_cancel(hs);
    free(hs);
}

/* Is it the one opening that is valid? */
static bool valid(bool server, const unsigned char *bytes, size_t size)
{
    unsigned char good[OPENING_MOST];
    size_t n = opening_bytes(server, good);
    if (size < n)
        return false;
    if (server)
        memcpy(good + PAD_FROM, bytes + PAD_FROM, 4);
    return memcmp(good, bytes, n) == 0;
}

int main(void)
{
    unsigned char bytes[MOST];
    fuzz_begin("handshake", 20000);
    fuzz_corpus("handshake");
    for (size_t i = 0; i < fuzz.count; i++) {
        const struct fuzz_entry *entry = &fuzz.entries[i];
        bool server = strncmp(entry->name, "server-", 7) == 0;
        CHECK(server || strncmp(entry->name, "client-", 7) == 0);
        fuzz_start_round(i);
        run(server, entry->data, entry->size, strstr(entry->name, "-good") != NULL);
    }
    fuzz.round = UINT64_MAX;
    while (fuzz_more()) {
        const struct fuzz_entry *entry = fuzz_pick();
        bool server = (strncmp(entry->name, "server-", 7) == 0) != (fuzz_below(8) == 0);
        size_t size = entry->size < MOST ? entry->size : MOST;
        memcpy(bytes, entry->data, size);
        size = fuzz_mutate(bytes, size, MOST);
        run(server, bytes, size, valid(server, bytes, size));
    }
    return fuzz_end();
}
