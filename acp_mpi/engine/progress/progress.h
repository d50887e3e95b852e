/* The leader, its wake-ups, and its work. */
#ifndef ACP_PROGRESS_H
#define ACP_PROGRESS_H

#include "core/engine.h"

struct waiter;

int progress_start(acp_engine *e);
void progress_join(acp_engine *e); /* the thread has ended, waiting callers have left */
void progress_event(acp_engine *e); /* wake the threads that doze */
void progress_wake(acp_engine *e); /* also the waiters */
/* A thread sleeps on a word in a peer's memory, as in a barrier */
void progress_waiter_add(acp_engine *e, struct waiter *w);
void progress_waiter_drop(acp_engine *e, const struct waiter *w);
bool progress_leader_try(acp_engine *e);
void progress_leader_release(acp_engine *e);
/* Of the leader only. One round without sleeping, or asleep until something arrives: true if anything
 * was done, or has arrived. */
bool progress_poll(acp_engine *e);
bool progress_sleep(acp_engine *e, int64_t timeout_ns, bool *interrupted);

#define RETRY_NS ((int64_t)1000000) /* for a full ring, a dying segment, a claimed cell, a taken lock */

#endif
