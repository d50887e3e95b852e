#ifndef ACP_BACKGROUND_H
#define ACP_BACKGROUND_H

#include "core/messages.h"
#include "core/poller.h"

/* Background collectives */
enum due background_due(const acp_engine *e);
bool background_step(acp_lane *lane); /* leader only */
void background_close(acp_engine *e); /* all end where they are; the leader is gone */
/* Before and after a reset: collectives are not driven in between. If the mailbox was `emptied` those from before end
 * where they are, and not earlier: to take their messages back would be to write to mailboxes that are new by then. */
void background_stop(acp_engine *e);
void background_resume(acp_engine *e, bool emptied);

#endif
