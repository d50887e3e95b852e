#ifndef ACP_SEGMENT_H
#define ACP_SEGMENT_H

#include "core/state/memory.h"

struct region;

/* Publishes a region without memory of its own at new offsets: all but `offset` is given. */
int segment_publish(acp_lane *lane, struct region *region, acp_ga_t *ga);
/* Ranges of offsets */
void segment_range_push(struct ranges *list, struct range r);

#endif
