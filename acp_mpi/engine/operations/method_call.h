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
#ifndef ACP_METHOD_CALL_H
#define ACP_METHOD_CALL_H

#include "base/likely.h"
#include "core/engine_state.h"
#include "core/upcalls.h"

struct link;
struct op;

static inline acp_method method_call_of(const acp_engine *e, uint8_t number)
{
    return (e->config.methods ? e->config.methods : e->up->methods)[number];
}

/* Runs the method of `call` on an object in reach. */
static inline int method_call_run(acp_lane *lane, struct acp_call *c)
{
    c->out_size = c->result[0] = c->result[1] = 0;
    lane->damaged = false;
    int rc = method_call_of(lane->engine, c->method)(lane, c);
    if (unlikely(lane->damaged && rc == ACP_OK))
        rc = lane_fail(lane, ACP_E_DAMAGED, c->object, 0);
    if (unlikely(rc == ACP_E_FULL)) {
        lane->fault.ga = c->object; /* the heap does not know its object */
        lane->fault.rank = acp_ga_rank(c->object);
    }
    return rc;
}

static inline int method_call_check(acp_lane *lane, const struct acp_call *c)
{
    if (unlikely(c->in_size > ACP_CALL_MOST || c->out_room > ACP_CALL_MOST ||
                 !method_call_of(lane->engine, c->method)))
        return lane_fail(lane, ACP_E_ARGUMENT, c->object,
                         c->in_size > c->out_room ? c->in_size : c->out_room);
    return ACP_OK;
}

/* With the lock held */
struct message method_call_message(const acp_lane *lane, const struct op *op);
/* The answer to `op`: it has its results, or a fault. */
void method_call_reply(acp_lane *lane, struct op *op, const struct message *m,
                       const unsigned char *payload, uint64_t size);
int method_call_serve(acp_lane *lane, const struct link *link, const struct message *m,
                      struct acp_call *c);

#endif
