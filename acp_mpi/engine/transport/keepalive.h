#ifndef ACP_KEEPALIVE_H
#define ACP_KEEPALIVE_H

#include "core/engine.h"

struct link;

/* Deadlines, calls to be made again, signs of life, `late` after they were due. */
void links_tick(acp_lane *lane, uint64_t late);
void links_watch(acp_engine *e); /* somebody waits: are the peers still there? */
/* Before the end: another rank may wait for the last word, which a wire that breaks takes with it. */
void links_await(acp_engine *e);
void link_count_down(acp_engine *e, const struct link *link); /* until it is lost */

#endif
