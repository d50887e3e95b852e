/* Messages without a slot; the calls are in core/channels.h. */
#ifndef ACP_CHANNEL_DIRECT_H
#define ACP_CHANNEL_DIRECT_H

#include "core/channels.h"

#if defined ACP_FAULTS /* tests of the engine have short messages */
#define CHANNEL_LONG ((uint64_t)64)
#else
#define CHANNEL_LONG ACP_CHANNEL_LONG
#endif

#endif
