#ifndef ACP_LIST_ENDS_H
#define ACP_LIST_ENDS_H

#include <stdbool.h>
#include <stdint.h>

struct acp_call;
struct hold;
struct list;
struct list_id;

/* One element of a few bytes; false: not as simple as that, and nothing has happened. */
bool list_ends_put(struct hold *hold, struct list *list, bool front, const void *data, uint64_t size,
                   struct list_id *id);
bool list_ends_take(struct hold *hold, struct list *list, struct acp_call *call, bool front);
int list_ends_finish(struct hold *hold, struct list *list);

#endif
