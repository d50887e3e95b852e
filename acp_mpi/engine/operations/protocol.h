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
bool protocol_retry(acp_lane *lane); /* all that are stalled; true: one went on */
bool protocol_slice(acp_lane *lane); /* of work in the background; takes the lock itself */

#endif
