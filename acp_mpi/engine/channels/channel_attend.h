/* Notes of channels that come from processes of the node wake this one only while something here waits for them. */
#ifndef ACP_CHANNEL_ATTEND_H
#define ACP_CHANNEL_ATTEND_H

#include "core/engine.h"

/* Something waits for notes from now on, or no more. Without the engine's lock. */
void channel_attend_begin(acp_engine *e);
void channel_attend_end(acp_engine *e);
void channel_attend_now(acp_engine *e); /* reads the notes that have come; likewise without the lock */
/* Closed ends wait for notes, or no more, as `lingers` says; with the lock, as the next. */
void channel_attend_closed(acp_engine *e);
void channel_attend_tick(acp_engine *e); /* the timer has rung */

#endif
