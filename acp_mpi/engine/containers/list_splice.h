#ifndef ACP_LIST_SPLICE_H
#define ACP_LIST_SPLICE_H

#include "core/engine.h"

int method_list_splice(acp_lane *lane, struct acp_call *call);
int method_list_swap(acp_lane *lane, struct acp_call *call);

#endif
