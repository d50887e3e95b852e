#ifndef ACP_SEGMENT_H
#define ACP_SEGMENT_H

#include "core/state/memory.h"

/* Ranges of offsets */
void range_push(struct range **list, uint32_t *count, uint32_t *room, struct range r);

#endif
