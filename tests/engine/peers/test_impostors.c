/* The name at which a process hands out its memory is free for every user of the host as soon as that process
 * has none: who has taken it hands out a file that looks right, and nobody maps it. */
#include "cluster/cluster.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "peers/peer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

/* A memory file as that of the process, but for a word that it never wrote. */
static int forged(const acp_engine *of)
{
    int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    uint64_t word = 0xbad;
    struct control head;
    char order[4096];
    CHECK(fd >= 0 && linux_file_resize(fd, of->memory.span) == 0);
    CHECK(pread(of->memory.fd, &head, sizeof head, 0) == sizeof head);
    CHECK(pread(of->memory.fd, order, sizeof order, ORDER_OFFSET) == sizeof order);
    CHECK(linux_file_write(fd, 0, &head, sizeof head) == 0);
    CHECK(linux_file_write(fd, ORDER_OFFSET, order, sizeof order) == 0);
    CHECK(linux_file_write(fd, ENTRIES_OFFSET, of->memory.entries, 16 * sizeof *of->memory.entries) == 0);
    CHECK(linux_file_write(fd, STARTER_OFFSET, &word, sizeof word) == 0);
    CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    return fd;
}

/* Gives `fd` and a door to the first who asks under that name. */
static void hand_out(int listener, int fd)
{
    int fds[2] = {fd, dup(fd)}, client = accept(listener, NULL, NULL);
    char byte = 'm', space[CMSG_SPACE(sizeof fds)] = {0};
    struct iovec io = {&byte, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = space,
                       .msg_controllen = sizeof space};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fds);
    memcpy(CMSG_DATA(c), fds, sizeof fds);
    sendmsg(client, &m, MSG_NOSIGNAL);
    close(client);
}

static int listen_as(const acp_engine *e)
{
    struct sockaddr_un name;
    socklen_t size = linux_socket_name(&name, "memory", e->row.nonce);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&name, size) == 0 && listen(fd, 1) == 0);
    return fd;
}

/* Two ranks of one node; the second can be had over its socket only, and has given up its name. */
static void begin(struct cluster *c)
{
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    cluster_create(c, 2, 1, ACP_PATH_ANY, false, CLUSTER_PATIENCE_NS, rows);
    struct row *row = (struct row *)(void *)rows[1];
    row->memory_fd = -1;
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(acp_table_add(c->engines[i], 0, rows[0], 2) == ACP_OK);
        CHECK(acp_engine_join(c->engines[i], 2, i) == ACP_OK);
    }
    pthread_mutex_lock(&c->engines[1]->lock);
    close(c->engines[1]->job.giver_fd);
    c->engines[1]->job.giver_fd = -1;
    pthread_mutex_unlock(&c->engines[1]->lock);
}

static void end(struct cluster *c)
{
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_close(c->engines[i]);
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_free(c->engines[i]);
}

/* What the first rank reads there comes by link, from the process itself. */
static void not_taken_in(struct cluster *c)
{
    static uint64_t word;
    acp_handle_t pending;
    acp_engine *e = c->engines[0];
    struct peer *p = peer_of_slot(e, 1);
    word = 1;
    CHECK(acp_get(acp_engine_lane(e), &word, acp_starter(e, 1), sizeof word, &pending) == ACP_OK);
    CHECK(!pending || acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    CHECK(word == 0);
    CHECK(p->relation == RELATION_REMOTE && !p->shm.control && !p->lost);
}

static void another_process(uint32_t uid)
{
    struct cluster c;
    int ready[2];
    char byte;
    begin(&c);
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(uid == geteuid() || setuid(uid) == 0);
        int listener = listen_as(c.engines[1]), fd = forged(c.engines[1]);
        CHECK(write(ready[1], "r", 1) == 1);
        for (;;)
            hand_out(listener, fd);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    not_taken_in(&c);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    close(ready[0]);
    close(ready[1]);
    end(&c);
}

struct gift {
    int listener, fd;
};

static void *give(void *gift)
{
    const struct gift *g = gift;
    hand_out(g->listener, g->fd);
    return NULL;
}

/* The process itself may have been given the file of another user. */
static void another_owner(void)
{
    struct cluster c;
    pthread_t thread;
    begin(&c);
    setfsuid(NOBODY); /* of this thread */
    struct gift gift = {listen_as(c.engines[1]), forged(c.engines[1])};
    setfsuid(geteuid());
    CHECK(pthread_create(&thread, NULL, give, &gift) == 0);
    not_taken_in(&c);
    pthread_join(thread, NULL);
    close(gift.listener);
    close(gift.fd);
    end(&c);
}

int main(void)
{
    another_process((uint32_t)geteuid());
    if (geteuid() != 0)
        return 0;
    another_process(NOBODY);
    another_owner();
    return 0;
}
