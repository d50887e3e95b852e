#ifndef ACP_UNMAP_H
#define ACP_UNMAP_H

#include "core/engine.h"

void unmap_close(acp_engine *e); /* descriptors */
void unmap_free(acp_engine *e); /* mappings */

#endif
