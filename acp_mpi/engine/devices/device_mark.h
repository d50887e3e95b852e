#ifndef ACP_DEVICE_MARK_H
#define ACP_DEVICE_MARK_H

#include "memory/translate.h"

/* Brackets a copy of a device that touches the memory of a peer of the node, or of this process: until it leaves the
 * owner does not let that memory go. False: the region has died, and nothing is entered. */
bool device_mark_enter(acp_engine *e, const struct translation *t, uint32_t *turn);
void device_mark_leave(acp_engine *e, struct peer *p, uint32_t turn);

#endif
