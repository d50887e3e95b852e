#ifndef ACP_PROTOCOL_TCP_H
#define ACP_PROTOCOL_TCP_H

#include "operations/op_table.h"

struct message;
struct peer;

extern const struct road road_link;

int protocol_tcp_command(acp_lane *lane, struct peer *to, uint32_t color, const struct message *m,
                         const void *payload, uint64_t size);
/* The same of a message that no answer follows: link_io_send_mail. */
int protocol_tcp_mail(acp_lane *lane, struct peer *to, uint32_t color, const struct message *m,
                      const void *payload, uint64_t size, bool has_time);

#endif
