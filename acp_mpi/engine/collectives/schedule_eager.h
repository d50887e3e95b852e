#ifndef ACP_SCHEDULE_EAGER_H
#define ACP_SCHEDULE_EAGER_H

#include "core/messages.h"

/* Short messages of a pair that has no others in this collective */
bool schedule_eager_send(acp_lane *lane, const acp_collective *c, const acp_step *s,
                         const acp_envelope *envelope, const void *data);
void schedule_eager_sent(acp_lane *lane, const acp_collective *c, const acp_step *s); /* to a mailbox */
/* One that its receiver has not taken goes before a note. ACP_E_BUSY: again soon. */
int schedule_eager_recall(acp_lane *lane, const acp_collective *c, uint32_t rank);
void schedule_eager_received(const acp_collective *c, const acp_step *s); /* from the mailbox */
int schedule_eager_expect(acp_lane *lane, acp_collective *c, uint32_t step); /* ACP_STEP_RECEIVE */
int schedule_eager_poll(acp_lane *lane, acp_collective *c); /* new messages; ACP_E_BUSY: again soon */
bool schedule_eager_left(const acp_collective *c); /* one of an open receive is in its slot */
void schedule_eager_spin(acp_collective *c); /* a short while, after which it is heavy */
/* From now on all messages go to the mailbox. ACP_E_BUSY: not all are there yet. */
int schedule_eager_close(acp_lane *lane, acp_collective *c);

#endif
