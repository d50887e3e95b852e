#ifndef ACP_MAP_BULK_H
#define ACP_MAP_BULK_H

#include "core/engine.h"

/* Records of any stripes, best together. result: bytes done, records done. Found or not: a byte each for put and
 * erase; see map_bulk.c for find. */
int map_bulk_method_put_many(acp_lane *lane, struct acp_call *call);
int map_bulk_method_erase_many(acp_lane *lane, struct acp_call *call);
int map_bulk_method_find_many(acp_lane *lane, struct acp_call *call);

#endif
