/* The array part of the window part: offsets of arrays only, used again for arrays only. All functions with the space
 * lock held. */
#ifndef ACP_WINDOW_BLOCKS_H
#define ACP_WINDOW_BLOCKS_H

#include "core/state/memory.h"

/* The array part of `bytes` at `offset`, all of it free. */
void window_blocks_create(struct memory_state *m, uint64_t offset, uint64_t bytes);
bool window_blocks_holds(const struct memory_state *m, uint64_t offset);
/* Offsets for `size` bytes, 0: none are free in one piece. *used: so many bytes from there on may have had another
 * content. */
uint64_t window_blocks_take(struct memory_state *m, uint64_t size, uint64_t *used);
void window_blocks_give(struct memory_state *m, struct range r);
uint64_t window_blocks_largest(const struct memory_state *m);

#endif
