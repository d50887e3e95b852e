#ifndef ACP_UNMAP_H
#define ACP_UNMAP_H

#include "core/engine.h"

void unmap_all(acp_engine *e);

#endif
