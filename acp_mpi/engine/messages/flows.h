#ifndef ACP_FLOWS_H
#define ACP_FLOWS_H

#include "core/engine.h"
#include "core/poller.h"

struct peer;

/* With the lock held: */
enum due flows_due(const acp_engine *e);
bool flows_push(acp_lane *lane); /* pushes every flow as far as it goes; true if any went on */
bool flows_begun(const acp_engine *e); /* each message has begun: its peer has it, or a link carries it */
void flows_lost(acp_lane *lane, struct peer *p);
void flows_reset(acp_engine *e);
/* Without it: from here on nothing of this process goes into another rank's mailbox, and frames that come wait, until
 * flows_resume. That is false if nothing was halted. */
void flows_halt(acp_engine *e);
bool flows_resume(acp_engine *e);
void flows_close(acp_engine *e);

#endif
