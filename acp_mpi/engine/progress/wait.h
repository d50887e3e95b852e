#ifndef ACP_WAIT_H
#define ACP_WAIT_H

#include "base/linux.h"
#include "core/engine_state.h"

int wait_ready(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
               acp_doing doing);
/* The same without a look before the sleep: the process that ends the wait needs this processor. */
int wait_asleep(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
                acp_doing doing);
/* The state that others see this process wait in: of several threads the one of the last that began and has not ended.
 * The end takes the result of the beginning. */
acp_doing wait_begin(acp_engine *e, acp_doing doing);
void wait_end(acp_engine *e, acp_doing doing, acp_doing was);
/* Short of `timeout_ns`, without leading: events are for the progress thread. */
bool wait_doze(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns);
/* When a wait that begins now has looked for half of its time: then its thread says that it sleeps, before it does. */
uint64_t wait_arm_at(const acp_engine *e);
/* How long a leader that has served a peer looks on for more. */
uint64_t wait_look_on_ns(const acp_engine *e);
/* A pause between two polls, for a caller that was just served and often gets more soon. On one node yielding keeps
 * the thread's claim to be run at once when it is rung for (5 us instead of 46). For a host with a single core to
 * itself it would be a tick of 4 ms. */
void wait_pause(const acp_engine *e, uint32_t *looks);

/* A thread waits from now on, or no more: the leader then does not put off what it may wait for. */
static inline void wait_caller_enter(acp_engine *e)
{
    atomic_fetch_add(&e->progress.callers, 1);
}

static inline void wait_caller_leave(acp_engine *e)
{
    atomic_fetch_sub(&e->progress.callers, 1);
}

/* A number of words is waited for from now on, or no more, to which some writers write without a ring. */
static inline void wait_unrung(acp_engine *e, int words)
{
    atomic_fetch_add(&e->progress.unrung_words, (uint32_t)words);
}

/* After so long, a second as peers are given time, a thread asks about commands without an answer. */
static inline uint64_t wait_doubt_ns(const acp_engine *e)
{
    return e->config.peer_timeout_ns / 32 + 1000000;
}

/* A signal interrupted a wait, or the wait is long: true if it must end. Holding no lock. */
static inline bool wait_tick(acp_engine *e, int reason)
{
    if (!e->config.tick)
        return reason != ACP_TICK_LONG;
    return e->config.tick(e->config.tick_context, reason) != 0;
}

/* The same for a wait of many short ones, since `start`: its notice after a minute. */
static inline bool wait_told(acp_engine *e, uint64_t start, bool *told)
{
    if (*told || linux_now_ns() - start <= LONG_WAIT_NS)
        return false;
    *told = true;
    return wait_tick(e, ACP_TICK_LONG);
}

static inline int64_t wait_left(int64_t timeout_ns, uint64_t start)
{
    if (timeout_ns == ACP_FOREVER)
        return timeout_ns;
    int64_t left = timeout_ns - (int64_t)(linux_now_ns() - start);
    return left < 0 ? 0 : left;
}

#endif
