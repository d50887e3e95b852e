#ifndef ACP_UNMAP_H
#define ACP_UNMAP_H

#include "core/engine.h"

void peers_close(acp_engine *e); /* descriptors */
void peers_free(acp_engine *e); /* mappings */

#endif
