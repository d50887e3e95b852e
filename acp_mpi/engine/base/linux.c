/* All system calls of the engine that are particular to Linux. */
#include "base/linux.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#if !defined(SYS_pidfd_open) /* the headers are older than Linux 5.3; the kernel need not be */
#define SYS_pidfd_open 434
#endif
#if !defined(SYS_pidfd_getfd) /* than Linux 5.6 */
#define SYS_pidfd_getfd 438
#endif

uint64_t linux_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Reads a small file of /proc or /sys whole; -1 if that is not possible. */
static int read_small(const char *path, char *buffer, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, buffer, size - 1);
    int error = errno;
    close(fd);
    errno = error;
    if (n < 0)
        return -1;
    buffer[n] = 0;
    return (int)n;
}

/* A process is the same while its id and this number are; 0: not readable. *dead: the process is gone, or a zombie
 * with all threads ended; one with only its first thread ended looks like a zombie, too, and may still write where it
 * was writing. Without a free descriptor for /proc a signal 0 still tells whether the id is in use. */
uint64_t linux_start_time(uint32_t pid, bool *dead)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%u/stat", pid);
    *dead = true;
    if (read_small(path, text, sizeof text) <= 0) {
        *dead = errno == ENOENT || errno == ESRCH || (kill((pid_t)pid, 0) && errno == ESRCH);
        return 0;
    }
    char *field = strrchr(text, ')'); /* the name before it may hold anything */
    if (!field || !field[1])
        return 0;
    field += 2;
    bool ended = *field == 'Z' || *field == 'X' || *field == 'x';
    for (int i = 3; i < 22 && field; i++) {
        if (i == 20)
            *dead = ended && strtoull(field, NULL, 10) <= 1;
        field = strchr(field, ' ');
        if (field)
            field++;
    }
    return field ? strtoull(field, NULL, 10) : 0;
}

bool linux_process_lives(uint32_t pid, uint64_t start_time)
{
    bool dead;
    uint64_t began = linux_start_time(pid, &dead);
    return (began == start_time || !began) && !dead;
}

/* With autogroups a processor is divided among sessions first, and then within each of them, where a yield stays. */
bool linux_yields_to(uint32_t pid)
{
    char path[64], on[16], own[64], other[64];
    snprintf(path, sizeof path, "/proc/%u/autogroup", pid);
    if (read_small("/proc/sys/kernel/sched_autogroup_enabled", on, sizeof on) <= 0 || *on == '0' ||
        read_small("/proc/self/autogroup", own, sizeof own) <= 0 || read_small(path, other, sizeof other) <= 0)
        return true;
    size_t name = strcspn(own, " ");
    return name == strcspn(other, " ") && memcmp(own, other, name) == 0;
}

int linux_pidfd_open(uint32_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

/* A descriptor of another process, by its number there. */
int linux_pidfd_getfd(int pidfd, int number)
{
    return (int)syscall(SYS_pidfd_getfd, pidfd, number, 0);
}

/* The soft limit of the size of files is meant for files that a program writes by mistake, and memory takes no disk:
 * for that the hard limit alone counts. A size beyond it is refused here, not by a signal. */
struct sizes {
    struct rlimit before;
    bool raised;
};

static bool sizes_raise(struct sizes *s, uint64_t size)
{
    if (getrlimit(RLIMIT_FSIZE, &s->before))
        return false;
    struct rlimit most = {s->before.rlim_max, s->before.rlim_max};
    s->raised = s->before.rlim_cur < size;
    errno = EFBIG;
    return !s->raised || (most.rlim_max >= size && setrlimit(RLIMIT_FSIZE, &most) == 0);
}

static void sizes_restore(const struct sizes *s)
{
    int error = errno;
    if (s->raised)
        setrlimit(RLIMIT_FSIZE, &s->before);
    errno = error;
}

int linux_file_resize(int fd, uint64_t size)
{
    struct sizes sizes;
    if (!sizes_raise(&sizes, size))
        return -1;
    int rc = ftruncate(fd, (off_t)size);
    sizes_restore(&sizes);
    return rc;
}

int linux_file_write(int fd, uint64_t at, const void *data, uint64_t size)
{
    const char *from = data;
    struct sizes sizes;
    if (!sizes_raise(&sizes, at + size))
        return -1;
    while (size) {
        ssize_t n = pwrite(fd, from, size, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        from += n;
        at += (uint64_t)n;
        size -= (uint64_t)n;
    }
    sizes_restore(&sizes);
    return size ? -1 : 0;
}

/* The file, or (-1) fresh zeroes, in no core file: the memory may be another process's, or hold the secret. */
void *linux_map(int fd, uint64_t at, uint64_t size, int protection)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED | MAP_NORESERVE;
    void *base = mmap(NULL, size, protection, flags, fd, (off_t)at);
    if (base != MAP_FAILED)
        madvise(base, size, MADV_DONTDUMP);
    return base;
}

/* The abstract Unix address of a process's socket of that kind; vanishes with it. */
socklen_t linux_socket_name(struct sockaddr_un *name, const char *kind, uint64_t nonce)
{
    memset(name, 0, sizeof *name);
    name->sun_family = AF_UNIX;
    int n = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "acp_mpi.%s.%016llx", kind,
                     (unsigned long long)nonce);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* 0 when woken or when *word is not `value` any more, else -1 with errno. */
long linux_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns, bool shared)
{
    struct timespec t, *limit = NULL;
    if (timeout_ns != INT64_MAX) {
        if (timeout_ns < 0)
            timeout_ns = 0;
        t.tv_sec = timeout_ns / 1000000000;
        t.tv_nsec = timeout_ns % 1000000000;
        limit = &t;
    }
    int op = FUTEX_WAIT | (shared ? 0 : FUTEX_PRIVATE_FLAG);
    long rc = syscall(SYS_futex, (uint32_t *)word, op, value, limit, NULL, 0);
    return rc < 0 && errno == EAGAIN ? 0 : rc;
}

void linux_futex_wake(_Atomic uint32_t *word, bool shared)
{
    int op = FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG);
    syscall(SYS_futex, (uint32_t *)word, op, INT32_MAX, NULL, NULL, 0);
}

void linux_shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}
