#ifndef ACP_LINK_CACHE_H
#define ACP_LINK_CACHE_H

#include "core/engine.h"

void link_cache_limit(acp_engine *e); /* at creation: the number of links that keep a connection */
bool link_cache_spare(acp_engine *e); /* one more descriptor is free now; false: no link is idle */
uint64_t link_cache_tick(acp_engine *e, uint64_t now); /* idle links rest where connections are too many; when next */

#endif
