#ifndef ACP_SEGMENT_H
#define ACP_SEGMENT_H

#include "core/state/memory.h"

/* Ranges of offsets */
void segment_range_push(struct ranges *list, struct range r);

#endif
