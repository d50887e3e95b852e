/* Put before each source of the variant `pages`: an engine for pages of 64 KiB, as it is on aarch64, on a
 * kernel that refuses what one with such pages does. */
#ifndef ACP_LARGE_PAGES_H
#define ACP_LARGE_PAGES_H

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#define PAGE ((uint64_t)64 << 10)

static inline void *mmap_of_large_pages(void *address, size_t length, int protection, int flags, int fd,
                                        off_t offset)
{
    if ((uint64_t)offset % PAGE == 0)
        return mmap(address, length, protection, flags, fd, offset);
    errno = EINVAL;
    return MAP_FAILED;
}
#define mmap mmap_of_large_pages

#endif
