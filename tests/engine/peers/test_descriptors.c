/* A process that has no descriptor left learns nothing of its peers by that: who lives is not dead, who dies
 * is, and what could not be opened is when there are some again. */
#include "cluster/mailing.h"
#include "support/crash.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "peers/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

static struct rlimit before;

static void leave_none(void)
{
    struct rlimit none;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = 3;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
}

static void leave_some(void)
{
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
}

static void an_engine_may_have_as_many_as_the_system_lets_it(void)
{
    struct cluster c;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    struct rlimit few = {.rlim_cur = before.rlim_max / 2, .rlim_max = before.rlim_max};
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    cluster_start(&c, 1, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    CHECK(getrlimit(RLIMIT_NOFILE, &few) == 0 && few.rlim_cur == before.rlim_max);
    cluster_stop(&c);
    leave_some();
}

static uint32_t until_zero; /* so many descriptors: the last of them gets number 0 */

static int numbered(long fd)
{
    if (fd < 0 || !until_zero || --until_zero)
        return (int)fd;
    CHECK(dup3((int)fd, 0, O_CLOEXEC) == 0 && close((int)fd) == 0);
    return 0;
}

int memfd_create(const char *name, unsigned flags)
{
    return numbered(syscall(SYS_memfd_create, name, flags));
}

int epoll_create1(int flags)
{
    return numbered(syscall(SYS_epoll_create1, flags));
}

int eventfd(unsigned first, int flags)
{
    return numbered(syscall(SYS_eventfd2, first, flags));
}

int timerfd_create(int clock, int flags)
{
    return numbered(syscall(SYS_timerfd_create, clock, flags));
}

int socket(int domain, int type, int protocol)
{
    return numbered(syscall(SYS_socket, domain, type, protocol));
}

/* As in a process without standard input: whichever it opens may be number 0. */
static void an_engine_opens_by_any_number(void)
{
    int input = fcntl(0, F_DUPFD_CLOEXEC, 100);
    uint32_t which = 0;
    CHECK(input >= 0);
    do {
        struct cluster c;
        CHECK(dup2(input, 0) == 0); /* taken, but for that one */
        until_zero = ++which;
        cluster_start(&c, 1, 1, ACP_PATH_ANY, CLUSTER_SHARED);
        cluster_stop(&c);
    } while (!until_zero);
    CHECK(which > 6);
    until_zero = 0;
    CHECK(dup2(input, 0) == 0 && close(input) == 0);
}

static void an_engine_says_that_there_is_no_number_left(void)
{
    const struct rlimit none = {3, 3};
    acp_config config = {.node = 1, .memory_limit = 256 << 20, .starter_size = 10240, .span = 1ull << 30};
    acp_fault fault;
    acp_engine *e;
    pid_t child = child_start();
    if (!child) {
        CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
        CHECK(acp_engine_create(&config, &e, &fault) == ACP_E_SYSTEM && fault.error == EMFILE);
        _exit(0);
    }
    CHECK(!was_killed(child));
}

/* Messages keep their order though the first goes by link and their peer is reached by load and store then. */
static void who_cannot_be_opened_is_not_dead_and_near_later(void)
{
    struct cluster c;
    uint64_t words[2] = {0}, first = 1, second = 2, value = 7;
    acp_handle_t pending;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e), *other = acp_engine_lane(c.engines[1]);
    struct peer *p = peer_of_slot(e, 1);
    leave_none();
    CHECK(peer_attach(e, p) == RELATION_REMOTE && !p->lost);
    acp_request *send = isend(lane, 1, 1, &first, 8);
    leave_some();
    UNTIL(peer_attach(e, p) == RELATION_NODE);
    post_message(lane, 1, 2, &second, 8);
    for (uint64_t i = 0; i < 2; i++)
        CHECK(take_message(other, 0, ACP_ANY, &words[i], 8).tag == (int64_t)i + 1);
    send_end_of(lane, send);
    CHECK(words[0] == first && words[1] == second && !p->lost);
    CHECK(acp_put(lane, acp_starter(e, 1), &value, 8, &pending) == ACP_OK && !pending);
    cluster_stop(&c);
}

/* Rank 1 is a child that does nothing. */
static void who_dies_meanwhile_is_dead(bool some_left)
{
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    struct cluster c;
    bool dead;
    pid_t child = child_start();
    if (!child)
        for (;;)
            pause();
    cluster_create(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED, 20000000000u, rows);
    struct row *row = (struct row *)(void *)rows[1];
    row->pid = (uint32_t)child;
    row->start_time = linux_start_time(row->pid, &dead);
    acp_engine *e = c.engines[0];
    CHECK(acp_table_add(e, 0, rows[0], 2) == ACP_OK && acp_engine_join(e, 2, 0) == ACP_OK);
    struct peer *p = peer_of_slot(e, 1);
    leave_none();
    peer_watch(e, p);
    CHECK(!p->lost);
    if (some_left)
        leave_some();
    CHECK(kill(child, SIGKILL) == 0 && was_killed(child));
    UNTIL(p->lost);
    leave_some();
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_close(c.engines[i]);
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_free(c.engines[i]);
}

static acp_engine *_Atomic short_engine; /* its listeners have no descriptor but the spare one, once that is closed */
static atomic_uint put_off;

int __real_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags)
{
    const acp_engine *e = short_engine;
    bool is = false;
    for (uint32_t i = 0; e && i < LISTENERS; i++)
        is |= e->tcp.listeners[i] == fd;
    if (is && (e->job.spare_fd >= 0 || e->tcp.spare_used)) {
        errno = EMFILE;
        return -1;
    }
    int accepted = __real_accept4(fd, address, size, flags);
    atomic_fetch_add(&put_off, is && accepted >= 0);
    return accepted;
}

/* Rank 0 has its spare descriptor alone, by which it puts off each call, for longer than a silent peer lives. */
static void who_puts_off_calls_is_not_dead(void)
{
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    const uint64_t timeout = 3000000000u;
    struct cluster c;
    uint64_t word = 7;
    cluster_create(&c, 2, 2, ACP_PATH_ANY, CLUSTER_SHARED, timeout, rows);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(acp_table_add(c.engines[i], 0, rows[0], 2) == ACP_OK && acp_engine_join(c.engines[i], 2, i) == ACP_OK);
    acp_engine *e = c.engines[1];
    struct peer *p = peer_of_slot(e, 0);
    short_engine = c.engines[0];
    uint64_t start = linux_now_ns();
    acp_request *send = isend(acp_engine_lane(e), 0, 3, &word, 8);
    while ((linux_now_ns() - start < 2 * timeout || put_off < 4) && !p->lost)
        usleep(10000);
    CHECK(!p->lost && !peer_of_slot(c.engines[0], 1)->lost);
    short_engine = NULL;
    word = 0;
    CHECK(take_message(acp_engine_lane(c.engines[0]), 1, 3, &word, 8).size == 8);
    send_end_of(acp_engine_lane(e), send);
    cluster_stop(&c);
}

int main(void)
{
    who_puts_off_calls_is_not_dead();
    an_engine_may_have_as_many_as_the_system_lets_it();
    an_engine_opens_by_any_number();
    an_engine_says_that_there_is_no_number_left();
    who_cannot_be_opened_is_not_dead_and_near_later();
    who_dies_meanwhile_is_dead(true);
    who_dies_meanwhile_is_dead(false);
    return 0;
}
