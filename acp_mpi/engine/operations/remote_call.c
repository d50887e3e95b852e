/* Calls as users make them: a method of an object in global memory, run here if load and store reach the object, else
 * by its owner: the command goes there with the arguments, and the answer comes back with the results, as a frame's
 * payload or in a chunk of the caller's global memory. */
#include "core/engine_state.h"
#include "memory/translate.h"
#include "operations/method_call.h"
#include "operations/op_table.h"
#include "transport/shm_ring.h"

/* At once, or ACP_E_BUSY: by another road, or later. */
static int run_here(acp_lane *lane, struct acp_call *c)
{
    if (likely(translate_find(lane, ROLE_SRC, c->object, 1) != NULL))
        return method_call_run(lane, c);
    return lane->fault.status != ACP_OK ? lane->fault.status : ACP_E_BUSY;
}

static acp_handle_t call_submit(acp_lane *lane, struct acp_call *c, acp_handle_t order, bool awaited)
{
    acp_engine *e = lane->engine;
    acp_handle_t handle = 0;
    shm_ring_submit_begin(e);
    struct op *op = op_table_new(lane);
    if (op) {
        op->command = (struct message){.kind = ACP_CALL, .flags = c->method, .src = c->object,
                                       .a = c->a, .b = c->b,
                                       .after = c->in_size << 32 | c->out_room};
        op->call = c;
        op->awaited = awaited;
        handle = op_table_submit(lane, op, order);
    }
    shm_ring_submit_end(e);
    op_table_run_devices(lane);
    return handle;
}

int acp_call(acp_lane *lane, struct acp_call *c, acp_handle_t *pending)
{
    int rc = method_call_check(lane, c);
    *pending = 0;
    if (rc == ACP_OK)
        rc = run_here(lane, c);
    if (likely(rc != ACP_E_BUSY))
        return rc;
    *pending = call_submit(lane, c, ACP_HANDLE_NULL, true);
    return *pending ? ACP_OK : lane->fault.status;
}

acp_handle_t acp_icall(acp_lane *lane, struct acp_call *c, acp_handle_t order)
{
    int rc = method_call_check(lane, c);
    if (rc == ACP_OK && op_table_order_met(lane->engine, lane, order))
        rc = run_here(lane, c);
    else if (rc == ACP_OK && (rc = acp_check(lane, c->object, 1)) == ACP_OK)
        rc = ACP_E_BUSY;
    if (rc == ACP_OK)
        return op_table_now(lane->engine);
    return rc == ACP_E_BUSY ? call_submit(lane, c, order, false) : 0;
}
