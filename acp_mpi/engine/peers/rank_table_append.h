#ifndef ACP_RANK_TABLE_APPEND_H
#define ACP_RANK_TABLE_APPEND_H

#include "core/engine.h"

int rank_table_append_permute(acp_engine *e, uint32_t first, const uint32_t *slots, uint32_t count);

#endif
