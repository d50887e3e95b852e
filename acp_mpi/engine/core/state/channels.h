/* Channels of this process. */
#ifndef ACP_STATE_CHANNELS_H
#define ACP_STATE_CHANNELS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct acp_channel;
struct channel_offer;

/* Resets while that many processes were known: one that comes later counts only those that it sees, too. */
struct channel_resets {
    uint32_t procs, count;
};

struct channels_state { /* with the engine's lock */
    struct acp_channel **ends; /* by place; NULL: free */
    uint64_t room; /* places */
    uint32_t place; /* the last one given out */
    uint64_t serial;           /* ends so far */
    struct acp_channel *unmet, **unmet_end; /* ends whose other end is not known yet, the oldest first */
    struct acp_channel *closed; /* ends that have something to give back */
    struct channel_offer *offers, **offers_end; /* ends of peers whose other end is not created yet, likewise */
    _Atomic uint64_t era; /* number of resets */
    struct channel_resets *resets; /* by their number of processes, in order */
    uint32_t reset_sizes;
    struct acp_channel *_Atomic queued; /* ends with sends or receives that go on; changed with the lock */
    uint64_t pass; /* over those */
    _Atomic bool stirred; /* one of those may have become ready */
    _Atomic bool crowded; /* a link had no room for one */
    _Atomic bool reap;    /* memory of closed ends may be given back */
    bool lingers; /* closed ends wait for a note */
    bool timed;   /* the timer is set for those */
    bool attends; /* this process is rung for them */
};

#endif
