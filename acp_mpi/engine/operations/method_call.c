/* Methods of objects in global memory: run on an object in reach, for this process or for a peer, and what of a call
 * travels. */
#include "operations/method_call.h"
#include "memory/translate.h"
#include "operations/execute.h"
#include "operations/op_table.h"
#include "transport/frame.h"
#include "transport/link.h"

#include <string.h>

static_assert(ACP_CALL_MOST <= CHUNK_BYTES && ACP_CALL_MOST <= FRAME_PAYLOAD_MOST,
              "what a call takes or brings crosses in one piece");

struct message method_call_message(const acp_lane *lane, const struct op *op)
{
    struct message m = op->command;
    m.id = op_table_id(op);
    m.from = lane->engine->self;
    return m;
}

void method_call_reply(acp_lane *lane, struct op *op, const struct message *m,
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
            rc = lane_fail(lane, reach == REACH_DEVICE ? ACP_E_DEVICE : ACP_E_PRIVATE, gas[i], sizes[i]);
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
int method_call_serve(acp_lane *lane, const struct link *link, const struct message *m,
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
    int rc = method_call_check(lane, c);
    if (rc == ACP_OK && link && came != c->in_size)
        rc = lane_fail(lane, ACP_E_ARGUMENT, c->object, came);
    if (rc == ACP_OK)
        rc = reach_all(lane, c, link ? ACP_GA_NULL : m->dst);
    if (rc == ACP_OK && !link) {
        c->in = taken;
        rc = chunk_move(lane, m->dst, (struct place){taken, false}, c->in_size);
    }
    if (rc == ACP_OK)
        rc = method_call_run(lane, c);
    if (rc == ACP_OK && !link)
        rc = chunk_move(lane, m->dst, (struct place){brought, true}, c->out_size);
    return rc;
}
