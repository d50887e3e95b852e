#ifndef ACP_ANSWER_H
#define ACP_ANSWER_H

#include "core/engine.h"

struct link;
struct message;
struct op;
struct peer;

/* To a peer, by that link; NULL: by the road to it */
void answer_value(acp_lane *lane, struct peer *to, struct link *link, const struct message *command,
                  uint64_t value);
void answer_fail(acp_lane *lane, struct peer *to, struct link *link,
                 const struct message *command); /* the lane's fault */

/* The same for a command that others may be chained to, which fail with it; NULL: no fault */
void answer_settle(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                   const acp_fault *fault, uint64_t value);
const acp_fault *answer_earlier_failure(const struct peer *from, uint64_t id);

/* Runs and answers a get, a call or a batch. ACP_E_BUSY: not now, nothing has happened and no answer has been sent. */
int answer_now(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
               const unsigned char *payload, uint64_t size);
/* The same for a task that waited for its order, for room for its result, or for a lock. False: it waits on. */
bool answer_of_device(acp_lane *lane, const struct message *get); /* then a task brings the bytes first */
void answer_brought(acp_lane *lane, struct op *op);                /* such a task is over */
bool answer_waiting(acp_lane *lane, struct op *op);
void answer_task(acp_lane *lane, struct op *op); /* of a task that is over */

#endif
