/* Notes of channels that come from processes of the node wake this one only while something here waits for them: a thread,
 * a queue, or closed ends after a millisecond. To wake a process costs more than all else that a short
 * life of a channel does.
 *
 * The writer of a note looks whether something waits after it has written, and what waits says so before it looks into
 * the ring: one of the two sees the other. A call that looks at a channel without a wait reads its notes first. */
#include "channels/channel_attend.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "progress/doorbell.h"
#include "progress/progress.h"
#include "progress/reactor.h"
#include "transport/shm_ring.h"

void channel_attend_now(acp_engine *e)
{
    if (e->stopping || !shm_ring_has_any(e))
        return;
    if (progress_leader_try(e)) {
        progress_poll(e);
        progress_leader_release(e);
        return;
    }
    atomic_thread_fence(memory_order_seq_cst); /* a leader that is awake looks into the ring before it sleeps */
    if (atomic_load(&e->control->asleep))
        doorbell_kick(e);
}

static void count(acp_engine *e)
{
    atomic_fetch_add(&e->control->attends, 1);
    atomic_thread_fence(memory_order_seq_cst);
}

void channel_attend_begin(acp_engine *e)
{
    count(e);
    channel_attend_now(e);
}

void channel_attend_end(acp_engine *e)
{
    atomic_fetch_sub(&e->control->attends, 1);
}

void channel_attend_closed(acp_engine *e)
{
    struct channels_state *s = &e->channels;
    if (!s->lingers && s->attends) {
        s->attends = false;
        channel_attend_end(e);
    } else if (s->lingers && !s->attends && !s->timed) {
        s->timed = true;
        reactor_timer(e, linux_now_ns() + (uint64_t)RETRY_NS);
    }
}

/* The leader, which has been woken for that, looks into the ring before it sleeps. */
void channel_attend_tick(acp_engine *e)
{
    struct channels_state *s = &e->channels;
    s->timed = false;
    if (!s->lingers || s->attends)
        return;
    s->attends = true;
    count(e);
}
