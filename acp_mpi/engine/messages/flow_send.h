#ifndef ACP_FLOW_SEND_H
#define ACP_FLOW_SEND_H

#include "core/messages.h"

struct flow;
struct outgoing;
struct peer;

/* Output, beside flow_send_message */
struct outgoing *flow_send_new(acp_engine *e, struct flow *c, uint64_t id); /* 0: of its own */
/* With that it has ended, and its request, if there is one. */
void flow_send_cancelled(struct flow *c, struct outgoing *p);
int flow_send_try(acp_lane *lane, struct flow *c, struct outgoing *p, uint8_t asked, uint64_t before);
bool flow_send_push(acp_lane *lane, struct flow *c); /* as far as it goes; true if any message went on */
void flow_send_fail(acp_lane *lane, struct flow *c, int status); /* nothing goes there any more */
void flow_send_drop(struct flow *c, int status); /* like flow_send_fail, after the heap has gone */

/* A message to a rank with a mailbox out of reach of load and store. */
int flow_send_message(acp_lane *lane, struct peer *to, const acp_envelope *envelope, const void *data,
                      acp_request **request);
int flow_send_withdraw(acp_request *request, const uint64_t *note); /* message_send_queue_withdraw of such a message */

#endif
