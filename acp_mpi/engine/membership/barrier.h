#ifndef ACP_BARRIER_H
#define ACP_BARRIER_H

#include "core/engine.h"

/* The state of an entry: users (12 bits), arrived (12), 0 (8), generation (20), check (12). An odd weight for each
 * number, so that the check sees every changed bit but the highest of a generation. */
#define BARRIER_CHECK 52
#define BARRIER_USER (1ull | 0x9e5ull << BARRIER_CHECK)
#define BARRIER_ARRIVE (1ull << 12 | 0x37bull << BARRIER_CHECK)
#define BARRIER_GENERATION (1ull << 32 | 0x6a9ull << BARRIER_CHECK)

void barriers_drop_unfinished(acp_engine *e);

#endif
