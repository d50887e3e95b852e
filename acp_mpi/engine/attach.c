/* Opening the memory of a process of the node, and the node's table of ranks: through /proc, or,
 * where that is forbidden (other group id, not dumpable), by asking the process for its
 * descriptors over an abstract Unix socket. */
#include "op.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ASK_NS ((uint64_t)2000000000)

enum { MEMORY, TABLE, GIVEN };

int giver_open(acp_engine *e)
{
    struct sockaddr_un name;
    socklen_t size = socket_name(&name, "memory", e->row.nonce);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&name, size) || listen(fd, 64)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Gives the memory file, and the table if there is one, to processes of the same user that ask;
 * never blocks. */
void giver_serve(acp_engine *e)
{
    int fd;
    if (e->spare_fd < 0)
        e->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while ((fd = accept4(e->giver_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct ucred who;
        socklen_t size = sizeof who;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
            (who.uid == geteuid() || who.uid == 0)) {
            int fds[GIVEN] = {[MEMORY] = e->memory.fd, [TABLE] = e->table.fd};
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
    if ((errno == EMFILE || errno == ENFILE) && e->spare_fd >= 0) {
        close(e->spare_fd); /* to turn one away: the socket would stay readable */
        e->spare_fd = -1;
        if ((fd = accept4(e->giver_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
            close(fd);
    }
}

/* Asks the peer; meanwhile answers those who ask this process, or two would wait for each
 * other. */
static int ask(acp_engine *e, const struct row *row, int wanted)
{
    struct sockaddr_un name;
    socklen_t size = socket_name(&name, "memory", row->nonce);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), got[GIVEN] = {-1, -1};
    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&name, size)) {
        close(fd);
        return -1;
    }
    uint64_t until = now_ns() + ASK_NS;
    for (;;) {
        struct pollfd set[2] = {{.fd = fd, .events = POLLIN},
                                {.fd = e->giver_fd, .events = POLLIN}};
        uint64_t now = now_ns();
        if (now >= until || (poll(set, 2, (int)((until - now) / 1000000) + 1) < 0 &&
                             errno != EINTR))
            break;
        if (set[1].revents)
            giver_serve(e);
        if (set[0].revents) {
            char byte, space[CMSG_SPACE(sizeof got)];
            struct iovec io = {&byte, 1};
            struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = space,
                               .msg_controllen = sizeof space};
            struct cmsghdr *c = recvmsg(fd, &m, MSG_CMSG_CLOEXEC) > 0 ? CMSG_FIRSTHDR(&m) : NULL;
            if (c && c->cmsg_type == SCM_RIGHTS)
                memcpy(got, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0)); /* `space` bounds it */
            break;
        }
    }
    close(fd);
    for (int i = 0; i < GIVEN; i++)
        if (i != wanted && got[i] >= 0)
            close(got[i]);
    return got[wanted];
}

/* The file is what the row says it is: a sealed memory file of this layout and this libc,
 * of that very process. */
static bool genuine(const acp_engine *e, int fd, const struct row *row)
{
    struct stat st;
    struct control head;
    if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size < CONTROL_SIZE)
        return false;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return false;
    if (pread(fd, &head, sizeof head, 0) != (ssize_t)sizeof head)
        return false;
    return head.magic == LAYOUT_MAGIC && head.version == LAYOUT_VERSION &&
           head.nonce == row->nonce && head.libc == e->control->libc &&
           head.span <= (uint64_t)st.st_size;
}

static int open_of(const struct row *row)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/fd/%d", row->pid, row->memory_fd);
    return open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

int attach_table(acp_engine *e, const struct row *place)
{
    for (int way = 0; way < 2; way++) {
        int fd = way == 0 ? open_of(place) : ask(e, place, TABLE);
        if (fd >= 0 && table_genuine(e, fd, place->nonce))
            return fd;
        if (fd >= 0)
            close(fd);
    }
    return -1;
}

int attach_open(acp_engine *e, struct peer *p, uint8_t *opened)
{
    if (e->config.map) {
        unsigned char *base = e->config.map(e->config.map_context, &p->row, 0, CONTROL_SIZE);
        if (!base)
            return ACP_E_LOST;
        p->control = (const struct control *)(void *)base;
        p->doors = (struct doors *)(void *)(base + DOORS_OFFSET);
        *opened = OPENED_GIVEN;
        return ACP_OK;
    }
    int fd = open_of(&p->row);
    *opened = OPENED_PROC;
    if (fd >= 0 && !genuine(e, fd, &p->row)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0) {
        fd = ask(e, &p->row, MEMORY);
        *opened = OPENED_SOCKET;
    }
    if (fd >= 0 && !genuine(e, fd, &p->row)) {
        close(fd);
        fd = -1;
    }
    if (fd < 0) {
        bool dead;
        uint64_t start = process_start_time(p->row.pid, &dead);
        return dead || start != p->row.start_time ? ACP_E_LOST : ACP_E_SYSTEM;
    }
    void *control = mmap(NULL, CONTROL_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    void *doors = mmap(NULL, sizeof(struct doors), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                       DOORS_OFFSET);
    if (control == MAP_FAILED || doors == MAP_FAILED) {
        if (control != MAP_FAILED)
            munmap(control, CONTROL_SIZE);
        if (doors != MAP_FAILED)
            munmap(doors, sizeof(struct doors));
        close(fd);
        return ACP_E_SYSTEM;
    }
    p->fd = fd;
    p->control = control;
    p->doors = doors;
    return ACP_OK;
}
