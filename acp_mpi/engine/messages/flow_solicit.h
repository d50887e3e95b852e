#ifndef ACP_FLOW_SOLICIT_H
#define ACP_FLOW_SOLICIT_H

#include "core/messages.h"

struct flow;
struct message;
struct outgoing;

/* The sender's part: tries a message for a solicitation, if there is one; a tried message has met a receive or missed
 * it; a message is new in the queue; a solicitation has come; or there is room again. */
bool flow_solicit_answer(acp_lane *lane, struct flow *c, int *rc);
void flow_solicit_done(struct flow *c, const struct outgoing *p);
void flow_solicit_match(struct flow *c, const struct outgoing *p);
void flow_solicit_arrived(struct flow *c, const struct message *m);
void flow_solicit_drop(struct flow *c);

/* A receive has been posted while peers wait for room here, one of which may have its message. */
void flow_solicit_senders(acp_engine *e, const acp_envelope *want, uint64_t sequence);

#endif
