#ifndef ACP_RECV_H
#define ACP_RECV_H

#include "messages/mailbox.h"

bool recv_follow(acp_request *request); /* true: some have come */
enum entry_state recv_state(const acp_request *request);

#endif
