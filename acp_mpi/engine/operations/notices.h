#ifndef ACP_NOTICES_H
#define ACP_NOTICES_H

#include "core/engine.h"
#include "core/layout.h"

struct link;
struct peer;

void notices_leave_heard(acp_lane *lane, struct peer *p, const struct message *m); /* as its message tells */

/* Notices of ranks that are lost or leave; with the lock held */
void notices_send_all(acp_lane *lane, const struct message *m); /* to all that this process is in touch with */
void notices_tell(acp_lane *lane, const struct peer *p);
void notices_loss_heard(acp_lane *lane, const struct message *m);
/* To a peer without links so far: all that others were told and it may need. */
void notices_catch_up(acp_lane *lane, struct peer *to, struct link *link);

#define NEWS_ENDS 2u /* `a` of ACP_NEWS: the ranks of the slots `b` to `after` are in finalize, and have said all */

/* Notices of those ends go to the peers that rely on this process */
void notices_say_ends(acp_lane *lane, struct peer *to); /* `to` does from now on */
void notices_ends_heard(acp_lane *lane, const struct peer *from, uint64_t low, uint64_t high);

#endif
