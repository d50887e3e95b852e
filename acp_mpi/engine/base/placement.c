/* Wishes for pages, by system calls that glibc does not wrap. */
#include "base/placement.h"

#include <fcntl.h>
#include <linux/mempolicy.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES_MOST 1024u /* of any kernel */
#define LARGE_MOST ((uint64_t)64 << 20) /* kernels with pages of 64 KiB have large ones of 512 MiB */
#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

void placement_prefer_here(void *base, uint64_t size)
{
    unsigned long nodes[NODES_MOST / (8 * sizeof(unsigned long))] = {0};
    const unsigned bits = 8 * sizeof nodes[0];
    unsigned processor, node;
    if (syscall(SYS_getcpu, &processor, &node, NULL) || node >= NODES_MOST)
        return;
    nodes[node / bits] |= 1ul << node % bits;
    syscall(SYS_mbind, base, size, MPOL_PREFERRED, nodes, (unsigned long)NODES_MOST + 1, 0u);
}

/* Reads the begin of a small file; false: there is none. */
static bool file_read(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, room - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

uint64_t placement_large_page(void)
{
    char text[128];
    if (!file_read("/sys/kernel/mm/transparent_hugepage/shmem_enabled", text, sizeof text) ||
        strstr(text, "[never]") || strstr(text, "[deny]") ||
        !file_read("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", text, sizeof text))
        return 0;
    uint64_t large = strtoull(text, NULL, 10);
    return large <= LARGE_MOST && !(large & (large - 1)) ? large : 0;
}

void placement_fill_large(unsigned char *base, uint64_t size, uint64_t large)
{
    uint64_t before = -(uint64_t)(uintptr_t)base & (large - 1);
    if (size < before + large)
        return;
    uint64_t whole = (size - before) & ~(large - 1);
    if (!madvise(base + before, whole, MADV_HUGEPAGE))
        madvise(base + before, whole, MADV_POPULATE_WRITE);
}
