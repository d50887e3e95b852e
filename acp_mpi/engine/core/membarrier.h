#ifndef ACP_MEMBARRIER_H
#define ACP_MEMBARRIER_H

#include "core/engine.h"

void membarrier_start(acp_engine *e);
void membarrier_join(acp_engine *e);
int membarrier_all(void);

#endif
