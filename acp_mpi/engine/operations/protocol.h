#ifndef ACP_PROTOCOL_H
#define ACP_PROTOCOL_H

#include "core/engine.h"

struct message;
struct op;

/* The steps of each way */
void protocol_start(acp_lane *lane, struct op *op);
void protocol_push(acp_lane *lane, struct op *op); /* more chunks, while there is room */
void protocol_reply(acp_lane *lane, struct op *op, const struct message *m,
                    const unsigned char *payload, uint64_t size);
bool protocol_start_behind(acp_lane *lane, struct op *op);
void protocol_lane_fault(acp_lane *lane, struct op *op);
int protocol_part_read(acp_lane *lane, struct op *op, uint64_t at, uint64_t size, unsigned char *buffer,
                       uint64_t *sum);
int protocol_part_write(acp_lane *lane, struct op *op, uint64_t at, uint64_t size,
                        const unsigned char *buffer);

#endif
