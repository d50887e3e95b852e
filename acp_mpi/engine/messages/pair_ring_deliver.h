#ifndef ACP_PAIR_RING_DELIVER_H
#define ACP_PAIR_RING_DELIVER_H

#include "core/state/messages.h"

struct hold;
struct peer;

/* To the mailbox, in the order in which they were sent. In the section of the own mailbox: all rings of a class; of
 * another's mailbox: the own ring there. ACP_E_FULL, ACP_E_BUSY: some messages are still in their rings. ACP_E_DAMAGED: a
 * wild pointer wrote there, and a message may be gone. A call that wants a message is told, and all others that may have
 * waited for it; then the next ones come. `want` may be NULL: nobody is told. */
int pair_ring_deliver_all(struct hold *hold, enum mail_class class, const acp_envelope *want);
int pair_ring_deliver_own(acp_lane *lane, struct peer *to, enum mail_class class);
/* A thread that waits for a message for long asks those who may have put one into a ring here, for nobody else knows
 * whether it is gone. They bring what is there, and a receive, or a probe, for what is not ends with ACP_E_DAMAGED. */
void pair_ring_deliver_ask(acp_engine *e);
void pair_ring_deliver_answer(acp_lane *lane);
void pair_ring_deliver_release(struct hold *hold, enum mail_class class); /* the rings of ended processes, after they were cleared */

#endif
