#ifndef ACP_LIST_SORT_H
#define ACP_LIST_SORT_H

#include "core/engine.h"

int list_sort_method_order(acp_lane *lane, struct acp_call *call);
int list_sort_method_reverse(acp_lane *lane, struct acp_call *call);

#endif
