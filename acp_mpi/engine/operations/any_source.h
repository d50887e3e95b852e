/* The possible senders of a receive from any source, and their losses. */
#ifndef ACP_ANY_SOURCE_H
#define ACP_ANY_SOURCE_H

#include "core/engine_state.h"

#if defined ACP_FAULTS /* tests of the engine have few ranks */
#define WATCHED_MOST 4u
#else
#define WATCHED_MOST 8u /* ranks that one wait opens links to; beyond, losses come by the tree */
#endif

#define NEWS_WATCH 1u /* `a` of ACP_NEWS: watch, too; `b` is the number of slots its sender knows */

struct acp_sources {
    _Atomic uint32_t users;
    _Atomic uint64_t safe; /* engine and number of losses at which none of the ranks was lost */
    uint32_t count;
    uint32_t ranks[];
};

void any_source_hold(acp_sources *sources);
/* The reason if none of the ranks can act for this process any more: all are dead, have left or are in finalize (NULL:
 * all other known ranks). ACP_E_LOST, ACP_E_FINALIZING; else ACP_OK. */
int any_source_gone(acp_engine *e, const acp_sources *among);
bool any_source_has_self(const acp_engine *e, const acp_sources *among); /* is this process among the ranks? */

/* Has a rank of `among`, or, NULL, any rank, died without that loss being accepted? */
static inline bool any_source_lost(acp_engine *e, acp_sources *among)
{
    return e->job.losses != e->job.losses_accepted && (!among || acp_sources_lost(e, among) >= 0);
}

/* A wait for the ranks begins: this process registers for their losses. NULL: for those of all. */
void any_source_watch(acp_engine *e, const acp_sources *sources);
/* A poll in vain for an act of the ranks, or a wait that a loss has ended. */
void any_source_polled(acp_engine *e, const acp_sources *sources);

#define ANYBODY_NS ((int64_t)20000000) /* of a wait; then it watches */

/* A wait: `watch` registers for the losses of those that may end it, `gone` is the reason, if none of them does so any
 * more (NULL: `ready` finds that out), or ACP_OK. */
struct awaited {
    bool (*ready)(void *context);
    void *context;
    void (*watch)(acp_engine *e, const void *whom);
    int (*gone)(acp_engine *e, const void *whom);
    const void *whom;
    bool at_once; /* the process that ends it needs this processor: `wait_asleep` */
};

/* wait_ready for that; the reason of `gone` where no other thread or rank is left. */
int any_source_wait(acp_engine *e, const struct awaited *a, int64_t timeout_ns, acp_doing doing);
/* With the lock held. A peer that knows `known` slots requests the watch of this process; and, after a loss: */
void any_source_asked(acp_engine *e, struct peer *from, uint64_t known);
void any_source_guard(acp_engine *e);

#endif
