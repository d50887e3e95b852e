#ifndef ACP_CREDITS_H
#define ACP_CREDITS_H

#include "messages/mailbox.h"

struct heap;

/* Registers a sender that waits for room. False: too many wait already, and this one must poll. */
bool credits_register(struct mailbox *box, uint32_t slot);
/* Takes the senders that wait for room in the own mailbox, if there is enough again, or (`asked`) a receive has been
 * posted that a message of theirs may fit. In the section; then wake them without it. */
uint32_t credits_take_waiters(struct heap *h, bool asked, uint32_t slots[MAIL_WANTING]);
void credits_wake(acp_engine *e, const uint32_t slots[MAIL_WANTING], uint32_t count);
/* Is half of its bound free? */
bool credits_available(const struct mailbox *box);

#endif
