#ifndef ACP_FLOW_SOLICIT_H
#define ACP_FLOW_SOLICIT_H

#include "core/messages.h"

struct courier;
struct message;
struct parcel;

/* The sender's part: tries a message for a solicitation, if there is one; a tried message has met a receive or missed
 * it; a message is new in the queue; a solicitation has come; or there is room again. */
bool ask_answer(acp_lane *lane, struct courier *c, int *rc);
void ask_over(struct courier *c, const struct parcel *p);
void asks_meet(struct courier *c, const struct parcel *p);
void ask_came(struct courier *c, const struct message *m);
void asks_drop(struct courier *c);

/* A receive has been posted while peers wait for room here, one of which may have its message. */
void mail_ask(acp_engine *e, const acp_envelope *want, uint64_t sequence);

#endif
