#ifndef ACP_KEEPALIVE_H
#define ACP_KEEPALIVE_H

#include "core/engine.h"

/* Deadlines, calls to be made again, signs of life, `late` after they were due. */
void keepalive_tick(acp_lane *lane, uint64_t late);
void keepalive_watch(acp_engine *e); /* a thread waits: checks that the peers live */
/* Before the end: another rank may wait for the last frame, which a broken connection would take with it. */
void keepalive_await(acp_engine *e);
bool keepalive_arrived(acp_engine *e); /* all that was said on them; else it is asked for. With the lock held */

#endif
