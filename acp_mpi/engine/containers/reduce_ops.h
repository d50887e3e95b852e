#ifndef ACP_REDUCE_OPS_H
#define ACP_REDUCE_OPS_H

#include "containers/map_bucket.h"

/* `*word` becomes the result of `how` for it and the operand. */
bool reduce_ops_combine(uint64_t number, enum put_how how, void *value, const void *operand);

#endif
