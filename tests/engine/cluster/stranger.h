/* A peer made of a bare socket: it says whatever a test wants to engines that know only links.
 * The job has engines in its first slots and strangers, each with a listener, in the rest. */
#ifndef ACP_TESTS_STRANGER_H
#define ACP_TESTS_STRANGER_H

#include "support/check.h"
#include "core/engine_state.h"
#include "transport/frame.h"
#include "transport/handshake.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define RESIDENTS 2u
#define STRANGERS 24u
#define PATIENCE_S 60 /* an engine that has not answered by then hangs */

static const uint8_t stranger_secret[32] = "the secret of this job, 32 bytes";
static const uint8_t stranger_job[16] = "this job";

struct town {
    acp_engine *engines[RESIDENTS];
    struct row rows[RESIDENTS + STRANGERS];
    int listeners[RESIDENTS + STRANGERS]; /* of the strangers */
};

struct stranger {
    int fd;
    uint32_t slot;
    uint64_t said, heard; /* frames with a number */
    unsigned char in[FRAME_HEAD + FRAME_PAYLOAD_MOST + FRAME_SUM];
};

static inline void stranger_patience(int fd)
{
    int on = 1;
    struct timeval patience = {.tv_sec = PATIENCE_S};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
}

static inline uint16_t stranger_listen(int *listener)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    stranger_patience(fd);
    *listener = fd;
    return at.sin_port;
}

static inline void town_start(struct town *t, uint64_t peer_timeout_ns)
{
    for (uint32_t i = 0; i < RESIDENTS; i++) {
        acp_config config = {.node = 1 + i, .memory_limit = 64 << 20, .starter_size = 10240,
                             .span = 1ull << 30, .path = ACP_PATH_LINK,
                             .peer_timeout_ns = peer_timeout_ns};
        acp_fault fault;
        memcpy(config.secret, stranger_secret, sizeof config.secret);
        memcpy(config.job, stranger_job, sizeof config.job);
        CHECK(acp_engine_create(&config, &t->engines[i], &fault) == ACP_OK);
        t->rows[i] = t->engines[i]->row;
    }
    for (uint32_t i = RESIDENTS; i < RESIDENTS + STRANGERS; i++)
        t->rows[i] = (struct row){.nonce = 1000 + i, .node = 100 + i,
                                  .port = stranger_listen(&t->listeners[i])};
    for (uint32_t i = 0; i < RESIDENTS; i++) {
        CHECK(acp_table_add(t->engines[i], 0, (const uint8_t *)t->rows, RESIDENTS + STRANGERS) ==
              ACP_OK);
        CHECK(acp_engine_join(t->engines[i], RESIDENTS + STRANGERS, i) == ACP_OK);
    }
}

static inline void town_stop(struct town *t)
{
    for (uint32_t i = RESIDENTS; i < RESIDENTS + STRANGERS; i++)
        close(t->listeners[i]);
    for (uint32_t i = 0; i < RESIDENTS; i++)
        acp_engine_close(t->engines[i]);
    for (uint32_t i = 0; i < RESIDENTS; i++)
        acp_engine_free(t->engines[i]);
}

static inline void stranger_leave(struct stranger *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

static inline void stranger_call(struct town *t, struct stranger *s, uint32_t slot, uint32_t whom)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = t->rows[whom].port};
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    s->slot = slot;
    s->said = s->heard = 0;
    CHECK(s->fd >= 0);
    stranger_patience(s->fd);
    CHECK(connect(s->fd, (struct sockaddr *)&at, sizeof at) == 0);
}

/* Takes a call of an engine, who will have to wait for it. */
static inline void stranger_accept(struct town *t, struct stranger *s, uint32_t slot)
{
    s->fd = accept(t->listeners[slot], NULL, NULL);
    s->slot = slot;
    s->said = s->heard = 0;
    CHECK(s->fd >= 0);
    stranger_patience(s->fd);
}

/* False: the engine has ended the stream. */
static inline bool stranger_send(struct stranger *s, const void *bytes, size_t size)
{
    ssize_t n = send(s->fd, bytes, size, MSG_NOSIGNAL);
    CHECK(n >= 0 || errno == EPIPE || errno == ECONNRESET);
    return n == (ssize_t)size;
}

static inline bool stranger_receive(struct stranger *s, void *to, size_t size)
{
    ssize_t n = size ? recv(s->fd, to, size, MSG_WAITALL) : 0;
    CHECK(n >= 0 || errno == ECONNRESET);
    return n == (ssize_t)size;
}

/* The engine has nothing more to say and ends the stream. */
static inline void stranger_sees_the_end(struct stranger *s)
{
    ssize_t n;
    do
        n = recv(s->fd, s->in, sizeof s->in, 0);
    while (n > 0);
    CHECK(n == 0 || errno == ECONNRESET);
    stranger_leave(s);
}

static inline void stranger_out(struct stranger *s, acp_handshake *hs)
{
    stranger_send(s, hs->out, hs->out_len);
    hs->out_len = 0;
}

/* The handshake as the one who calls, with a secret; what came of it at this side. */
static inline int stranger_prove(struct town *t, struct stranger *s, uint32_t whom,
                                 const uint8_t *secret)
{
    acp_handshake hs;
    uint8_t challenge[ACP_CHALLENGE_SIZE];
    size_t used;
    uint64_t nonce = s->slot == ACP_NO_SLOT ? 0 : t->rows[s->slot].nonce;
    CHECK(acp_handshake_client(&hs, secret, stranger_job, ACP_ROLE_LINK, s->slot, whom, nonce, 0) ==
          ACP_HANDSHAKE_MORE);
    stranger_out(s, &hs);
    CHECK(stranger_receive(s, challenge, sizeof challenge));
    int result = acp_handshake_feed(&hs, challenge, sizeof challenge, &used);
    stranger_out(s, &hs);
    return result;
}

/* The handshake as the one who was called; false: the engine has left. */
static inline bool stranger_let_prove(struct stranger *s)
{
    acp_handshake hs;
    uint8_t in[ACP_HELLO_SIZE];
    size_t used;
    acp_handshake_server(&hs, stranger_secret, stranger_job, s->slot, ACP_LINKS_CRC);
    if (!stranger_receive(s, in, ACP_HELLO_SIZE))
        return false;
    CHECK(acp_handshake_feed(&hs, in, ACP_HELLO_SIZE, &used) == ACP_HANDSHAKE_MORE);
    stranger_out(s, &hs);
    if (!stranger_receive(s, in, ACP_PROOF_SIZE))
        return false;
    return acp_handshake_feed(&hs, in, ACP_PROOF_SIZE, &used) == ACP_HANDSHAKE_DONE;
}

static inline bool stranger_say(struct stranger *s, const struct message *m, uint64_t ack,
                                const void *payload, uint32_t size)
{
    unsigned char frame[FRAME_HEAD + FRAME_PAYLOAD_MOST + FRAME_SUM];
    frame_write(frame, m, s->said, ack, payload, size);
    s->said += frame_numbered(m->kind);
    return stranger_send(s, frame, frame_bytes(size));
}

/* The next frame of the engine, which must be sound; false: the stream has ended. The losses that
 * an engine tells whoever comes are left out: those of the strangers of earlier tests. */
static inline bool stranger_hear(struct stranger *s, struct frame *f)
{
    do {
        if (!stranger_receive(s, s->in, FRAME_HEAD) ||
            !stranger_receive(s, s->in + FRAME_HEAD, frame_size(s->in) - FRAME_HEAD))
            return false;
        CHECK(frame_read(s->in, sizeof s->in, s->heard, f) == FRAME_WHOLE);
        s->heard += frame_numbered(f->message.kind);
    } while (f->message.kind == ACP_LOST);
    return true;
}

/* Says which link the stream is for and hears what the engine has of it. */
static inline bool stranger_session(struct stranger *s, uint64_t id, bool fresh, uint64_t received,
                                    struct message *answer)
{
    struct message m = {.kind = ACP_SESSION, .flags = fresh, .id = id, .a = received};
    struct frame f;
    if (!stranger_say(s, &m, 0, NULL, 0) || !stranger_hear(s, &f))
        return false;
    CHECK(f.message.kind == ACP_SESSION);
    *answer = f.message;
    return true;
}

static inline acp_ga_t stranger_word(uint32_t rank)
{
    return acp_ga(rank, 0, STARTER_OFFSET + 64);
}

static inline uint64_t stranger_look(struct town *t, uint32_t rank)
{
    void *address;
    CHECK(acp_query_address(acp_engine_lane(t->engines[rank]), stranger_word(rank), 8, &address) ==
          ACP_OK);
    return __atomic_load_n((uint64_t *)address, __ATOMIC_ACQUIRE);
}

/* The other engine still has its commands run by `rank`. */
static inline void town_check_served(struct town *t, uint32_t rank)
{
    acp_engine *e = t->engines[1 - rank];
    static uint64_t old[RESIDENTS]; /* stays until the operation is done */
    acp_handle_t pending;
    acp_failure failure;
    uint64_t more;
    CHECK(acp_fetch(acp_engine_lane(e), ACP_ADD8, acp_ga(rank, 0, STARTER_OFFSET + 4096), 1, 0,
                    &old[rank], &pending) == ACP_OK);
    CHECK(acp_wait(e, pending, (int64_t)PATIENCE_S * 1000000000) == ACP_OK);
    CHECK(acp_failures_take(e, pending, true, &failure, 1, &more) == 0);
}

static inline struct message stranger_add_to(uint32_t rank)
{
    return (struct message){.kind = ACP_ADD8, .id = 2, .a = 1, .src = stranger_word(rank)};
}

/* Adds to the word of rank 0; what that is now. */
static inline uint64_t stranger_adds(struct stranger *s)
{
    struct message m = stranger_add_to(0);
    struct frame f;
    CHECK(stranger_say(s, &m, s->heard, NULL, 0));
    do
        CHECK(stranger_hear(s, &f));
    while (f.message.kind != ACP_REPLY);
    CHECK(f.message.status == ACP_OK);
    return f.message.a + 1;
}

static inline void stranger_enter(struct town *t, struct stranger *s, uint32_t slot)
{
    stranger_call(t, s, slot, 0);
    CHECK(stranger_prove(t, s, 0, stranger_secret) == ACP_HANDSHAKE_DONE);
}

#endif
