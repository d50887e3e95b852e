#ifndef ACP_COMPLETION_H
#define ACP_COMPLETION_H

#include "core/engine.h"

/* The number of a queued operation; 0: none so far that it could mean */
acp_handle_t completion_resolve(const acp_engine *e, acp_handle_t handle);

#endif
