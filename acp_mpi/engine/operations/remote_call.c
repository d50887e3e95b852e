/* Calls: a method of an object in global memory, run where load and store reach it. If the caller does not reach it
 * its owner runs the method: the command goes there with the arguments, and the answer comes back with the results, as
 * a frame's payload or in a chunk of the caller's global memory. */
#include "operations/remote_call.h"
#include "core/method.h"
#include "core/upcalls.h"
#include "memory/translate.h"
#include "operations/execute.h"
#include "operations/op_table.h"
#include "operations/pending.h"
#include "operations/protocol.h"
#include "transport/frame.h"
#include "transport/link.h"
#include "transport/shm_ring.h"

#include <string.h>

static_assert(ACP_CALL_MOST <= CHUNK_BYTES && ACP_CALL_MOST <= FRAME_PAYLOAD_MOST,
              "what a call takes or brings crosses in one piece");

static acp_method method_of(const acp_engine *e, uint8_t number)
{
    return (e->config.methods ? e->config.methods : e->up->methods)[number];
}

int remote_call_run_method(acp_lane *lane, struct acp_call *c)
{
    c->out_size = c->result[0] = c->result[1] = 0;
    lane->damaged = false;
    int rc = method_of(lane->engine, c->method)(lane, c);
    if (unlikely(lane->damaged && rc == ACP_OK))
        rc = lane_fail(lane, ACP_E_DAMAGED, c->object, 0);
    if (unlikely(rc == ACP_E_FULL)) {
        lane->fault.ga = c->object; /* the heap does not know its object */
        lane->fault.rank = acp_ga_rank(c->object);
    }
    return rc;
}

static int check(acp_lane *lane, const struct acp_call *c)
{
    if (unlikely(c->in_size > ACP_CALL_MOST || c->out_room > ACP_CALL_MOST ||
                 !method_of(lane->engine, c->method)))
        return lane_fail(lane, ACP_E_ARGUMENT, c->object,
                         c->in_size > c->out_room ? c->in_size : c->out_room);
    return ACP_OK;
}

/* At once, or ACP_E_BUSY: by another road, or later. */
static int run_here(acp_lane *lane, struct acp_call *c)
{
    if (likely(translate_find(lane, ROLE_SRC, c->object, 1) != NULL))
        return remote_call_run_method(lane, c);
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
    return handle;
}

int acp_call(acp_lane *lane, struct acp_call *c, acp_handle_t *pending)
{
    int rc = check(lane, c);
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
    int rc = check(lane, c);
    if (rc == ACP_OK && op_table_order_met(lane->engine, lane, order))
        rc = run_here(lane, c);
    else if (rc == ACP_OK && (rc = acp_check(lane, c->object, 1)) == ACP_OK)
        rc = ACP_E_BUSY;
    if (rc == ACP_OK)
        return op_table_now(lane->engine);
    return rc == ACP_E_BUSY ? call_submit(lane, c, order, false) : 0;
}

void remote_call_run(acp_lane *lane, struct op *op)
{
    int rc = remote_call_run_method(lane, op->call);
    if (rc == ACP_E_BUSY) {
        pending_bar(lane, op);
        return;
    }
    if (rc != ACP_OK)
        op_table_fault(op, &lane->fault);
    op_table_finish(lane, op);
}

struct message remote_call_message(const acp_lane *lane, const struct op *op)
{
    struct message m = op->command;
    m.id = op_table_id(op);
    m.from = lane->engine->self;
    return m;
}

void remote_call_send(acp_lane *lane, struct op *op)
{
    if (!op->road->room(lane, op->target, op->color)) {
        pending_stall(lane->engine, op);
        return;
    }
    op->in_flight = 1;
    if (op->road->call(lane, op) != ACP_OK) {
        protocol_lane_fault(lane, op);
        op->in_flight = 0;
        op_table_finish(lane, op);
    }
}

void remote_call_reply(acp_lane *lane, struct op *op, const struct message *m,
                       const unsigned char *payload, uint64_t size)
{
    struct acp_call *c = op->call;
    if (op->bounces) {
        payload = op->bounces->data;
        size = m->after;
    }
    if (op->fault.status == ACP_OK && size > c->out_room) {
        lane_fail(lane, ACP_E_ARGUMENT, c->object, size);
        op_table_fault(op, &lane->fault);
    } else if (op->fault.status == ACP_OK) {
        c->result[0] = m->a;
        c->result[1] = m->b;
        c->out_size = size;
        if (size)
            memcpy(c->out, payload, size);
    }
    op_table_finish(lane, op);
}

/* Is everything that a call of a peer needs in reach? `chunk`: where its bytes lie, or null. */
static int reach_all(acp_lane *lane, const struct acp_call *c, acp_ga_t chunk)
{
    const uint64_t sizes[2] = {1, c->in_size > c->out_room ? c->in_size : c->out_room};
    const acp_ga_t gas[2] = {c->object, chunk};
    struct translation t;
    enum reach reach;
    for (int i = 0; i < 1 + (chunk != ACP_GA_NULL); i++) {
        int rc = translate(lane, gas[i], sizes[i], &t, &reach);
        if (rc == ACP_OK && reach != REACH_LOAD)
            rc = lane_fail(lane, ACP_E_PRIVATE, gas[i], sizes[i]);
        if (rc != ACP_OK)
            return rc;
    }
    return ACP_OK;
}

static int chunk_move(acp_lane *lane, acp_ga_t chunk, struct place local, uint64_t size)
{
    struct message m = {.kind = ACP_COPY, .dst = chunk, .src = chunk, .a = size};
    return size ? execute_command(lane, &m, local, 0, size, NULL) : ACP_OK;
}

/* Runs a call of a peer: its bytes came by link, or lie in its chunk. */
int remote_call_serve(acp_lane *lane, const struct link *link, const struct message *m,
                      struct acp_call *c)
{
    unsigned char *taken = lane->engine->ops.call_space + ACP_CALL_MOST, *brought = c->out;
    uint64_t came = c->in_size;
    c->method = m->flags;
    c->object = m->src;
    c->a = m->a;
    c->b = m->b;
    c->in_size = m->after >> 32;
    c->out_room = (uint32_t)m->after;
    int rc = check(lane, c);
    if (rc == ACP_OK && link && came != c->in_size)
        rc = lane_fail(lane, ACP_E_ARGUMENT, c->object, came);
    if (rc == ACP_OK)
        rc = reach_all(lane, c, link ? ACP_GA_NULL : m->dst);
    if (rc == ACP_OK && !link) {
        c->in = taken;
        rc = chunk_move(lane, m->dst, (struct place){taken, false}, c->in_size);
    }
    if (rc == ACP_OK)
        rc = remote_call_run_method(lane, c);
    if (rc == ACP_OK && !link)
        rc = chunk_move(lane, m->dst, (struct place){brought, true}, c->out_size);
    return rc;
}
