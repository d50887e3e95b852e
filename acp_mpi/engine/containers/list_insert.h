#ifndef ACP_LIST_INSERT_H
#define ACP_LIST_INSERT_H

#include "core/engine.h"

/* All: result[0] is the outcome. */
/* `b`: where; result[1]: how many went in, all or none; out: the id of the first */
int list_insert_method_put(acp_lane *lane, struct acp_call *call);
/* `b`: where | most << 8 | how << 32 */
int list_insert_method_take(acp_lane *lane, struct acp_call *call);

#endif
