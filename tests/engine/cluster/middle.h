/* A man in the middle: a relay in front of one engine that knows frames, and attacks one in so many of them, at most one
 * of each connection. It has no secret; sums it can make. */
#ifndef ACP_TESTS_MIDDLE_H
#define ACP_TESTS_MIDDLE_H

#include "support/check.h"
#include "support/draws.h"
#include "transport/frame.h"
#include "transport/handshake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MIDDLE_PAIRS 64
#define MIDDLE_KEPT 24u             /* first frames of a connection that are kept, each way */
#define MIDDLE_FRAME ((size_t)1024) /* the largest of these */
#define MIDDLE_BUFFER (8 * FRAME_MOST)

enum middle_attack {
    MIDDLE_NONE,
    MIDDLE_CHANGE,  /* a bit of it */
    MIDDLE_DROP,
    MIDDLE_REPEAT,
    MIDDLE_SWAP,    /* with the next one */
    MIDDLE_REFLECT, /* that number of the other direction in its place */
    MIDDLE_SPLICE,  /* that number of another connection */
    MIDDLE_OLD,     /* that number of an earlier connection */
    MIDDLE_ATTACKS,
};

struct middle_frames {
    size_t size[MIDDLE_KEPT]; /* 0: not kept */
    unsigned char bytes[MIDDLE_KEPT][MIDDLE_FRAME];
};

struct middle_way { /* of a connection, one direction */
    unsigned char *in, *out;
    size_t in_size, out_begin, out_size;
    size_t opening; /* bytes of the handshake to come */
    uint64_t number;
    struct middle_frames *kept;
};

struct middle {
    _Atomic uint32_t attack;
    _Atomic uint32_t mean; /* frames between two attacks */
    _Atomic uint32_t left; /* attacks to come */
    _Atomic uint64_t attacks, ends; /* frames attacked, and connections with one that an engine has ended */
    _Atomic bool stop;
    _Atomic bool cut; /* once: connections without an attacked frame */
    uint16_t port, target; /* network order */
    int listener;
    uint64_t until, draws;
    int sides[MIDDLE_PAIRS][2];
    bool attacked[MIDDLE_PAIRS];
    struct middle_way ways[MIDDLE_PAIRS][2]; /* [0]: from side 0, which called */
    struct middle_frames old[2];
    pthread_t thread;
};

static struct middle *middle_all[8]; /* relays, which take turns */
static pthread_mutex_t middle_turn = PTHREAD_MUTEX_INITIALIZER;

static inline void middle_close(struct middle *x, int pair)
{
    x->ends += x->attacked[pair];
    for (int side = 0; side < 2; side++) {
        struct middle_way *way = &x->ways[pair][side];
        close(x->sides[pair][side]);
        x->sides[pair][side] = -1;
        if (way->number > 2)
            x->old[side] = *way->kept;
        free(way->in);
        free(way->out);
        free(way->kept);
    }
}

static inline void middle_accept(struct middle *x)
{
    static const size_t openings[] = {ACP_HELLO_SIZE + ACP_PROOF_SIZE, ACP_CHALLENGE_SIZE};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = x->target,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, pair = 0;
    while (pair < MIDDLE_PAIRS && x->sides[pair][0] >= 0)
        pair++;
    CHECK(pair < MIDDLE_PAIRS);
    x->sides[pair][0] = accept4(x->listener, NULL, NULL, SOCK_CLOEXEC);
    x->sides[pair][1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(x->sides[pair][0] >= 0);
    if (connect(x->sides[pair][1], (struct sockaddr *)&to, sizeof to)) { /* that engine has closed */
        for (int side = 0; side < 2; side++) {
            close(x->sides[pair][side]);
            x->sides[pair][side] = -1;
        }
        return;
    }
    x->attacked[pair] = false;
    for (int side = 0; side < 2; side++) {
        setsockopt(x->sides[pair][side], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        x->ways[pair][side] = (struct middle_way){.in = malloc(MIDDLE_BUFFER), .out = malloc(2 * MIDDLE_BUFFER),
                                                  .opening = openings[side],
                                                  .kept = calloc(1, sizeof(struct middle_frames))};
    }
}

static inline void middle_put(struct middle_way *way, const unsigned char *bytes, size_t size)
{
    memmove(way->out, way->out + way->out_begin, way->out_size);
    way->out_begin = 0;
    CHECK(way->out_size + size <= 2 * MIDDLE_BUFFER);
    memcpy(way->out + way->out_size, bytes, size);
    way->out_size += size;
}

/* The frames of which number `number` is to stand in for this one. */
static inline const struct middle_frames *middle_others(struct middle *x, int pair, int side, uint32_t attack)
{
    if (attack == MIDDLE_REFLECT)
        return x->ways[pair][!side].kept;
    for (int i = 0; attack == MIDDLE_SPLICE && i < 8 * MIDDLE_PAIRS; i++) {
        struct middle *y = middle_all[i / MIDDLE_PAIRS];
        int other = i % MIDDLE_PAIRS;
        if (y && (y != x || other != pair) && y->sides[other][0] >= 0 &&
            y->ways[other][side].number > x->ways[pair][side].number)
            return y->ways[other][side].kept;
    }
    return attack == MIDDLE_OLD ? &x->old[side] : NULL;
}

/* Attacks the frame at the begin of the input; how many bytes of that are done with, 0: it cannot, now. */
static inline size_t middle_strike(struct middle *x, int pair, int side, size_t size)
{
    struct middle_way *way = &x->ways[pair][side];
    uint32_t attack = x->attack;
    unsigned char *frame = way->in;
    const struct middle_frames *others = middle_others(x, pair, side, attack);
    if (attack == MIDDLE_CHANGE) {
        size_t bit = 8 * FRAME_CLEAR + next_random(&x->draws) % (8 * (size - FRAME_CLEAR));
        frame[bit / 8] ^= (unsigned char)(1u << bit % 8);
        frame_head_close(frame, way->number);
        middle_put(way, frame, size);
    } else if (attack == MIDDLE_REPEAT) {
        middle_put(way, frame, size);
        middle_put(way, frame, size);
    } else if (attack == MIDDLE_SWAP) {
        size_t next = way->in_size >= size + FRAME_HEAD ? frame_sealed_size(frame + size) : way->in_size;
        if (way->in_size < size + next)
            return 0;
        middle_put(way, frame + size, next);
        middle_put(way, frame, size);
        size += next;
    } else if (others) {
        size_t found = way->number < MIDDLE_KEPT ? others->size[way->number] : 0;
        if (!found || (found == size && !memcmp(others->bytes[way->number], frame, size)))
            return 0;
        middle_put(way, others->bytes[way->number], found);
    } else if (attack != MIDDLE_DROP) {
        return 0;
    }
    x->attacks++;
    x->left--;
    x->attacked[pair] = true;
    return size;
}

/* Moves whole frames on. */
static inline void middle_frames_on(struct middle *x, int pair, int side)
{
    struct middle_way *way = &x->ways[pair][side];
    while (way->in_size && way->out_size + 2 * FRAME_MOST < MIDDLE_BUFFER) {
        size_t size = way->opening < way->in_size ? way->opening : way->in_size, done = 0;
        bool opening = way->opening > 0;
        if (opening)
            way->opening -= size;
        else if (way->in_size >= FRAME_HEAD)
            size = frame_sealed_size(way->in);
        if (!opening && (way->in_size < FRAME_HEAD || way->in_size < size))
            return;
        if (!opening && way->number < MIDDLE_KEPT && size <= MIDDLE_FRAME) {
            memcpy(way->kept->bytes[way->number], way->in, size);
            way->kept->size[way->number] = size;
        }
        if (!opening && x->attack && x->left && !x->attacked[pair] && (x->until ? --x->until : 0) == 0)
            done = middle_strike(x, pair, side, size);
        if (done)
            x->until = 1 + next_random(&x->draws) % (2 * x->mean);
        else
            middle_put(way, way->in, done = size);
        way->number += !opening;
        memmove(way->in, way->in + done, way->in_size -= done);
    }
}

/* False: that side has ended. */
static inline bool middle_relay(struct middle *x, int pair, int side)
{
    struct middle_way *way = &x->ways[pair][side];
    ssize_t n = recv(x->sides[pair][side], way->in + way->in_size, MIDDLE_BUFFER - way->in_size, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN))
        return false;
    way->in_size += n > 0 ? (size_t)n : 0;
    middle_frames_on(x, pair, side);
    if (way->out_size) {
        n = send(x->sides[pair][!side], way->out + way->out_begin, way->out_size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        way->out_begin += n > 0 ? (size_t)n : 0;
        way->out_size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

static void *middle_main(void *argument)
{
    struct middle *x = argument;
    while (!x->stop) {
        struct pollfd fds[1 + 2 * MIDDLE_PAIRS];
        nfds_t count = 1;
        fds[0] = (struct pollfd){.fd = x->listener, .events = POLLIN};
        for (int pair = 0; pair < MIDDLE_PAIRS; pair++)
            for (int side = 0; side < 2 && x->sides[pair][0] >= 0; side++)
                fds[count++] = (struct pollfd){
                    .fd = x->sides[pair][side],
                    .events = (short)((x->ways[pair][side].in_size < MIDDLE_BUFFER ? POLLIN : 0) |
                                      (x->ways[pair][!side].out_size ? POLLOUT : 0))};
        poll(fds, count, 5);
        pthread_mutex_lock(&middle_turn);
        if (fds[0].revents)
            middle_accept(x);
        for (int pair = 0; pair < MIDDLE_PAIRS && x->cut; pair++)
            if (x->sides[pair][0] >= 0 && !x->attacked[pair])
                middle_close(x, pair);
        x->cut = false;
        for (int pair = 0; pair < MIDDLE_PAIRS; pair++)
            if (x->sides[pair][0] >= 0 && (!middle_relay(x, pair, 0) || !middle_relay(x, pair, 1)))
                middle_close(x, pair);
        pthread_mutex_unlock(&middle_turn);
    }
    return NULL;
}

static inline void middle_start(struct middle *x, uint16_t target, uint64_t seed)
{
    struct sockaddr_in s = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof s;
    memset(x, 0, sizeof *x);
    memset(x->sides, -1, sizeof x->sides);
    x->target = target;
    x->draws = seed * 0x9e3779b97f4a7c15u + 1;
    x->mean = 1;
    x->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(x->listener, (struct sockaddr *)&s, size) == 0 && listen(x->listener, 64) == 0);
    CHECK(getsockname(x->listener, (struct sockaddr *)&s, &size) == 0);
    x->port = s.sin_port;
    pthread_mutex_lock(&middle_turn);
    for (int i = 0; i < 8; i++) {
        if (!middle_all[i]) {
            middle_all[i] = x;
            break;
        }
    }
    pthread_mutex_unlock(&middle_turn);
    CHECK(pthread_create(&x->thread, NULL, middle_main, x) == 0);
}

static inline void middle_stop(struct middle *x)
{
    x->stop = true;
    pthread_join(x->thread, NULL);
    for (int pair = 0; pair < MIDDLE_PAIRS; pair++)
        if (x->sides[pair][0] >= 0)
            middle_close(x, pair);
    pthread_mutex_lock(&middle_turn);
    for (int i = 0; i < 8; i++)
        middle_all[i] = middle_all[i] == x ? NULL : middle_all[i];
    pthread_mutex_unlock(&middle_turn);
    close(x->listener);
}

#endif
