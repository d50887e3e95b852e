#ifndef ACP_INTRODUCE_H
#define ACP_INTRODUCE_H

#include "core/engine.h"

struct message;
struct seal;

/* As a frame: rows up to this newcomer's own, from `told` on, which the peer does not have; returns its size */
#define INTRODUCTION_MOST ((size_t)17 << 10)

size_t introduce_compose(const acp_engine *e, struct seal *seal, uint32_t *told, unsigned char *frame);

/* A message with rows of `first` to `end`, as many as one holds, in `payload` */
struct message introduce_piece(const acp_engine *e, uint8_t kind, uint32_t first, uint32_t end,
                               unsigned char *payload);

#endif
