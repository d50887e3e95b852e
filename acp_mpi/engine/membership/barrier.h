#ifndef ACP_BARRIER_H
#define ACP_BARRIER_H

#include "core/engine.h"

void barriers_drop_unfinished(acp_engine *e);

#endif
