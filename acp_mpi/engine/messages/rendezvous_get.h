#ifndef ACP_RENDEZVOUS_GET_H
#define ACP_RENDEZVOUS_GET_H

#include "core/messages.h"

void pull_free(acp_request *request);
void pull_drop(acp_request *request); /* nothing is under way any more */
/* a transfer is under way: pull_free would wait, which a leader cannot */
bool pull_under_way(const acp_request *request);
uint64_t pull_at(const acp_request *request); /* bytes that have come so far */

#endif
