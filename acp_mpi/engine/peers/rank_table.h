#ifndef ACP_RANK_TABLE_H
#define ACP_RANK_TABLE_H

#include "core/engine_state.h"

uint32_t rank_table_rank(const acp_engine *e, uint32_t slot); /* after a reset it searches */

/* The rows of all members, once per node */
static inline const uint32_t *rank_table_slots(const acp_engine *e)
{
    return (const uint32_t *)(const void *)(e->job.table.base + TABLE_SLOTS);
}

void rank_table_close(acp_engine *e); /* the descriptor */
void rank_table_free(acp_engine *e); /* the mapping */
bool rank_table_genuine(const acp_engine *e, int fd, uint32_t uid, uint64_t nonce);
struct row rank_table_row(const acp_engine *e, uint32_t slot);
uint64_t rank_table_node(const acp_engine *e, uint32_t slot);
bool rank_table_service(const acp_engine *e, uint32_t slot);
uint32_t rank_table_services(const acp_engine *e); /* how many, at the most, also beyond procs */
bool rank_table_read(const acp_engine *e, int fd, uint32_t first, struct row *rows, uint32_t count);
/* Slots below procs, rising: the lowest of each node, and those of this node. */
const uint32_t *rank_table_firsts(const acp_engine *e, uint32_t *count);
const uint32_t *rank_table_mates(const acp_engine *e, uint32_t *count);
bool rank_table_together(const acp_engine *e); /* no rank treats ranks of its own node as remote (NODE_APART) */
int rank_table_map(acp_engine *e, int fd); /* the table in that file, mapped */
const unsigned char *rank_table_bytes(const acp_engine *e, uint32_t slot);
void rank_table_pack(const acp_engine *e, const struct row *row, unsigned char *out);
/* The slots that rise from `array` on, and how many of `have` are below `limit`. */
const uint32_t *rank_table_below(const acp_engine *e, uint64_t array, uint32_t have, uint32_t limit,
                                 uint32_t *count);

#endif
