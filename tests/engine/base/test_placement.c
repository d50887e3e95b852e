/* Wishes for pages: the policy of a memory file is the node that was preferred, and large pages are there where the
 * system has them. A system that refuses has none, and nothing fails. */
#include "base/linux.h"
#include "base/placement.h"
#include "support/check.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE ((uint64_t)16 << 20)

/* What the system says if `shmem` is set. */
static struct {
    const char *shmem, *size;
} says;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    const char *text = strstr(path, "shmem_enabled") ? says.shmem : says.size;
    int ends[2];
    if (!says.shmem)
        return __real_open(path, flags);
    errno = ENOENT;
    if (!*text || pipe(ends))
        return -1;
    CHECK(write(ends[1], text, strlen(text)) == (ssize_t)strlen(text) && !close(ends[1]));
    return ends[0];
}

static void large_pages_are_as_the_system_says(void)
{
    static const struct {
        const char *shmem, *size;
        uint64_t large;
    } systems[] = {
        {"always within_size [advise] never deny force\n", "2097152\n", 2097152},
        {"[always] within_size advise never deny force\n", "67108864\n", 67108864},
        {"always within_size advise [never] deny force\n", "2097152\n", 0},
        {"always within_size advise never [deny] force\n", "2097152\n", 0},
        {"always within_size [advise] never deny force\n", "", 0},
        {"always within_size [advise] never deny force\n", "2097153\n", 0},
        {"always within_size [advise] never deny force\n", "536870912\n", 0},
        {"", "2097152\n", 0},
    };
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        says.shmem = systems[i].shmem;
        says.size = systems[i].size;
        CHECK(placement_large_page() == systems[i].large);
    }
    says.shmem = NULL;
}

static unsigned char *memory_file(int *fd)
{
    *fd = memfd_create("test", MFD_CLOEXEC);
    CHECK(*fd >= 0 && !linux_file_resize(*fd, SIZE));
    void *base = linux_map(*fd, 0, SIZE, PROT_READ | PROT_WRITE);
    CHECK(base != MAP_FAILED);
    return base;
}

/* A thread runs on the node, and bytes are preferred on those nodes, as the kernel reads their number. */
static struct {
    bool acts, cannot;
    unsigned node;
    unsigned long preferred[64], calls;
} kernel;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
    unsigned long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, unsigned long);
    va_end(list);
    if (kernel.acts && number == SYS_getcpu) {
        memcpy((void *)a[1], &kernel.node, sizeof kernel.node);
        return kernel.cannot ? -1 : 0;
    }
    if (kernel.acts && number == SYS_mbind) {
        CHECK(a[2] == MPOL_PREFERRED && a[4] - 1 <= 8 * sizeof kernel.preferred && (a[4] - 1) % 8 == 0);
        memcpy(kernel.preferred, (const void *)a[3], (a[4] - 1) / 8);
        kernel.calls++;
        return 0;
    }
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void a_thread_s_node_is_preferred(void)
{
    static const unsigned nodes[] = {0, 1, 63, 64, 1023};
    int byte;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        memset(&kernel, 0, sizeof kernel);
        kernel.acts = true;
        kernel.node = nodes[i];
        placement_prefer_here(&byte, 1);
        CHECK(kernel.calls == 1);
        for (unsigned n = 0; n < 8 * sizeof kernel.preferred; n++)
            CHECK((kernel.preferred[n / 64] >> n % 64 & 1) == (n == nodes[i]));
    }
    kernel.node = 1024; /* there is no such node */
    placement_prefer_here(&byte, 1);
    kernel.node = 0;
    kernel.cannot = true;
    placement_prefer_here(&byte, 1);
    CHECK(kernel.calls == 1);
    kernel.acts = false;
}

/* Another mapping of the file has the policy, too. */
static void preferred(void)
{
    unsigned long nodes[64] = {0};
    int fd, mode = -1;
    unsigned char *base = memory_file(&fd);
    bool allowed = !syscall(SYS_mbind, base, SIZE, MPOL_DEFAULT, NULL, 0ul, 0u);
    placement_prefer_here(base, SIZE);
    void *other = linux_map(fd, 0, SIZE, PROT_READ | PROT_WRITE);
    CHECK(other != MAP_FAILED);
    if (allowed && !syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof nodes, other, (unsigned long)MPOL_F_ADDR)) {
        uint32_t count = 0;
        for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++)
            count += (uint32_t)__builtin_popcountl(nodes[i]);
        CHECK(mode == MPOL_PREFERRED && count == 1);
    }
    base[SIZE - 1] = 1;
    munmap(other, SIZE);
    munmap(base, SIZE);
    close(fd);
}

static uint64_t file_bytes(int fd)
{
    struct stat status;
    CHECK(!fstat(fd, &status));
    return (uint64_t)status.st_blocks * 512;
}

/* Only whole pages are filled, wherever the range begins. */
static void filled(void)
{
    uint64_t large = placement_large_page();
    CHECK(!(large & (large - 1)));
    large = large ? large : (uint64_t)2 << 20;
    int fd;
    unsigned char *base = memory_file(&fd);
    placement_fill_large(base, large - 1, large);
    CHECK(file_bytes(fd) == 0);
    placement_fill_large(base + 4096, SIZE / 2, large);
    CHECK(file_bytes(fd) <= SIZE / 2);
    for (uint64_t i = 0; i < SIZE; i++)
        CHECK(!base[i]);
    munmap(base, SIZE);
    close(fd);
}

int main(void)
{
    large_pages_are_as_the_system_says();
    a_thread_s_node_is_preferred();
    preferred();
    filled();
    return 0;
}
