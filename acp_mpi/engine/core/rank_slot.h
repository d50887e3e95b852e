/* Ranks and slots. */
#ifndef ACP_RANK_SLOT_H
#define ACP_RANK_SLOT_H

#include "core/engine_state.h"

static inline uint32_t rank_slot_of(const acp_engine *e, uint32_t rank)
{
    return e->slot_of_rank ? e->slot_of_rank[rank] : rank;
}

#endif
