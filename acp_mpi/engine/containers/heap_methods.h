#ifndef ACP_HEAP_METHODS_H
#define ACP_HEAP_METHODS_H

#include "core/engine.h"

/* A block of a message that stayed with its sender (sender_heap.c). */
int acp_free_held(acp_lane *lane, acp_ga_t ga, struct acp_call *call, acp_handle_t *pending);
int heap_methods_run(acp_lane *lane, struct acp_call *call);

#endif
