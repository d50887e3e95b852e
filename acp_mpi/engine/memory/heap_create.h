#ifndef ACP_HEAP_CREATE_H
#define ACP_HEAP_CREATE_H

#include "core/engine.h"

struct heap;

void heap_create_measure(struct heap *h); /* the fields that follow from its span */
uint64_t heap_create_bytes(uint64_t span); /* bytes that must be committed before heap_create */
/* On zeroed memory. `pinned`: bytes from the beginning that are committed already, for life. */
void heap_create(struct heap *h, uint64_t nonce, uint64_t limit, uint64_t pinned);
void heap_create_clear(struct heap *h); /* while it is not in use */

#endif
