#ifndef ACP_CONTAINER_HEAD_H
#define ACP_CONTAINER_HEAD_H

#include "core/engine.h"

struct acp_call;
struct heap;

uint64_t container_head_size(uint64_t kind); /* 0: an unknown kind */
/* Does the block that is given out at that offset hold a head? */
bool container_head_at(const struct heap *h, uint64_t at);

int container_head_method_create(acp_lane *lane, struct acp_call *call);
int container_head_method_destroy(acp_lane *lane, struct acp_call *call);
/* `a` 0: whatever container there is. It brings serial and kind, and the note. */
int container_head_method_describe(acp_lane *lane, struct acp_call *call);

#endif
