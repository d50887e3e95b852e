#ifndef ACP_ACCEPT_H
#define ACP_ACCEPT_H

#include "core/engine.h"

void accept_ready(acp_lane *lane); /* peers call */

#endif
