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
    _Atomic uint64_t watch_at; /* when who waits for it watches next; 0: nobody has waited */
    _Atomic int64_t pause;     /* until then, when it has watched */
    int status;    /* below ACP_OK: the steps that are left only tell those that wait */
    int64_t rank;
    uint64_t theirs;
    uint64_t why;  /* ACP_E_MISMATCH: what the others are told */
    bool astray;   /* calls that do not belong together: who waits for whom, no plan says */
    uint32_t told; /* members that have heard of that */
    uint32_t era;   /* of the mailbox */
    uint64_t heard; /* so many messages of the mailbox have been looked at for that */
    _Atomic uint32_t state;
    bool released, listed;
    bool moves; /* bytes have come that its sender had kept */
    bool again; /* more of them do without that anybody rings */
    _Atomic bool watched; /* whom its messages come from is, and it listens */
    uint32_t rung; /* the step for whose messages whoever brings them rings */
    acp_collective *next;
    uint32_t *steps; /* of the messages under way */
    uint32_t *light; /* steps whose messages are looked for in eager slots, */
    uint32_t lights; /* so many */
    bool heavy;  /* no more: they are received as all others are */
    bool posted; /* such a receive: the slots are to be closed */
    bool closes; /* the slots, as long as it goes on, */
    bool cleared; /* and has emptied them */
    acp_request *messages[];
};

static inline void *collective_place(const acp_collective *c, uint8_t buffer, uint64_t at)
{
    return c->buffers[buffer] ? c->buffers[buffer] + at : NULL;
}

/* As far as it goes now. ACP_OK: its state is another; ACP_E_BUSY, ACP_E_INTERRUPTED:
 * call again soon; ACP_E_HANDLE: messages are under way. */
int collective_drive(acp_lane *lane, acp_collective *c);
void collective_close(acp_lane *lane, acp_collective *c); /* where it is, for its mailbox goes or has gone */
void collective_begun(acp_collective *c, acp_request *request, uint32_t step);
int collective_receive(acp_lane *lane, acp_collective *c, uint32_t step);
/* Of the messages under way none may write to the caller's memory any more. Who leads must not wait for the
 * end of what cannot be cancelled, for nobody else brings it: that stays open. */
void collective_drop(acp_lane *lane, acp_collective *c);

/* Around that, by a thread that has no lock of the collectives: no reset comes in between. */
void collective_enter(acp_engine *e);

static inline void collective_leave(acp_engine *e)
{
    atomic_fetch_sub(&e->collectives.drivers, 1);
}

#endif
