#ifndef ACP_BACKGROUND_H
#define ACP_BACKGROUND_H

#include "core/messages.h"

/* Those that go on by themselves */
/* Hear of the loss of those from whom its messages are to come; they watch theirs. And of members that call
 * something else, of which it may await nothing. */
void collective_watch(acp_collective *c);
bool collective_overdue(acp_collective *c); /* it has been waited for so long that it should watch, or watch anew */
int64_t collective_patience(const acp_collective *c); /* until then */
bool collectives_step(acp_lane *lane); /* leader only */
bool collectives_try(acp_engine *e); /* to have the lock, also that of the mailbox against a reset */
void collectives_unlock(acp_engine *e);
void collectives_close(acp_engine *e); /* all end where they are, and nobody leads any more */
/* Before and after a reset: nobody drives one, and those of before end where they are. */
void collectives_stop(acp_engine *e);
void collectives_go_on(acp_engine *e);

#endif
