#ifndef ACP_CREDITS_H
#define ACP_CREDITS_H

#include "messages/mailbox.h"

struct heap;

/* A sender waits for room. False: so many do that this one must look again by itself. */
bool mail_want_room(struct mailbox *box, uint32_t slot);
/* Who waits for room in the own mailbox, if there is enough again, or (`asked`) a receive has been
 * posted that one of theirs may be for. In the section, and then without it. */
uint32_t mail_wanting_take(struct heap *h, bool asked, uint32_t slots[MAIL_WANTING]);
void mail_wanting_wake(acp_engine *e, const uint32_t slots[MAIL_WANTING], uint32_t count);
/* Is half of its bound free? */
bool mailbox_roomy(const struct mailbox *box);

#endif
