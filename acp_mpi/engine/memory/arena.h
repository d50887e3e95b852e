#ifndef ACP_ARENA_H
#define ACP_ARENA_H

#include "core/engine.h"

/* The memory of this rank */
int memory_create(acp_engine *e, acp_fault *fault);
void memory_close(acp_engine *e); /* the descriptor */
void memory_reset(acp_engine *e);
void memory_release(acp_engine *e);
/* Around a call of the system on a memory file, the own one or a peer's, without the space lock: until it
 * has ended no descriptor is closed, whose number another file would get. False: they are, or soon. */
bool memory_enter(acp_engine *e);
void memory_leave(acp_engine *e);
void memory_await(acp_engine *e); /* all have left; from `stopping` on nobody enters */

#endif
