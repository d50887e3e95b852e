/* Who calls at which listener: every one is asked, and the address of a caller is that of its family. */
#include "cluster/cluster.h"
#include "base/linux.h"
#include "progress/progress.h"
#include "transport/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

static int listener(const struct sockaddr *address, socklen_t size)
{
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && (bind(fd, address, size) || listen(fd, 4))) {
        close(fd);
        return -1;
    }
    return fd;
}

static int call(int at)
{
    struct sockaddr_storage to;
    socklen_t size = sizeof to;
    CHECK(getsockname(at, (struct sockaddr *)&to, &size) == 0);
    int low = socket(to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = fcntl(low, F_DUPFD_CLOEXEC, 100);
    CHECK(fd >= 0 && close(low) == 0 && connect(fd, (struct sockaddr *)&to, size) == 0);
    return fd;
}

static void nobody_calls(acp_engine *e)
{
    uint8_t source[ENDPOINT_SOURCE], none[ENDPOINT_SOURCE] = {0};
    bool neighbour = true;
    memset(source, 1, sizeof source);
    CHECK(listen_accept(e, source, &neighbour) == -1 && errno == EAGAIN && !neighbour);
    CHECK(memcmp(source, none, sizeof source) == 0);
}

static void somebody_calls(acp_engine *e, int at, const void *address, size_t size, bool is_neighbour)
{
    uint8_t source[ENDPOINT_SOURCE], expected[ENDPOINT_SOURCE] = {0};
    bool neighbour = !is_neighbour;
    int caller = call(at);
    errno = EINTR; /* of an earlier call */
    int fd = listen_accept(e, source, &neighbour);
    memcpy(expected, address, size);
    CHECK(fd == 0 && neighbour == is_neighbour && memcmp(source, expected, sizeof source) == 0);
    close(fd);
    close(caller);
    nobody_calls(e);
}

int main(void)
{
    struct cluster c;
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    cluster_start(&c, 1, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    while (!progress_leader_try(e))
        sched_yield();
    close(0); /* as a program may have: the next descriptor is that */
    uint32_t used = 0;
    while (used < LISTENERS && e->tcp.listeners[used] >= 0)
        used++;
    nobody_calls(e);
    somebody_calls(e, e->tcp.listeners[0], &four.sin_addr, sizeof four.sin_addr, true);
    for (uint32_t i = used; i < LISTENERS; i++)
        CHECK((e->tcp.listeners[i] = listener((struct sockaddr *)&four, sizeof four)) >= 0);
    nobody_calls(e);
    int first = e->tcp.listeners[used], moved = fcntl(first, F_DUPFD_CLOEXEC, 100);
    CHECK(first == 0 && moved >= 0);
    close(call(first)); /* which is a descriptor as any other */
    uint8_t source[ENDPOINT_SOURCE];
    bool neighbour;
    int fd = listen_accept(e, source, &neighbour);
    CHECK(fd >= 0 && close(fd) == 0 && close(first) == 0);
    e->tcp.listeners[used] = moved;
    for (uint32_t i = used; i < LISTENERS; i++)
        somebody_calls(e, e->tcp.listeners[i], &four.sin_addr, sizeof four.sin_addr, true);
    int last = e->tcp.listeners[LISTENERS - 1], other = listener((struct sockaddr *)&six, sizeof six);
    int six_at = other >= 0 ? fcntl(other, F_DUPFD_CLOEXEC, 100) : -1;
    linux_shut(&other);
    other = six_at;
    if (other >= 0) { /* a system may have none of this family */
        e->tcp.listeners[LISTENERS - 1] = other;
        somebody_calls(e, other, &six.sin6_addr, sizeof six.sin6_addr, false);
        e->tcp.listeners[LISTENERS - 1] = last;
        close(other);
    }
    for (uint32_t i = used; i < LISTENERS; i++) {
        close(e->tcp.listeners[i]);
        e->tcp.listeners[i] = -1;
    }
    progress_leader_release(e);
    cluster_stop(&c);
    return 0;
}
