#ifndef ACP_SCHEDULE_EAGER_H
#define ACP_SCHEDULE_EAGER_H

#include "core/messages.h"

/* Short messages of a pair that has no others in this collective */
bool collective_sends_eagerly(acp_lane *lane, const acp_collective *c, const acp_step *s,
                              const acp_envelope *envelope, const void *data);
void collective_sent(acp_lane *lane, const acp_collective *c, const acp_step *s); /* to a mailbox */
/* One that its receiver has not taken goes before a note. ACP_E_BUSY: again soon. */
int collective_recall(acp_lane *lane, const acp_collective *c, uint32_t rank);
void collective_received(const acp_collective *c, const acp_step *s); /* from the mailbox */
int collective_expect(acp_lane *lane, acp_collective *c, uint32_t step); /* ACP_STEP_RECEIVE */
int collective_look(acp_lane *lane, acp_collective *c); /* new messages; ACP_E_BUSY: again soon */
void collective_look_on(acp_collective *c); /* a short while, after which it is heavy */
/* From now on all messages go to the mailbox. ACP_E_BUSY: not all are there yet. */
int collective_close_slots(acp_lane *lane, acp_collective *c);

#endif
