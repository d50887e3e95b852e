#ifndef ACP_LEAVE_H
#define ACP_LEAVE_H

#include "core/engine.h"

void meet_who_stays(acp_engine *e); /* with the space lock */

#endif
