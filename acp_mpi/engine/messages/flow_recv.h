#ifndef ACP_FLOW_RECV_H
#define ACP_FLOW_RECV_H

#include "core/engine.h"

struct flow;
struct message;
struct link;
struct peer;

/* Input */
void flow_recv_frame(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                     const unsigned char *payload, uint64_t size);
void flow_recv_retry(acp_lane *lane, struct flow *c);
void flow_recv_lost(acp_lane *lane, struct flow *c); /* the peer is dead */
void flow_recv_drop(struct flow *c);
void flow_recv_want(acp_lane *lane, struct flow *c); /* a receive may have taken one */
/* records in `told` what the peer knows from now on */
void flow_recv_set_told(acp_engine *e, struct flow *c, uint8_t word);
void flow_recv_grant(acp_lane *lane, struct flow *c); /* tells the peer, if there is room */

#endif
