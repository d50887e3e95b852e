#ifndef ACP_CUDA_MEMORY_H
#define ACP_CUDA_MEMORY_H

#include "devices/cuda_context.h"

/* Blocks: calls of the table of the kind (devices/kind.h). */
int cuda_memory_allocate(void *state, struct kind_place place, uint64_t size, struct kind_block *block,
                         struct kind_fault *fault);
int cuda_memory_adopt(void *state, struct kind_place place, uint64_t address, uint64_t size, struct kind_block *block,
                      struct kind_fault *fault);
void cuda_memory_release(void *state, struct kind_block *block);
int cuda_memory_publish(void *state, const struct kind_block *block, struct kind_ticket *ticket, int *descriptor,
                        struct kind_fault *fault);
int cuda_memory_import(void *state, const struct kind_ticket *ticket, int descriptor, struct kind_block *block,
                       struct kind_fault *fault);
int cuda_memory_pin(void *state, struct kind_place place, void *host, uint64_t size, uint64_t *address,
                    struct kind_fault *fault);
void cuda_memory_unpin(void *state, void *host);

/* Whether the block is physical memory that is mapped for one device of this process. */
bool cuda_memory_maps(const struct kind_block *block);

#endif
