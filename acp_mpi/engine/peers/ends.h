/* Ranks in finalize all of whose messages have arrived, as spans of slots: apart, in rising order. With the lock held. */
#ifndef ACP_ENDS_H
#define ACP_ENDS_H

#include "base/span.h"
#include "core/engine.h"

bool ends_add(acp_engine *e, struct span s); /* false: all of it is there already, or there is no memory */
bool ends_have(const acp_engine *e, uint32_t slot);

#endif
