#ifndef ACP_MESSAGE_SEND_QUEUE_H
#define ACP_MESSAGE_SEND_QUEUE_H

#include "core/messages.h"
#include "core/poller.h"

struct peer;

int message_send_queue_add(acp_lane *lane, const acp_request *draft, acp_request **request);
bool message_send_queue_has(acp_engine *e, const struct peer *to);
/* Ends a send that waits for credit, or for memory; with a `note` its receiver gets that alone, and `*request` is NULL
 * if it ends by itself. ACP_E_BUSY: call again. ACP_E_HANDLE: too late. */
int message_send_queue_withdraw(acp_lane *lane, acp_request **request, const uint64_t *note);
int message_send_queue_finish(acp_lane *lane, acp_request *request);
/* One slice of each queued send: leader only. True: something was done. */
enum due message_send_queue_due(const acp_engine *e);
bool message_send_queue_step(acp_lane *lane);
void message_send_queue_reset(acp_engine *e);

#endif
