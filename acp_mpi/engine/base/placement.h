/* Where the kernel places the pages of shared memory: on which NUMA node, and in how large pages. A kernel that refuses
 * (containers often do), or has one node only, places them as it likes: nothing here fails. */
#ifndef ACP_PLACEMENT_H
#define ACP_PLACEMENT_H

#include <stdint.h>

/* Pages of a mapped file that nobody has touched yet come to the node on which the caller runs now, whichever process
 * touches them first, while that node has memory. */
void placement_prefer_here(void *base, uint64_t size);
/* The size of the large pages that files in memory may have on this system; 0: they have none. */
uint64_t placement_large_page(void);
/* Touches what there is of whole large pages, so that it is memory in such pages. */
void placement_fill_large(unsigned char *base, uint64_t size, uint64_t large);

#endif
