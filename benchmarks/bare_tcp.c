/* The least that two processes on two hosts pay for TCP: an answered request, and a stream from
 * memory to memory. All return 0 or an errno. */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define LOOK_ON_NS 20000 /* a server looks so long for more to do, as the engine's (core.h) */
#define MESSAGE_MOST 4096

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int send_whole(int fd, const char *from, size_t size)
{
    while (size) {
        ssize_t n = send(fd, from, size, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return errno;
        from += n > 0 ? n : 0;
        size -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Takes what has come; `*have` grows. EPIPE: the other side has closed. */
static int take(int fd, char *to, size_t most, size_t *have)
{
    ssize_t n = recv(fd, to + *have, most - *have, MSG_DONTWAIT);
    if (n > 0)
        *have += (size_t)n;
    return n == 0 ? EPIPE : n < 0 && errno != EAGAIN && errno != EINTR ? errno : 0;
}

static int watch(int fd, int *set)
{
    struct epoll_event event = {.events = EPOLLIN};
    *set = epoll_create1(EPOLL_CLOEXEC);
    return *set < 0 || epoll_ctl(*set, EPOLL_CTL_ADD, fd, &event) ? errno : 0;
}

/* Looks for that long, then sleeps, until the socket has brought `size` bytes. A server does not
 * yield: on a core that computes it would get its turn back at the next tick of the scheduler. */
static int await(int fd, int set, char *to, size_t size, int64_t patience, bool yields)
{
    int64_t start = now();
    size_t have = 0;
    bool asleep = false;
    for (uint32_t round = 0;; round++) {
        struct epoll_event event;
        if (asleep && epoll_wait(set, &event, 1, -1) < 0 && errno != EINTR)
            return errno;
        int error = take(fd, to, size, &have);
        if (error || have == size)
            return error;
        if (yields && (round & 15) == 15)
            sched_yield();
        if ((round & 7) == 7)
            asleep |= now() - start > patience;
    }
}

/* Adds to `ns` what the round trips took; `patience`: ns of looking before it sleeps. */
int tcp_ask(int fd, uint32_t size, uint32_t answer, int64_t patience, long count, int64_t *ns)
{
    char request[MESSAGE_MOST] = {0}, back[MESSAGE_MOST];
    int set, error = size > MESSAGE_MOST || answer > MESSAGE_MOST ? EMSGSIZE : watch(fd, &set);
    if (error)
        return error;
    int64_t start = now();
    while (count-- && !error)
        if (!(error = send_whole(fd, request, size)))
            error = await(fd, set, back, answer, patience, true);
    *ns += now() - start;
    close(set);
    return error;
}

/* Answers until the other side closes. */
int tcp_serve(int fd, uint32_t size, uint32_t answer)
{
    char request[MESSAGE_MOST], back[MESSAGE_MOST] = {0};
    int set, error = size > MESSAGE_MOST || answer > MESSAGE_MOST ? EMSGSIZE : watch(fd, &set);
    if (error)
        return error;
    while (!error)
        if (!(error = await(fd, set, request, size, LOOK_ON_NS, false)))
            error = send_whole(fd, back, answer);
    close(set);
    return error == EPIPE ? 0 : error;
}

/* Sends memory in pieces and waits until all has arrived; adds to `ns` what that took. */
int tcp_pour(int fd, const char *from, size_t size, size_t piece, int64_t *ns)
{
    char arrived;
    int64_t start = now();
    for (size_t at = 0; at < size; at += piece) {
        int error = send_whole(fd, from + at, size - at < piece ? size - at : piece);
        if (error)
            return error;
    }
    ssize_t n = recv(fd, &arrived, 1, 0);
    *ns += now() - start;
    return n == 1 ? 0 : n < 0 ? errno : EPIPE;
}

/* Takes that many bytes into memory and says so, until the other side closes. */
int tcp_fill(int fd, char *to, size_t size, size_t piece)
{
    for (;;) {
        for (size_t at = 0; at < size;) {
            ssize_t n = recv(fd, to + at, size - at < piece ? size - at : piece, 0);
            if (n == 0)
                return at ? EPIPE : 0;
            if (n < 0 && errno != EINTR)
                return errno;
            at += n > 0 ? (size_t)n : 0;
        }
        int error = send_whole(fd, to, 1);
        if (error)
            return error;
    }
}
