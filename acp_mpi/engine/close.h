#ifndef ACP_CLOSE_H
#define ACP_CLOSE_H

#include "core/engine.h"

void close_destroy(acp_engine *e); /* nobody uses it */

#endif
