#ifndef ACP_OPENCL_MEMORY_H
#define ACP_OPENCL_MEMORY_H

#include "devices/opencl_context.h"

/* The kind's of a block. */
struct opencl_block {
    struct opencl_use *use;
    opencl_memory memory;
    opencl_queue stream; /* the program's, held; NULL: none */
    unsigned char *host; /* its bytes, for loads and stores; NULL: the device alone has them */
    int fd;              /* of memory that other processes can map; else -1 */
};

/* Blocks: calls of the table of the kind (devices/kind.h). */
int opencl_memory_allocate(void *state, struct kind_place place, uint64_t size, struct kind_block *block,
                           struct kind_fault *fault);
int opencl_memory_adopt(void *state, struct kind_place place, uint64_t address, uint64_t size,
                        struct kind_block *block, struct kind_fault *fault);
void opencl_memory_release(void *state, struct kind_block *block);
int opencl_memory_publish(void *state, const struct kind_block *block, struct kind_ticket *ticket, int *descriptor,
                          struct kind_fault *fault);
int opencl_memory_import(void *state, const struct kind_ticket *ticket, int descriptor, struct kind_block *block,
                         struct kind_fault *fault);

#endif
