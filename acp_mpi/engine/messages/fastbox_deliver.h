#ifndef ACP_FASTBOX_DELIVER_H
#define ACP_FASTBOX_DELIVER_H

#include "core/engine.h"

struct hold;
struct peer;

/* To the mailbox, in the order in which they were sent. In the section of one's own mailbox all, of
 * another's mailbox one's own. ACP_E_FULL, ACP_E_BUSY: some are still in their boxes. */
int fast_clear(struct hold *hold);
int fast_bring(acp_lane *lane, struct peer *to);
void fast_release(struct hold *hold); /* the boxes of those who have ended, after they were cleared */

#endif
