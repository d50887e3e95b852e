#ifndef ACP_RENDEZVOUS_GET_H
#define ACP_RENDEZVOUS_GET_H

#include "core/messages.h"

void rendezvous_get_free(acp_request *request);
void rendezvous_get_drop(acp_request *request); /* nothing is under way any more */
/* a transfer is under way: rendezvous_get_free would wait, which a leader cannot */
bool rendezvous_get_active(const acp_request *request);
uint64_t rendezvous_get_bytes(const acp_request *request); /* bytes that have come so far */

#endif
