#ifndef ACP_RETIRE_H
#define ACP_RETIRE_H

#include "core/poller.h"

/* The end of segments */
void retire_memory(acp_engine *e, uint64_t offset, uint64_t bytes); /* with the space lock */
void retire_punch(acp_engine *e); /* with the space lock, which it lets go meanwhile */
enum due retire_due(const acp_engine *e);
bool retire_step(acp_engine *e); /* true: some remain */
void retirees_close(acp_engine *e);

#endif
