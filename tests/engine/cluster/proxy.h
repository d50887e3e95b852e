/* A bad network: a TCP relay in front of one engine that cuts connections, flips bits, or
 * stops relaying, as the test says while it runs. */
#ifndef ACP_TESTS_PROXY_H
#define ACP_TESTS_PROXY_H

#include "support/check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PROXY_PAIRS 64
#define PROXY_AT_JOB 24 /* of a handshake's first message: the begin of the job's name */
#define PROXY_BYTES 4096

struct proxy_way { /* of a connection, one direction */
    unsigned char data[PROXY_BYTES];
    size_t from, to;
};

struct proxy {
    _Atomic uint64_t cut_mean;  /* bytes between two cuts; 0: none */
    _Atomic uint64_t flip_mean; /* bytes between two flipped bits; 0: none */
    _Atomic bool stalled;       /* nothing is relayed, nothing is closed */
    _Atomic uint64_t stall_at;  /* once so many bytes are relayed it stalls by itself; 0: never */
    _Atomic uint64_t hold_at;   /* a connection stalls that has carried so many bytes; 0: none does */
    _Atomic uint32_t holds;     /* connections that stall */
    _Atomic bool cut_all;       /* once: all connections that there are */
    _Atomic bool half_cut;      /* once: of each the side of who was called */
    _Atomic bool stop;
    _Atomic uint32_t spoiled_hellos; /* connections to come, whose caller names another job */
    _Atomic uint64_t cuts, flips, relayed;
    uint16_t port, target; /* network order */
    int listener;
    int sides[PROXY_PAIRS][2], deaf[PROXY_PAIRS]; /* `deaf`: who is on the other side has gone */
    uint64_t carried[PROXY_PAIRS]; /* bytes, both ways */
    bool fresh[PROXY_PAIRS]; /* its caller has said nothing yet */
    struct proxy_way ways[PROXY_PAIRS][2]; /* [0]: from side 0 to side 1 */
    uint64_t until_cut, until_flip, seed;
    pthread_t thread;
};

static inline uint64_t proxy_random(struct proxy *x)
{
    x->seed ^= x->seed << 13;
    x->seed ^= x->seed >> 7;
    x->seed ^= x->seed << 17;
    return x->seed;
}

static inline void proxy_close(struct proxy *x, int pair)
{
    struct linger hard = {1, 0};
    for (int side = 0; side < 2; side++) {
        if (proxy_random(x) % 2) /* sometimes a reset, sometimes an orderly end */
            setsockopt(x->sides[pair][side], SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        close(x->sides[pair][side]);
        x->sides[pair][side] = -1;
    }
    memset(x->ways[pair], 0, sizeof x->ways[pair]);
}

static inline void proxy_cut(struct proxy *x)
{
    for (int pair = 0; pair < PROXY_PAIRS && (x->cut_all || x->half_cut); pair++) {
        if (x->sides[pair][0] < 0)
            continue;
        if (x->half_cut) {
            x->deaf[pair] = dup(x->sides[pair][0]);
            CHECK(x->deaf[pair] >= 0);
        }
        proxy_close(x, pair);
    }
    x->cut_all = x->half_cut = false;
}

static inline void proxy_accept(struct proxy *x)
{
    int on = 1, fd = accept4(x->listener, NULL, NULL, SOCK_CLOEXEC);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = x->target,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), pair = 0;
    while (pair < PROXY_PAIRS && x->sides[pair][0] >= 0)
        pair++;
    if (fd < 0 || pair == PROXY_PAIRS || connect(out, (struct sockaddr *)&to, sizeof to)) {
        if (fd >= 0)
            close(fd);
        close(out);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(out, F_SETFL, O_NONBLOCK);
    x->sides[pair][0] = fd;
    x->sides[pair][1] = out;
    x->fresh[pair] = true;
    x->carried[pair] = 0;
}

static inline bool proxy_holds(const struct proxy *x, int pair)
{
    return x->hold_at && x->carried[pair] >= x->hold_at;
}

static inline void proxy_spoil(struct proxy *x, int pair, unsigned char *data, size_t size)
{
    uint64_t mean = x->flip_mean;
    if (mean && x->until_flip < size) {
        data[x->until_flip] ^= (unsigned char)(1u << (proxy_random(x) % 8));
        x->until_flip = proxy_random(x) % (2 * mean);
        x->flips++;
    } else if (mean) {
        x->until_flip -= size;
    }
    mean = x->cut_mean;
    if (mean && x->until_cut < size) {
        x->until_cut = proxy_random(x) % (2 * mean);
        x->cuts++;
        proxy_close(x, pair);
    } else if (mean) {
        x->until_cut -= size;
    }
}

/* Moves what there is from one side to the other. */
static inline void proxy_relay(struct proxy *x, int pair, int from)
{
    struct proxy_way *way = &x->ways[pair][from];
    if (way->from == way->to) {
        ssize_t n = recv(x->sides[pair][from], way->data, sizeof way->data, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            proxy_close(x, pair);
            return;
        }
        way->from = 0;
        way->to = n > 0 ? (size_t)n : 0;
        x->relayed += way->to;
        x->carried[pair] += way->to;
        x->stalled |= x->stall_at && x->relayed >= x->stall_at;
        if (from == 0 && n > 0 && x->fresh[pair] && x->spoiled_hellos) {
            CHECK(n > PROXY_AT_JOB);
            way->data[PROXY_AT_JOB] ^= 1;
            x->spoiled_hellos--;
        }
        x->fresh[pair] = x->fresh[pair] && (from || n <= 0);
        if (n > 0)
            proxy_spoil(x, pair, way->data, (size_t)n);
    }
    if (x->sides[pair][0] < 0 || way->from == way->to)
        return;
    ssize_t n = send(x->sides[pair][!from], way->data + way->from, way->to - way->from,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        way->from += (size_t)n;
    else if (n < 0 && errno != EAGAIN)
        proxy_close(x, pair);
}

static void *proxy_main(void *argument)
{
    struct proxy *x = argument;
    while (!x->stop) {
        struct pollfd fds[1 + 2 * PROXY_PAIRS];
        int pairs[2 * PROXY_PAIRS];
        nfds_t count = 1;
        uint32_t holds = 0;
        fds[0] = (struct pollfd){.fd = x->listener, .events = POLLIN};
        for (int pair = 0; pair < PROXY_PAIRS && !x->stalled; pair++) {
            bool held = x->sides[pair][0] >= 0 && proxy_holds(x, pair);
            holds += held;
            for (int side = 0; side < 2 && x->sides[pair][0] >= 0 && !held; side++) {
                bool full = x->ways[pair][side].from < x->ways[pair][side].to;
                bool waits = x->ways[pair][!side].from < x->ways[pair][!side].to;
                pairs[count - 1] = 2 * pair + side;
                fds[count++] = (struct pollfd){
                    .fd = x->sides[pair][side],
                    .events = (short)((full ? 0 : POLLIN) | (waits ? POLLOUT : 0))};
            }
        }
        x->holds = holds;
        poll(fds, count, 5);
        proxy_cut(x);
        if (x->stalled)
            continue;
        if (fds[0].revents)
            proxy_accept(x);
        for (nfds_t i = 1; i < count; i++) { /* one that was cut meanwhile is not there any more */
            int pair = pairs[i - 1] / 2, side = pairs[i - 1] % 2;
            if (fds[i].revents && x->sides[pair][0] >= 0)
                proxy_relay(x, pair, side);
            if (fds[i].revents && x->sides[pair][0] >= 0)
                proxy_relay(x, pair, !side);
        }
    }
    return NULL;
}

static inline void proxies_stall(struct proxy *proxies, uint32_t count, bool on)
{
    for (uint32_t i = 0; i < count; i++) {
        proxies[i].stall_at = 0;
        proxies[i].stalled = on;
    }
}

/* When one of them has relayed so many bytes more, in the middle of a long transfer, whoever gets a processor. */
static inline void proxies_stall_after(struct proxy *proxies, uint32_t count, uint64_t bytes)
{
    for (uint32_t i = 0; i < count; i++)
        proxies[i].stall_at = proxies[i].relayed + bytes;
}

static inline void proxy_start(struct proxy *x, uint16_t target, uint64_t seed)
{
    struct sockaddr_in s = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof s;
    memset(x, 0, sizeof *x);
    memset(x->sides, -1, sizeof x->sides);
    memset(x->deaf, -1, sizeof x->deaf);
    x->target = target;
    x->seed = seed * 0x9e3779b97f4a7c15u + 1;
    x->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(x->listener, (struct sockaddr *)&s, size) == 0 && listen(x->listener, 64) == 0);
    CHECK(getsockname(x->listener, (struct sockaddr *)&s, &size) == 0);
    x->port = s.sin_port;
    CHECK(pthread_create(&x->thread, NULL, proxy_main, x) == 0);
}

static inline void proxy_stop(struct proxy *x)
{
    x->stop = true;
    pthread_join(x->thread, NULL);
    for (int pair = 0; pair < PROXY_PAIRS; pair++)
        if (x->sides[pair][0] >= 0)
            proxy_close(x, pair);
    for (int pair = 0; pair < PROXY_PAIRS; pair++)
        if (x->deaf[pair] >= 0)
            close(x->deaf[pair]);
    close(x->listener);
}

#endif
