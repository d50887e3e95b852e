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

void sources_hold(acp_sources *sources);
/* The reason if none of the ranks can act for this process any more: all are dead, have left or are in finalize (NULL:
 * all other known ranks). ACP_E_LOST, ACP_E_FINALIZING; else ACP_OK. */
int sources_gone(acp_engine *e, const acp_sources *among);
bool sources_name(const acp_engine *e, const acp_sources *among); /* is this process among the ranks? */

/* Has a rank of `among`, or, NULL, any rank, died without that loss being accepted? */
static inline bool anybody_lost(acp_engine *e, acp_sources *among)
{
    return e->job.losses != e->job.losses_accepted && (!among || acp_sources_lost(e, among) >= 0);
}

/* A wait for the ranks begins: this process registers for their losses. NULL: for those of all. */
void sources_watch(acp_engine *e, const acp_sources *sources);
/* A poll in vain for an act of the ranks, or a wait that a loss has ended. */
void sources_polled(acp_engine *e, const acp_sources *sources);

#define ANYBODY_NS ((int64_t)20000000) /* of a wait; then it watches */

/* progress_wait for an act of any rank of `among`, without missing a loss. Ends with sources_gone's reason if none can
 * act any more, unless the wait is for a word. */
int wait_for_anybody(acp_engine *e, acp_sources *among, bool (*ready)(void *), void *context,
                     int64_t timeout_ns, acp_doing doing);
/* With the lock held. A peer that knows `known` slots requests the watch of this process; and, after a loss: */
void sources_asked(acp_engine *e, uint64_t known);
void sources_guard(acp_engine *e);

#endif
