#ifndef ACP_FLOW_RECV_H
#define ACP_FLOW_RECV_H

#include "core/engine.h"

struct courier;
struct message;
struct link;
struct peer;

/* Input */
void courier_frame(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                   const unsigned char *payload, uint64_t size);
void deliveries_push(acp_lane *lane, struct courier *c);
void deliveries_end(acp_lane *lane, struct courier *c); /* the peer is dead */
void deliveries_drop(struct courier *c);
void deliveries_want(acp_lane *lane, struct courier *c); /* a receive may have taken one */
/* records in `told` what the peer knows from now on */
void courier_tells(acp_engine *e, struct courier *c, uint8_t word);
void courier_room(acp_lane *lane, struct courier *c); /* tells the peer, if there is room */

#endif
