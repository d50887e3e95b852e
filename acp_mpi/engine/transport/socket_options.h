#ifndef ACP_SOCKET_OPTIONS_H
#define ACP_SOCKET_OPTIONS_H

#include "core/engine.h"

/* Options of a new socket; of one with a known round trip */
void wire_tune(const acp_engine *e, int fd);
void wire_pace(int fd);

#endif
