#ifndef ACP_RECV_WAIT_H
#define ACP_RECV_WAIT_H

#include "core/messages.h"

#define MAIL_AGAIN_NS ((int64_t)1000000) /* pause before another attempt to withdraw a send */
#define MAIL_FIRST_NS ((int64_t)20000000) /* of a wait; then it also listens for deaths */

/* any_source_wait, for those that `requests` wait for; `collectives`: these may end the wait, too. */
int recv_wait_until(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
                    acp_doing doing, acp_request *const *requests, uint32_t count, bool collectives);
/* Until one of `requests` is done, or `over(context)` is true; NULL: nothing else ends it. */
int recv_wait_any(acp_engine *e, acp_request *const *requests, uint32_t count, bool (*over)(void *),
                  void *context, bool collectives, acp_doing doing, int64_t timeout_ns);

/* For another wait that a receive ends, too: its message rings from now on; is it done; deaths of its senders count. */
void recv_wait_attend(acp_request *request);
bool recv_wait_done(acp_request *request);
bool recv_wait_may_sleep(const acp_request *request); /* its waiter has said so, before it looks once more and sleeps */
void recv_wait_watch(acp_engine *e, const acp_request *request);

#endif
