/* The authenticated opening of every connection of a job: both sides prove
 * that they know the job's secret before the first frame.
 *
 *   HELLO      client -> server   own slot, wanted slot, own nonce
 *   CHALLENGE  server -> client   own nonce, proof over HELLO and itself
 *   PROOF      client -> server   proof over HELLO and CHALLENGE
 *
 * Bytes in, bytes out, no sockets: feed what arrives, send `out`. All numbers
 * are little-endian. Links, the rendezvous, the registry and `macprun status` open their connections so, those in Python
 * by the binding in python/handshake.pxi.
 *
 * It also settles how the frames of the connection are protected (acp_protection), and makes the keys for that: HKDF-SHA-256
 * of the secret, with both nonces as salt, for both proofs. Proofs cover what was said about it, so that nobody between
 * the sides can talk them out of it. */
#ifndef ACP_HANDSHAKE_H
#define ACP_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ACP_HANDSHAKE_VERSION = 3, /* of the protocol */
    ACP_HANDSHAKE_OLDEST = 3,  /* oldest version that is understood, too */
    ACP_SECRET_SIZE = 32,
    ACP_JOB_SIZE = 16,
    ACP_LINK_KEY_SIZE = 32,

    /* HELLO: magic 4 | version 1 | role 1 | oldest version 1 | links 1, 0: any | client slot 4 |
     * wanted slot 4 | process nonce 8 | job 16 | client nonce 32 */
    ACP_HELLO_SIZE = 72,
    /* CHALLENGE: magic 4 | version 1 | status 1 | oldest version 1 | links 1 | server slot 4 |
     * server nonce 32 | mac 32 = HMAC(secret, "acp server" HELLO all before) */
    ACP_CHALLENGE_SIZE = 76,
    /* PROOF: magic 4 | 0 4 | mac 32 = HMAC(secret, "acp client" HELLO CHALLENGE) */
    ACP_PROOF_SIZE = 40,
};

/* The slot of a process without one: the rendezvous, a member before it joined, and an observer, which queries what a
 * rank does. */
#define ACP_NO_SLOT UINT32_MAX

typedef enum acp_role {
    ACP_ROLE_LINK = 1,   /* between two ranks */
    ACP_ROLE_MEMBER = 2, /* from a member to the rendezvous */
} acp_role;

/* Result of feeding. A refusal travels as the CHALLENGE's status, negated. */
typedef enum acp_handshake_result {
    ACP_HANDSHAKE_MORE = 0,
    ACP_HANDSHAKE_DONE = 1,
    ACP_HANDSHAKE_BAD_MAGIC = -1,   /* not of this protocol: no answer */
    ACP_HANDSHAKE_BAD_VERSION = -2,
    ACP_HANDSHAKE_BAD_JOB = -3,     /* another job, or another secret */
    ACP_HANDSHAKE_BAD_ROLE = -4,
    ACP_HANDSHAKE_WRONG_SLOT = -5,  /* an address that another rank has now */
    ACP_HANDSHAKE_BAD_MAC = -6,     /* knows the job but not the secret */
    ACP_HANDSHAKE_REFUSED = -7,     /* for a reason this version does not know */
    ACP_HANDSHAKE_NO_RANDOM = -8,   /* getrandom failed: see errno */
    ACP_HANDSHAKE_BAD_LINKS = -9,   /* the sides protect frames in different ways: peer_links */
} acp_handshake_result;

typedef struct acp_handshake {
    /* To be sent. Set it to 0 once sent; a message never overtakes another,
     * because each side speaks only after having been answered. Both `DONE`
     * and an error may come with a last message to send. */
    size_t out_len;
    uint8_t out[ACP_CHALLENGE_SIZE];

    /* The client, as a server knows it; 0 until the client has proved it. */
    uint8_t peer_role;
    uint32_t peer_slot;
    uint64_t peer_nonce; /* process nonce of the peer's membership row */

    uint8_t links;      /* acp_protection of this side; DONE: of both */
    bool rises;         /* a server that wants sums takes a client that wants codes; set it after the begin */
    uint8_t peer_links; /* of the other side, where they differ */
    /* DONE, unless frames have sums only: of what this side sends, and of what it receives */
    uint8_t out_key[ACP_LINK_KEY_SIZE], in_key[ACP_LINK_KEY_SIZE];

    /* The state machine's own. */
    int result;
    uint32_t slot;           /* of the server, at either side */
    int awaited;             /* the message that comes next */
    bool serves;
    size_t in_len;           /* its bytes so far */
    uint8_t hello[ACP_HELLO_SIZE];
    uint8_t challenge[ACP_CHALLENGE_SIZE];
    uint8_t proof[ACP_PROOF_SIZE];
    uint8_t secret[ACP_SECRET_SIZE]; /* wiped at the end */
    uint8_t job[ACP_JOB_SIZE];
} acp_handshake;

/* Begin as the side that connects; HELLO is in `out`. `want` is the slot that
 * must answer: ACP_NO_SLOT with the role member. `links`: acp_protection, or 0 for
 * what the server wants. Returns MORE or NO_RANDOM. */
int acp_handshake_client(acp_handshake *hs, const uint8_t secret[ACP_SECRET_SIZE],
                         const uint8_t job[ACP_JOB_SIZE], acp_role role,
                         uint32_t slot, uint32_t want, uint64_t process_nonce, uint8_t links);

/* Begin as the side that was connected to. With a slot it serves links, with
 * ACP_NO_SLOT it is the rendezvous and serves members. Returns MORE. */
int acp_handshake_server(acp_handshake *hs, const uint8_t secret[ACP_SECRET_SIZE],
                         const uint8_t job[ACP_JOB_SIZE], uint32_t slot, uint8_t links);

/* Take bytes that arrived; *used of them belonged to the handshake, the rest
 * to the frames that follow. Garbage is refused at its first wrong byte. DONE
 * and errors are final: later calls return the same and take nothing. */
int acp_handshake_feed(acp_handshake *hs, const void *data, size_t n, size_t *used);

/* How many bytes to read next, if more must not be read than belong to the handshake; garbage is still refused at its
 * first wrong byte. 0: it has ended. */
size_t acp_handshake_wants(const acp_handshake *hs);

/* Drop a handshake that will not be finished: wipes the secret and the keys. */
void acp_handshake_cancel(acp_handshake *hs);

/* The meaning of a result, for the user: a constant string. */
const char *acp_handshake_error(int result);

#endif
