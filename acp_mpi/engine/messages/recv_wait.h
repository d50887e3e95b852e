#ifndef ACP_RECV_WAIT_H
#define ACP_RECV_WAIT_H

#include "core/messages.h"

#define MAIL_AGAIN_NS ((int64_t)1000000) /* pause before another attempt to withdraw a send */
#define MAIL_FIRST_NS ((int64_t)20000000) /* of a wait; then it also listens for deaths */

/* wait_for_anybody, for those that `requests` wait for; `collectives`: these may end the wait, too. */
int mail_await(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
               acp_doing doing, acp_request *const *requests, uint32_t count, bool collectives);
/* Acp_wait_any of requests. Another number of departed ranks than `departed` ends it, too, and another of messages
 * that have come than `heard` (or NULL). */
int requests_wait(acp_engine *e, acp_request *const *requests, uint32_t count,
                  const uint32_t *departed, const uint64_t *heard, int64_t timeout_ns,
                  uint32_t *index);

#endif
