#ifndef ACP_SCHEDULE_EAGER_H
#define ACP_SCHEDULE_EAGER_H

#include "core/messages.h"

/* Short messages of a pair that has no others in this collective */
bool schedule_eager_send(acp_lane *lane, const acp_collective *c, const acp_step *s,
                         const acp_envelope *envelope, const void *data);
int schedule_eager_expect(acp_lane *lane, acp_collective *c, uint32_t step); /* ACP_STEP_RECEIVE */
int schedule_eager_poll(acp_lane *lane, acp_collective *c); /* new messages; ACP_E_BUSY: again soon */
void schedule_eager_spin(acp_collective *c); /* a short while, after which it is heavy */

#endif
