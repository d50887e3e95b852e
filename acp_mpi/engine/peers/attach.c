/* The memory of a process of the node and its doorbell, and the node's table of ranks: descriptors taken through /proc
 * and its pidfd, or, where that is forbidden (other group id, not dumpable, an old Linux), requested over an abstract
 * Unix socket. */
#include "peers/attach.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/reactor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ASK_NS ((uint64_t)2000000000)
#define ENDING_MS 100 /* from closed descriptors to a dead process */

enum { MEMORY, DOOR, TABLE, GIVEN };

int attach_giver_open(acp_engine *e)
{
    struct sockaddr_un name;
    socklen_t size = linux_socket_name(&name, "memory", e->row.nonce);
    int fd = e->job.giver_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    attach_spare_open(e);
    return fd < 0 || bind(fd, (struct sockaddr *)&name, size) || listen(fd, 64) ||
           reactor_add(e, fd, EPOLLIN, TAG_GIVER) ? ACP_E_SYSTEM : ACP_OK;
}

void attach_close(acp_engine *e)
{
    linux_shut(&e->job.giver_fd);
    linux_shut(&e->job.spare_fd);
}

bool attach_spare_close(acp_engine *e)
{
    pthread_mutex_lock(&e->space);
    bool has = e->job.spare_fd >= 0;
    linux_shut(&e->job.spare_fd);
    pthread_mutex_unlock(&e->space);
    return has;
}

/* Sends memory, door and table, if there is one, to requesting processes of the same user; never blocks. With the
 * space lock. */
static void serve(acp_engine *e)
{
    int fd;
    while ((fd = accept4(e->job.giver_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct ucred who;
        socklen_t size = sizeof who;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
            (who.uid == geteuid() || who.uid == 0)) {
            int fds[GIVEN] = {
                [MEMORY] = e->memory.fd, [DOOR] = e->progress.door_fd, [TABLE] = e->job.table.fd};
            size_t bytes = sizeof *fds * (fds[TABLE] < 0 ? TABLE : GIVEN);
            char byte = 'm', space[CMSG_SPACE(sizeof fds)] = {0};
            struct iovec io = {&byte, 1};
            struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = space,
                               .msg_controllen = CMSG_SPACE(bytes)};
            struct cmsghdr *c = CMSG_FIRSTHDR(&m);
            c->cmsg_level = SOL_SOCKET;
            c->cmsg_type = SCM_RIGHTS;
            c->cmsg_len = CMSG_LEN(bytes);
            memcpy(CMSG_DATA(c), fds, bytes);
            sendmsg(fd, &m, MSG_NOSIGNAL);
        }
        close(fd);
    }
    if ((errno == EMFILE || errno == ENFILE) && attach_spare_close(e)) {
        /* to turn one away: the socket would stay readable */
        if ((fd = accept4(e->job.giver_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
            close(fd);
        attach_spare_open(e);
    }
}

/* A spare descriptor, for when there is no other. */
void attach_spare_open(acp_engine *e)
{
    pthread_mutex_lock(&e->space);
    if (e->job.spare_fd < 0)
        e->job.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_unlock(&e->space);
}

void attach_giver_serve(acp_engine *e)
{
    pthread_mutex_lock(&e->space);
    serve(e);
    pthread_mutex_unlock(&e->space);
}

static size_t bounded(size_t bytes) /* the space is padded and may hold one more */
{
    return bytes < sizeof(int[GIVEN]) ? bytes : sizeof(int[GIVEN]);
}

static void given_drop(int fds[GIVEN])
{
    for (int i = 0; i < GIVEN; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* Whether the listener at an abstract name is the process of `row`: these names are free for all users of the host. */
static bool file_is_of(int fd, const struct row *row)
{
    struct ucred who;
    socklen_t size = sizeof who;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == row->uid &&
           who.pid == (pid_t)row->pid;
}

/* Requests the peer's descriptors, and meanwhile serves requests of others: two processes that open each other would
 * deadlock otherwise. */
static void giver_ask(acp_engine *e, const struct row *row, int fds[GIVEN])
{
    struct sockaddr_un name;
    socklen_t size = linux_socket_name(&name, "memory", row->nonce);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, (struct sockaddr *)&name, size) || !file_is_of(fd, row)) {
        close(fd);
        return;
    }
    uint64_t until = linux_now_ns() + ASK_NS;
    for (;;) {
        struct pollfd set[2] = {{.fd = fd, .events = POLLIN},
                                {.fd = e->job.giver_fd, .events = POLLIN}};
        uint64_t now = linux_now_ns();
        if (now >= until || (poll(set, 2, (int)((until - now) / 1000000) + 1) < 0 &&
                             errno != EINTR))
            break;
        if (set[1].revents)
            serve(e);
        if (set[0].revents) {
            char byte, space[CMSG_SPACE(sizeof(int[GIVEN]))];
            struct iovec io = {&byte, 1};
            struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = space,
                               .msg_controllen = sizeof space};
            struct cmsghdr *c = recvmsg(fd, &m, MSG_CMSG_CLOEXEC) > 0 ? CMSG_FIRSTHDR(&m) : NULL;
            if (c && c->cmsg_type == SCM_RIGHTS)
                memcpy(fds, CMSG_DATA(c), bounded(c->cmsg_len - CMSG_LEN(0)));
            errno = m.msg_flags & MSG_CTRUNC ? EMFILE : 0; /* the system drops descriptors that do not fit */
            break;
        }
    }
    int error = errno;
    close(fd);
    errno = error;
}

/* The file is a sealed memory file of this layout and this libc, and belongs to the process and the user of the
 * row. */
static bool genuine(const acp_engine *e, int fd, const struct row *row, struct control *head)
{
    struct stat st;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != row->uid ||
        (uint64_t)st.st_size < CONTROL_SIZE)
        return false;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return false;
    if (pread(fd, head, sizeof *head, 0) != (ssize_t)sizeof *head)
        return false;
    return head->magic == LAYOUT_MAGIC && head->version == LAYOUT_VERSION &&
           head->nonce == row->nonce && head->libc == e->control->libc &&
           head->span <= (uint64_t)st.st_size && head->phase != PHASE_CLOSED;
}

static int open_of(const struct row *row)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/fd/%d", row->pid, row->memory_fd);
    return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

static void given_take(const acp_engine *e, const struct peer *p, int fds[GIVEN])
{
    struct control head;
    fds[MEMORY] = open_of(&p->row);
    if (fds[MEMORY] >= 0 && genuine(e, fds[MEMORY], &p->row, &head))
        fds[DOOR] = linux_pidfd_getfd(p->pidfd, head.door_fd);
}

/* Called when memory and door are here: an owner that had not begun to close then gave its own. */
static bool usable(const acp_engine *e, const struct peer *p, int fds[GIVEN])
{
    struct control head;
    if (fds[MEMORY] >= 0 && fds[DOOR] >= 0 && genuine(e, fds[MEMORY], &p->row, &head)) {
        if (fds[TABLE] >= 0)
            close(fds[TABLE]);
        return true;
    }
    given_drop(fds);
    return false;
}

int attach_table(acp_engine *e, const struct row *place, uint64_t nonce)
{
    int fds[GIVEN] = {-1, -1, open_of(place)};
    for (int way = 0; way < 2; way++) {
        if (way == 1)
            giver_ask(e, place, fds);
        int table = fds[TABLE];
        if (table >= 0 && rank_table_genuine(e, table, place->uid, nonce)) {
            fds[TABLE] = -1;
            given_drop(fds);
            return table;
        }
        given_drop(fds);
    }
    return -1;
}

/* Is this process dead, or about to be? An ending process closes its descriptors before it counts as dead. */
static bool has_ended(const struct peer *p)
{
    struct pollfd end = {.fd = p->pidfd, .events = POLLIN};
    int fd = open_of(&p->row);
    if (fd >= 0)
        close(fd);
    else if (errno == ENOENT)
        poll(&end, 1, ENDING_MS);
    return !linux_process_lives(p->row.pid, p->row.start_time);
}

/* `later`: the peer is there, and this process has no descriptor or no memory left for it. */
int attach_open(acp_engine *e, struct peer *p, uint8_t *opened, bool *later)
{
    int fds[GIVEN] = {-1, -1, -1};
    errno = 0;
    given_take(e, p, fds);
    *later = peer_own_shortage(errno);
    *opened = OPENED_PROC;
    if (!usable(e, p, fds)) {
        errno = 0;
        giver_ask(e, &p->row, fds);
        *later |= peer_own_shortage(errno);
        *opened = OPENED_SOCKET;
        if (!usable(e, p, fds)) {
            bool dead = has_ended(p);
            *later &= !dead;
            return dead ? ACP_E_LOST : ACP_E_SYSTEM;
        }
    }
    *later = false;
    struct stat st;
    p->shm.fd = fds[MEMORY];
    p->shm.door_fd = fds[DOOR];
    p->shm.span = fstat(p->shm.fd, &st) ? 0 : (uint64_t)st.st_size; /* sealed */
    if (e->config.map) {
        unsigned char *base = e->config.map(e->config.map_context, &p->row, 0, CONTROL_SIZE);
        if (!base)
            return ACP_E_LOST;
        p->shm.control = (const struct control *)(void *)base;
        p->shm.doors = (struct doors *)(void *)(base + DOORS_OFFSET);
        *opened = OPENED_GIVEN;
        return ACP_OK;
    }
    void *control = linux_map(p->shm.fd, 0, CONTROL_SIZE, PROT_READ);
    void *doors = linux_map(p->shm.fd, DOORS_OFFSET, sizeof(struct doors), PROT_READ | PROT_WRITE);
    if (control == MAP_FAILED || doors == MAP_FAILED) {
        *later = peer_own_shortage(errno);
        if (control != MAP_FAILED)
            munmap(control, CONTROL_SIZE);
        if (doors != MAP_FAILED)
            munmap(doors, sizeof(struct doors));
        close(p->shm.fd);
        close(p->shm.door_fd); /* not rung so far */
        p->shm.fd = p->shm.door_fd = -1;
        return ACP_E_SYSTEM;
    }
    p->shm.control = control;
    p->shm.doors = doors;
    return ACP_OK;
}

void attach_unmap(acp_engine *e, struct peer *p)
{
    if (p->relation == RELATION_NODE && !e->config.map) {
        munmap((void *)(uintptr_t)p->shm.control, CONTROL_SIZE);
        munmap(p->shm.doors, sizeof *p->shm.doors);
    }
    p->shm.control = NULL;
    p->shm.doors = NULL;
}

int acp_table_map(acp_engine *e, const uint8_t place[ACP_ROW_SIZE])
{
    struct row row;
    memcpy(&row, place, sizeof row);
    if (e->job.table.base)
        return ACP_E_ARGUMENT;
    pthread_mutex_lock(&e->space);
    int fd = attach_table(e, &row, row.nonce);
    int rc = fd < 0 ? ACP_E_SYSTEM : rank_table_map(e, fd);
    if (fd >= 0 && rc != ACP_OK)
        close(fd);
    pthread_mutex_unlock(&e->space);
    return rc;
}
