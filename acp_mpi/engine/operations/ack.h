#ifndef ACP_ACK_H
#define ACP_ACK_H

#include "core/engine.h"

struct link;
struct message;

/* One answer for many commands */
void ack_add(acp_lane *lane, struct link *link, const struct message *m);
void ack_send(acp_lane *lane, struct link *link);
uint32_t ack_take(struct link *link, const struct message *m); /* how many commands have been run */

#endif
