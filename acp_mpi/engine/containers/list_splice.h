#ifndef ACP_LIST_SPLICE_H
#define ACP_LIST_SPLICE_H

#include "core/engine.h"

int list_splice_method_splice(acp_lane *lane, struct acp_call *call);
int list_splice_method_swap(acp_lane *lane, struct acp_call *call);

#endif
