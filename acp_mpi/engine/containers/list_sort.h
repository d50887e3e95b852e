#ifndef ACP_LIST_SORT_H
#define ACP_LIST_SORT_H

#include "core/engine.h"

int method_list_order(acp_lane *lane, struct acp_call *call);
int method_list_reverse(acp_lane *lane, struct acp_call *call);

#endif
