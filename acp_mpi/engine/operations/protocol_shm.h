#ifndef ACP_PROTOCOL_SHM_H
#define ACP_PROTOCOL_SHM_H

#include "operations/op_table.h"

struct message;

struct bounce *bounce_of(struct op *op, const struct message *reply);
void bounce_give(acp_engine *e, struct op *op, struct bounce *b);
void inbox_close(acp_engine *e);

extern const struct road road_ring;

#endif
