#ifndef ACP_FLOW_CONTROL_H
#define ACP_FLOW_CONTROL_H

#include "core/engine.h"

struct flow;
struct message;

/* The peer's answers */
void flow_control_handle(acp_lane *lane, struct flow *c, const struct message *m,
                         const unsigned char *payload, uint64_t size);

#endif
