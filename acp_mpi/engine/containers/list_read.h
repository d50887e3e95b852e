#ifndef ACP_LIST_READ_H
#define ACP_LIST_READ_H

#include "core/engine.h"

struct hold;
struct list;
struct list_span;

int list_read_method_walk(acp_lane *lane, struct acp_call *call); /* `b`: flags | most << 8 */
int list_read_method_step(acp_lane *lane, struct acp_call *call); /* `b`: how far; result[1]: done */
int list_read_method_check(acp_lane *lane, struct acp_call *call); /* out: a byte for each id */
/* The elements from `first` up to `last`: the last of them, and their number. */
bool list_read_span(const struct hold *hold, const struct list *list, const struct list_span *span,
                    uint64_t *last, uint64_t *count);

#endif
