/* The parts of a leader's round. Their list is in upcalls.c. */
#ifndef ACP_POLLER_H
#define ACP_POLLER_H

#include "core/engine.h"

/* When a leader has to see to something. */
enum due {
    DUE_NOT,
    DUE_AWAKE, /* in each round as long as it is awake: a ring tells when there is more to do */
    DUE_SOON,  /* within a millisecond: no ring tells */
    DUE_NOW,   /* before it sleeps */
};

/* One part of a round. */
struct poller {
    enum due (*due)(const acp_engine *e);
    bool (*poll)(acp_lane *lane); /* true: something was done */
};

#endif
