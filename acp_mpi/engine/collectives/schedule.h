/* One collective under way. */
#ifndef ACP_SCHEDULE_H
#define ACP_SCHEDULE_H

#include "collectives/reduce.h"
#include "core/engine_state.h"

enum collective_state {
    COLLECTIVE_RUNS = 0,
    COLLECTIVE_FOLDS,
    COLLECTIVE_OVER,
};

struct acp_collective {
    acp_engine *engine;
    const acp_plan *plan;
    unsigned char *buffers[ACP_BUFFERS];
    uint64_t context, note;
    fold_fn fold; /* NULL: the caller does */
    uint64_t width;
    uint32_t at;   /* the next step */
    uint32_t open; /* messages under way */
    uint32_t departed; /* ranks that have been looked at */
    _Atomic uint64_t watch_at; /* time at which a waiting caller watches next, ns; 0: no wait so far */
    _Atomic int64_t pause;     /* interval until then, ns */
    int status;    /* below ACP_OK: the remaining steps only tell waiting members */
    int64_t rank;
    uint64_t theirs;
    uint64_t why;  /* ACP_E_MISMATCH: the reason that all members are told */
    bool astray;   /* the calls do not belong together: no plan tells which member waits for which */
    uint32_t told; /* members that have been told */
    uint32_t era;   /* of the mailbox */
    uint64_t heard; /* messages of the mailbox that have been looked at for a mismatch */
    _Atomic uint32_t state;
    bool released, listed;
    bool moves; /* bytes have come from a sender's heap */
    bool again; /* more of them will without an event */
    _Atomic bool watched; /* the senders of its messages are watched, and mismatches looked for */
    uint32_t rung; /* the step with messages that ring when they come */
    acp_collective *next;
    uint32_t *steps; /* of the messages under way */
    uint32_t *light; /* steps with messages that are looked for in rings, */
    uint32_t lights; /* their number */
    bool heavy;  /* it does not look into rings any more */
    acp_request *messages[];
};

static inline void *schedule_address(const acp_collective *c, uint8_t buffer, uint64_t at)
{
    return c->buffers[buffer] ? c->buffers[buffer] + at : NULL;
}

/* As far as it goes now. ACP_OK: its state is another; ACP_E_BUSY, ACP_E_INTERRUPTED:
 * call again soon; ACP_E_HANDLE: messages are under way. */
int schedule_advance(acp_lane *lane, acp_collective *c);
void schedule_close(acp_lane *lane, acp_collective *c); /* where it is, for its mailbox goes or has gone */
void schedule_track(acp_collective *c, acp_request *request, uint32_t step);
int schedule_receive(acp_lane *lane, acp_collective *c, uint32_t step);
/* No message under way may write to the caller's memory after this. The leader must not wait for a message that cannot
 * be cancelled, for no other thread brings it: that stays open. */
void schedule_cancel(acp_lane *lane, acp_collective *c);

/* Around that, by a thread that has no lock of the collectives: no reset comes in between. */
void schedule_enter(acp_engine *e);

static inline void schedule_leave(acp_engine *e)
{
    atomic_fetch_sub(&e->collectives.drivers, 1);
}

bool schedule_try_lock(acp_engine *e); /* to have the lock, also that of the mailbox against a reset; false while halted */
void schedule_unlock(acp_engine *e);

/* Watches the senders of its messages, which watch theirs in turn; and members that call something else, even if no
 * message of theirs is awaited. */
void schedule_watch(acp_collective *c);
bool schedule_overdue(acp_collective *c); /* time to watch, or to watch anew, after so long a wait */
int64_t schedule_wait_left(const acp_collective *c); /* until then */

#endif
