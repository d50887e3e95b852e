/* Rules for a method of a container. A method runs in a thread of any process that reaches the
 * object by load and store: in the caller, or in the leader of the owner's engine, which then
 * holds the engine's lock. So it
 *
 *   looks the object's memory up with translate_find; its first byte was in reach just now
 *   reads `in` and writes `out`, private memory that does not overlap, and sets `out_size`
 *   waits for a section no longer than the lane's patience, which is 0 but for callers that have
 *   nothing else to do; takes no lock of the engine and starts no operation
 *   returns ACP_OK, or a status with the lane's fault set, or ACP_E_BUSY if another holds a lock
 *   that it needs and nothing has been changed: then it is run anew
 *
 * A method is named by a number, which travels: the same in all processes of a job. */
#ifndef ACP_REMOTE_CALL_H
#define ACP_REMOTE_CALL_H

#include "core/engine.h"
#include "core/layout.h"

struct link;
struct op;

/* Runs the method of `call` on an object in reach. */
int remote_call_run_method(acp_lane *lane, struct acp_call *call);

/* Calls, with the lock held */
void remote_call_run(acp_lane *lane, struct op *op); /* here */
void remote_call_send(acp_lane *lane, struct op *op);
struct message remote_call_message(const acp_lane *lane, const struct op *op);
void remote_call_reply(acp_lane *lane, struct op *op, const struct message *m,
                       const unsigned char *payload, uint64_t size);
int remote_call_serve(acp_lane *lane, const struct link *link, const struct message *m,
                      struct acp_call *c);

#endif
