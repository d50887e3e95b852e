#ifndef ACP_SOCKET_OPTIONS_H
#define ACP_SOCKET_OPTIONS_H

#include "core/engine.h"

/* Options of a new socket; of one with a known round trip */
void socket_options_set(const acp_engine *e, int fd);
void socket_options_pace(int fd);

#endif
