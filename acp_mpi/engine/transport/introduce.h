#ifndef ACP_INTRODUCE_H
#define ACP_INTRODUCE_H

#include "core/engine.h"

struct link;

/* As a frame: rows up to this newcomer's own, from `told` on, which the peer does not have; returns its size */
#define INTRODUCTION_MOST ((size_t)17 << 10)

size_t introduce_compose(const acp_engine *e, uint32_t *told, unsigned char *frame);

/* Sends the rows that the peer may not have; false: no memory */
bool introduce_send(acp_lane *lane, struct link *link);

#endif
