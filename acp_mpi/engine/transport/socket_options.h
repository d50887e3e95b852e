#ifndef ACP_SOCKET_OPTIONS_H
#define ACP_SOCKET_OPTIONS_H

#include "core/engine.h"

/* A new socket; one whose round trip is known */
void wire_tune(const acp_engine *e, int fd);
void wire_pace(int fd);

#endif
