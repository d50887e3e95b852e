#ifndef ACP_PROTOCOL_SHM_H
#define ACP_PROTOCOL_SHM_H

#include "operations/op_table.h"

struct message;

struct bounce *protocol_shm_bounce(struct op *op, const struct message *reply);
void protocol_shm_release(acp_engine *e, struct op *op, struct bounce *b);
void protocol_shm_close(acp_engine *e);

extern const struct road road_ring;

#endif
