/* Whose memory a process maps, and to whom it gives its own: a file that is not in every way that of the member
 * in the table stays closed, and another user is given none. */
#include "cluster/cluster.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "peers/peer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534
#define NONCE 0x51f0a7d3u /* nobody listens under that name */

enum flaw { NONE, UNSEALED, NONCE_OF_ANOTHER, VERSION, MAGIC, LIBC, TOO_LONG, CLOSED, FLAWS };

static acp_engine *engine_new(void)
{
    acp_config config = {.node = 1, .memory_limit = 16 << 20, .starter_size = 4096, .span = 1ull << 30,
                         .peer_timeout_ns = 5000000000u};
    acp_engine *e;
    acp_fault fault;
    CHECK(acp_engine_create(&config, &e, &fault) == ACP_OK);
    return e;
}

static void engine_end(acp_engine *e)
{
    acp_engine_close(e);
    acp_engine_free(e);
}

/* A memory file with the head of that engine's, under another nonce and with one flaw. */
static int file_with(const acp_engine *of, enum flaw flaw)
{
    int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct control head; /* read as another process reads it */
    CHECK(pread(of->memory.fd, &head, sizeof head, 0) == (ssize_t)sizeof head);
    head.nonce = flaw == NONCE_OF_ANOTHER ? NONCE + 1 : NONCE;
    head.version += flaw == VERSION;
    head.magic += flaw == MAGIC;
    head.libc += flaw == LIBC;
    head.phase = flaw == CLOSED ? PHASE_CLOSED : PHASE_OPEN;
    CHECK(fd >= 0 && linux_file_resize(fd, head.span - (flaw == TOO_LONG ? PAGE : 0)) == 0);
    CHECK(linux_file_write(fd, 0, &head, sizeof head) == 0);
    CHECK(flaw == UNSEALED || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    return fd;
}

static void only_what_is_right_is_mapped(void)
{
    for (enum flaw flaw = NONE; flaw < FLAWS; flaw++) {
        acp_engine *e = engine_new(), *other = engine_new();
        uint8_t rows[2][ACP_ROW_SIZE];
        int fd = file_with(other, flaw);
        acp_engine_row(e, rows[0]);
        acp_engine_row(other, rows[1]);
        struct row *row = (struct row *)(void *)rows[1];
        row->nonce = NONCE;
        row->memory_fd = fd;
        CHECK(acp_table_add(e, 0, rows[0], 2) == ACP_OK && acp_engine_join(e, 2, 0) == ACP_OK);
        struct peer *p = peer_of_slot(e, 1);
        CHECK((peer_attach(e, p) == RELATION_NODE) == (flaw == NONE));
        CHECK((p->shm.control != NULL) == (flaw == NONE));
        close(fd);
        engine_end(e);
        engine_end(other);
    }
}

/* Descriptors that the engine gives to whoever asks it by this process. */
static int given_by(uint64_t nonce)
{
    struct sockaddr_un name;
    socklen_t size = linux_socket_name(&name, "memory", nonce);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), count = 0;
    char byte, space[CMSG_SPACE(8 * sizeof(int))];
    struct iovec io = {&byte, 1};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&name, size) == 0);
    ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    if (c && c->cmsg_type == SCM_RIGHTS)
        count = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    close(fd);
    return count;
}

static bool gives_to(const acp_engine *e, uid_t user)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(user == geteuid() || setuid(user) == 0);
        _exit(given_by(e->row.nonce) ? 7 : 0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 7 || WEXITSTATUS(status) == 0);
    return WEXITSTATUS(status) == 7;
}

static void only_the_same_user_is_given_memory(void)
{
    acp_engine *e = engine_new();
    uint8_t row[ACP_ROW_SIZE];
    acp_engine_row(e, row);
    CHECK(acp_table_add(e, 0, row, 1) == ACP_OK && acp_engine_join(e, 1, 0) == ACP_OK);
    CHECK(gives_to(e, geteuid()));
    CHECK(geteuid() != 0 || !gives_to(e, NOBODY));
    engine_end(e);
}

int main(void)
{
    only_what_is_right_is_mapped();
    only_the_same_user_is_given_memory();
    return 0;
}
