#ifndef ACP_SEND_H
#define ACP_SEND_H

#include "core/messages.h"

/* acp_send to a receive that is posted already, if it is a process of this node whose memory this one may copy to.
 * ACP_E_HANDLE: it is not, nothing has happened. */
int send_posted(acp_lane *lane, uint32_t dest, const acp_envelope *envelope, const void *data, acp_request **request);

/* ACP_E_BUSY, ACP_E_FULL: not yet. `first`: the first one that waits for the same rank, NULL: it is. */
int send_advance(acp_lane *lane, acp_request *request, const acp_request *first);

#endif
