#ifndef ACP_INTRODUCE_H
#define ACP_INTRODUCE_H

#include "core/engine.h"

struct link;

/* As a frame, some of those up to this newcomer, of whom the peer knows `told`; its size */
#define INTRODUCTION_MOST ((size_t)17 << 10)

size_t growth_introduce(const acp_engine *e, uint32_t *told, unsigned char *frame);

/* What a peer may not know that has joined before the others; false: no memory */
bool growth_tell(acp_lane *lane, struct link *link);

#endif
