/* Whom a receive from anybody may hear from. */
#ifndef ACP_ANY_SOURCE_H
#define ACP_ANY_SOURCE_H

#include "core/engine_state.h"

#if defined ACP_FAULTS /* tests of the engine have few ranks */
#define WATCHED_MOST 4u
#else
#define WATCHED_MOST 8u /* ranks that one wait opens links to; of more it hears by the tree */
#endif

#define NEWS_WATCH 1u /* `a` of ACP_NEWS: watch, too; `b` is how many slots its sender knows */

struct acp_sources {
    _Atomic uint32_t users;
    _Atomic uint64_t safe; /* how many were lost, in which engine, when none of them was */
    uint32_t count;
    uint32_t ranks[];
};

void sources_hold(acp_sources *sources);
/* Why none of them does anything for this process any more, if that is so: all are dead, have left or are in
 * finalize (NULL: all others that are known). ACP_E_LOST, ACP_E_FINALIZING; ACP_OK. */
int sources_gone(acp_engine *e, const acp_sources *among);
bool sources_name(const acp_engine *e, const acp_sources *among); /* is this process one of them? */

/* Has one of them died, or, NULL, anybody, and nobody has accepted it? */
static inline bool anybody_lost(acp_engine *e, acp_sources *among)
{
    return e->job.losses != e->job.losses_accepted && (!among || acp_sources_lost(e, among) >= 0);
}

/* Somebody waits for one of them: from now on this process hears of their losses. NULL: of anybody's. */
void sources_watch(acp_engine *e, const acp_sources *sources);
/* A poll in vain for what one of them may do, or a wait that a loss has ended. */
void sources_polled(acp_engine *e, const acp_sources *sources);

#define ANYBODY_NS ((int64_t)20000000) /* of a wait; then it watches */

/* progress_wait for what any of them may do: none can be lost unheard. Why nobody can do it any more, as
 * sources_gone, unless it is a word that is waited for. */
int wait_for_anybody(acp_engine *e, acp_sources *among, bool (*ready)(void *), void *context,
                     int64_t timeout_ns, acp_doing doing);
/* With the lock held. A peer that knows `known` slots asks this process to watch for it; and, after a loss: */
void sources_asked(acp_engine *e, uint64_t known);
void sources_guard(acp_engine *e);

#endif
