#ifndef ACP_LIFELINE_H
#define ACP_LIFELINE_H

#include "core/engine.h"

void lifeline_ended(acp_engine *e);

#endif
