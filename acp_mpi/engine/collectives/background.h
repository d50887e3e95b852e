#ifndef ACP_BACKGROUND_H
#define ACP_BACKGROUND_H

#include "core/messages.h"
#include "core/poller.h"

/* Background collectives */
/* Watches the senders of its messages, which watch theirs in turn; and members that call something else, even if no
 * message of theirs is awaited. */
void collective_watch(acp_collective *c);
bool collective_overdue(acp_collective *c); /* time to watch, or to watch anew, after so long a wait */
int64_t collective_patience(const acp_collective *c); /* until then */
enum due background_due(const acp_engine *e);
bool collectives_step(acp_lane *lane); /* leader only */
bool collectives_try(acp_engine *e); /* to have the lock, also that of the mailbox against a reset */
void collectives_unlock(acp_engine *e);
void collectives_close(acp_engine *e); /* all end where they are; the leader is gone */
/* Before and after a reset: collectives are not driven in between, and those from before end where they are. */
void collectives_stop(acp_engine *e);
void collectives_go_on(acp_engine *e);

#endif
