#ifndef ACP_PROTOCOL_H
#define ACP_PROTOCOL_H

#include "core/engine.h"

struct message;
struct op;

/* The steps of each way */
void op_start(acp_lane *lane, struct op *op);
void op_push(acp_lane *lane, struct op *op); /* more chunks, while there is room */
void op_reply(acp_lane *lane, struct op *op, const struct message *m,
              const unsigned char *payload, uint64_t size);
bool op_start_behind(acp_lane *lane, struct op *op);
void op_fault_from_lane(acp_lane *lane, struct op *op);
int part_read(acp_lane *lane, struct op *op, uint64_t at, uint64_t size, unsigned char *buffer,
              uint64_t *sum);
int part_write(acp_lane *lane, struct op *op, uint64_t at, uint64_t size,
               const unsigned char *buffer);

#endif
