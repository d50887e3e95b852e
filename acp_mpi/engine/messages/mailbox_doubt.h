#ifndef ACP_MAILBOX_DOUBT_H
#define ACP_MAILBOX_DOUBT_H

#include "core/engine.h"

/* A thread that waits for long looks whether a wild pointer has written into the lists of the own mailbox, and mends
 * them. Where a message may be gone, or a receive, all posted receives and probes end with ACP_E_DAMAGED. */
void mailbox_doubt(acp_lane *lane);

#endif
