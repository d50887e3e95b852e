#ifndef ACP_LEAVE_H
#define ACP_LEAVE_H

#include "core/engine.h"

void leave_attach(acp_engine *e); /* with the space lock */

#endif
