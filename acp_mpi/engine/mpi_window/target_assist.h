/* Peers that drive MPI for operations of this process, and those that it drives MPI for. */
#ifndef ACP_TARGET_ASSIST_H
#define ACP_TARGET_ASSIST_H

#include "core/engine.h"

struct link;
struct message;
struct op;
struct peer;

/* An operation needs its target to drive MPI; if that does not yet, *welcome is false, and its answer continues the
 * operation. */
int target_assist_begin(acp_lane *lane, struct op *op, bool *welcome);
void target_assist_welcome(struct peer *host);
void target_assist_end(acp_lane *lane, struct peer *host);
void target_assist_tick(acp_lane *lane); /* deadlines */
void target_assist_end_all(acp_lane *lane); /* all at once */
void target_assist_forget(acp_engine *e, struct peer *p); /* the peer is dead */
void target_assist_heard(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                         const unsigned char *payload, uint64_t size);

#endif
