/* Folding one array into another: left op right, element by element. */
#ifndef ACP_REDUCE_H
#define ACP_REDUCE_H

#include "core/messages.h"

#define ACP_OPS 10u
#define ACP_TYPES 14u

typedef void (*fold_fn)(void *out, const void *left, const void *right, uint64_t count);

/* NULL: not for these elements. `out` may be `left` or `right`. */
fold_fn reduce_fold(acp_fold op, acp_type type);
uint64_t reduce_type_size(acp_type type);

#endif
