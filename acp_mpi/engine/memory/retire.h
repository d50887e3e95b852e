#ifndef ACP_RETIRE_H
#define ACP_RETIRE_H

#include "core/poller.h"

struct memory_state;

/* The end of segments */
void memory_unpunched(struct memory_state *m, uint64_t offset, uint64_t bytes);
void memory_punch(acp_engine *e); /* with the space lock, which it lets go meanwhile */
enum due retire_due(const acp_engine *e);
bool segment_retirees_step(acp_engine *e); /* true: some remain */
void retirees_close(acp_engine *e);

#endif
