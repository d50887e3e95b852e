#ifndef ACP_WAIT_H
#define ACP_WAIT_H

#include "core/engine_state.h"

int progress_wait(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
                  acp_doing doing);
/* What others see that this process waits for: of several threads what the last did that began and has
 * not ended. The end takes what the beginning returned. */
acp_doing doing_begin(acp_engine *e, acp_doing doing);
void doing_end(acp_engine *e, acp_doing doing, acp_doing was);
/* Short of `timeout_ns`, without leading: what arrives is for the progress thread. */
bool progress_doze(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns);
/* Looking awaits what comes soon. If messages do not, for the others need the processors, it is
 * shorter: on the links of messages each look is a system call. */
uint64_t progress_worth(const acp_engine *e, uint64_t time_ns);
/* Between two looks of one who was just served, and who often has more to say. On one node yielding
 * keeps the thread's claim to be run at once when it is rung for (5 us instead of 46). For a host with a
 * single core to itself it would be a tick of 4 ms. */
void progress_linger(const acp_engine *e, uint32_t *looks);

/* A signal interrupted a wait, or the wait is long: true if it must end. Holding no lock. */
static inline bool tick(acp_engine *e, int reason)
{
    if (!e->config.tick)
        return reason != ACP_TICK_LONG;
    return e->config.tick(e->config.tick_context, reason) != 0;
}

#endif
