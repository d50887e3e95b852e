/* Messages that travel: to ranks whose mailbox load and store do not reach. */
#include "request.h"

int mail_send_far(acp_lane *lane, struct peer *to, const acp_envelope *envelope, const void *data,
                  acp_request **request)
{
    (void)data;
    (void)request;
    fail(lane, ACP_E_PRIVATE, 0, envelope->size);
    lane->fault.rank = rank_of_slot(lane->engine, to->slot);
    return ACP_E_PRIVATE;
}
