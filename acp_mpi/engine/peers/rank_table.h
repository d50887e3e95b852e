#ifndef ACP_RANK_TABLE_H
#define ACP_RANK_TABLE_H

#include "core/engine_state.h"

uint32_t rank_of_slot(const acp_engine *e, uint32_t slot); /* after a reset it searches */

/* The rows of all members, once per node */
static inline const uint32_t *table_slots(const acp_engine *e)
{
    return (const uint32_t *)(const void *)(e->job.table.base + TABLE_SLOTS);
}

void table_close(acp_engine *e); /* the descriptor */
void table_free(acp_engine *e); /* the mapping */
bool table_genuine(const acp_engine *e, int fd, uint32_t uid, uint64_t nonce);
struct row table_row(const acp_engine *e, uint32_t slot);
uint64_t table_node(const acp_engine *e, uint32_t slot);
bool table_read(const acp_engine *e, int fd, uint32_t first, struct row *rows, uint32_t count);
/* Slots below procs, rising: the lowest of each node, and those of this node. */
const uint32_t *table_firsts(const acp_engine *e, uint32_t *count);
const uint32_t *table_mates(const acp_engine *e, uint32_t *count);
bool table_together(const acp_engine *e); /* no rank treats ranks of its own node as remote (NODE_APART) */
int table_map(acp_engine *e, int fd); /* the table in that file, mapped */
const unsigned char *table_bytes(const acp_engine *e, uint32_t slot);
void table_pack(const acp_engine *e, const struct row *row, unsigned char *out);
/* The slots that rise from `array` on, and how many of `have` are below `limit`. */
const uint32_t *table_below(const acp_engine *e, uint64_t array, uint32_t have, uint32_t limit,
                            uint32_t *count);

#endif
