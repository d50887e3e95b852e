/* One certain handshake, of slot 3 with slot 7: a linked program's random numbers are those of
 * opening_random (--wrap=getrandom), the same for every handshake of a side. */
#ifndef ACP_TESTS_OPENING_H
#define ACP_TESTS_OPENING_H

#include "support/check.h"
#include "core/engine.h"
#include "transport/handshake.h"

#include <stdbool.h>
#include <string.h>
#include <sys/types.h>

#define OPENING_MOST (ACP_HELLO_SIZE + ACP_CHALLENGE_SIZE)

static const uint8_t opening_secret[ACP_SECRET_SIZE] = "the secret of this job, 32 bytes";
static const uint8_t opening_job[ACP_JOB_SIZE] = "this job";
static unsigned char opening_random;

ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags)
{
    (void)flags;
    memset(to, opening_random, size);
    return (ssize_t)size;
}

static inline void opening_client(acp_handshake *hs)
{
    opening_random = 0xc1;
    CHECK(acp_handshake_client(hs, opening_secret, opening_job, ACP_ROLE_LINK, 3, 7,
                               0x0123456789abcdefull, 0) == ACP_HANDSHAKE_MORE);
    opening_random = 0x5e;
}

static inline void opening_server(acp_handshake *hs)
{
    opening_random = 0x5e;
    CHECK(acp_handshake_server(hs, opening_secret, opening_job, 7, ACP_LINKS_CRC) == ACP_HANDSHAKE_MORE);
}

/* What the server or the client of it is sent; how many bytes. */
static inline size_t opening_bytes(bool to_server, unsigned char *out)
{
    acp_handshake client, server;
    size_t used, n = 0;
    opening_client(&client);
    opening_server(&server);
    if (to_server)
        memcpy(out, client.out, n = client.out_len);
    acp_handshake_feed(&server, client.out, client.out_len, &used);
    if (!to_server)
        memcpy(out, server.out, n = server.out_len);
    acp_handshake_feed(&client, server.out, server.out_len, &used);
    if (to_server) {
        memcpy(out + n, client.out, client.out_len);
        n += client.out_len;
    }
    return n;
}

#endif
