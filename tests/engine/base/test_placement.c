/* Wishes for pages: the policy of a memory file is the node that was preferred, and large pages are there where the
 * system has them. A system that refuses has none, and nothing fails. */
#include "base/linux.h"
#include "base/placement.h"
#include "support/check.h"

#include <linux/mempolicy.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SIZE ((uint64_t)16 << 20)

static unsigned char *memory_file(int *fd)
{
    *fd = memfd_create("test", MFD_CLOEXEC);
    CHECK(*fd >= 0 && !linux_file_resize(*fd, SIZE));
    void *base = linux_map(*fd, 0, SIZE, PROT_READ | PROT_WRITE);
    CHECK(base != MAP_FAILED);
    return base;
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
    preferred();
    filled();
    return 0;
}
