#ifndef ACP_LIST_BULK_H
#define ACP_LIST_BULK_H

#include "core/engine.h"

struct hold;
struct list;

int list_bulk_method_erase(acp_lane *lane, struct acp_call *call);
int list_bulk_method_clear(acp_lane *lane, struct acp_call *call);
int list_bulk_method_bury(acp_lane *lane, struct acp_call *call); /* out: blocks of other ranks */
int list_bulk_clear(struct hold *hold, struct list *list);
/* The first erased node goes, with its block if that is in this heap. */
int list_bulk_bury(struct hold *hold, struct list *list, acp_ga_t *elsewhere);
int list_bulk_finish(struct hold *hold, struct list *list);

#endif
