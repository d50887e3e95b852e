/* Answers to commands of peers, among them those that bring bytes: a get, a call and a batch are run here and
 * answered in one piece. With the lock held. */
#include "operations/answer.h"
#include "core/layout.h"
#include "core/state/peer.h"
#include "memory/translate.h"
#include "operations/ack.h"
#include "operations/batch.h"
#include "operations/method_call.h"
#include "operations/op_table.h"
#include "operations/pending.h"
#include "operations/reserve.h"
#include "operations/route.h"
#include "transport/link.h"
#include "transport/link_io.h"

#include <stdlib.h>

/* A command of a peer that failed. The peer may already have sent another that was to run
 * only after it; such a one fails too. */
struct chain_failure {
    uint64_t id;
    acp_fault fault;
};

static void send_reply(acp_lane *lane, struct peer *to, struct link *link,
                       const struct message *command, const acp_fault *fault, uint64_t value,
                       const void *payload, uint64_t size)
{
    acp_engine *e = lane->engine;
    struct message m = {.kind = ACP_REPLY, .from = e->self, .id = command->id,
                        .dst = command->dst, .src = command->src, .a = value,
                        .b = command->kind == ACP_LOOKUP ? command->b : 0};
    if (layout_is_atomic(command->kind))
        m.flags = command->flags & ANSWER_LATER;
    if (command->kind == ACP_CALL) {
        m.b = command->b;
        m.after = command->after;
    }
    if (fault && fault->status != ACP_OK) {
        m.flags = command->kind == ACP_PUT ? command->flags : 0;
        m.status = (int16_t)fault->status;
        m.b = fault->ga;
        m.after = fault->size;
        payload = NULL;
    }
    if (link_counts(command))
        m.flags |= ANSWER_COUNTED;
    if (link) {
        ack_send(lane, link);
        link_io_answer(lane, link, &m, payload, payload ? size : 0);
    } else if (to)
        route_road(e, to)->send(lane, to, 0, &m);
}

void answer_value(acp_lane *lane, struct peer *to, struct link *link,
                  const struct message *command, uint64_t value)
{
    send_reply(lane, to, link, command, NULL, value, NULL, 0);
}

void answer_fail(acp_lane *lane, struct peer *to, struct link *link,
                 const struct message *command)
{
    send_reply(lane, to, link, command, &lane->fault, 0, NULL, 0);
}

const acp_fault *answer_earlier_failure(const struct peer *from, uint64_t id)
{
    for (uint32_t i = 0; i < from->ops.chain_failure_count; i++)
        if (from->ops.chain_failures[i].id == id)
            return &from->ops.chain_failures[i].fault;
    return NULL;
}

static void remember_failure(struct peer *from, uint64_t id, const acp_fault *fault)
{
    uint32_t kept = 0;
    if (id >> 63 || answer_earlier_failure(from, id))
        return; /* a task of the peer, no chain names it; or another part of a known one */
    for (uint32_t i = 0; i < from->ops.chain_failure_count; i++) /* failures that no chain can name now */
        if (from->ops.chain_failures[i].id - id + 2 * OPS < 4 * OPS)
            from->ops.chain_failures[kept++] = from->ops.chain_failures[i];
    from->ops.chain_failure_count = kept;
    if (kept == from->ops.chain_failure_room) {
        uint32_t room = kept ? kept * 2 : 4;
        struct chain_failure *grown = realloc(from->ops.chain_failures, room * sizeof *grown);
        if (!grown)
            return;
        from->ops.chain_failures = grown;
        from->ops.chain_failure_room = room;
    }
    from->ops.chain_failures[from->ops.chain_failure_count++] = (struct chain_failure){id, *fault};
}

void answer_settle(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                   const acp_fault *fault, uint64_t value)
{
    if (fault && fault->status != ACP_OK)
        remember_failure(from, m->id, fault);
    send_reply(lane, from, link, m, fault, value, NULL, 0);
}

void answer_task(acp_lane *lane, struct op *op)
{
    struct message m = op->command;
    m.id = op->client_id;
    bool silent = m.kind == ACP_PUT && m.flags & PART_SILENT && op->fault.status == ACP_OK;
    if (op->client && !silent)
        answer_settle(lane, op->client, op->client_link, &m, &op->fault, op->result);
}

bool answer_of_device(acp_lane *lane, const struct message *get)
{
    struct translation t;
    enum reach reach;
    return get->a && get->a <= CHUNK_BYTES && translate(lane, get->src, get->a, &t, &reach) == ACP_OK &&
           reach == REACH_DEVICE;
}

void answer_brought(acp_lane *lane, struct op *op)
{
    struct message m = op->command;
    m.id = op->client_id;
    if (op->fault.status == ACP_OK)
        send_reply(lane, op->client, op->client_link, &m, NULL, 0, op->payload, op->payload_size);
    else
        answer_settle(lane, op->client, op->client_link, &m, &op->fault, 0);
    op->client = NULL; /* it has its answer */
}

static int serve_get(acp_lane *lane, struct peer *from, struct link *link,
                     const struct message *m)
{
    struct translation t;
    enum reach reach;
    int rc = m->a <= CHUNK_BYTES ? translate(lane, m->src, m->a, &t, &reach)
                                 : lane_fail(lane, ACP_E_ARGUMENT, m->src, m->a);
    if (rc == ACP_OK && reach == REACH_DEVICE)
        return ACP_E_BUSY;
    while (rc == ACP_OK && (reach != REACH_LOAD || !translate_enter(&t, ROLE_SRC)))
        rc = reach != REACH_LOAD ? lane_fail(lane, ACP_E_UNREGISTERED, m->src, m->a)
                                 : translate(lane, m->src, m->a, &t, &reach);
    if (rc != ACP_OK) {
        answer_settle(lane, from, link, m, &lane->fault, 0);
        return rc;
    }
    send_reply(lane, from, link, m, NULL, 0, t.base + (m->src - t.low), m->a);
    translate_leave(&t, ROLE_SRC);
    return ACP_OK;
}

/* Runs a call or a batch. ACP_E_BUSY: not now, nothing has happened and no answer has been sent. */
static int serve_call(acp_lane *lane, struct peer *from, struct link *link,
                      const struct message *m, const unsigned char *payload, uint64_t size)
{
    acp_engine *e = lane->engine;
    struct acp_call c = {.in = payload, .in_size = size};
    struct message answer = *m;
    if (!e->ops.call_space)
        e->ops.call_space = malloc(2 * ACP_CALL_MOST);
    c.out = e->ops.call_space;
    int rc = !c.out ? lane_fail(lane, ACP_E_SYSTEM, m->src, size)
             : m->kind == ACP_BATCH ? batch_run(lane, m, &c)
                                    : method_call_serve(lane, link, m, &c);
    if (rc == ACP_E_BUSY)
        return rc;
    answer.b = c.result[1];
    answer.after = c.out_size;
    send_reply(lane, from, link, &answer, rc == ACP_OK ? NULL : &lane->fault, c.result[0], c.out,
               c.out_size);
    return rc;
}

int answer_now(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
               const unsigned char *payload, uint64_t size)
{
    return m->kind == ACP_GET ? serve_get(lane, from, link, m)
                              : serve_call(lane, from, link, m, payload, size);
}

bool answer_waiting(acp_lane *lane, struct op *op)
{
    struct message m = op->command;
    m.id = op->client_id;
    if (op->client_link && (!link_io_room(op->client_link) || !reserve_ready(lane->engine))) {
        pending_stall(lane->engine, op);
        return false;
    }
    int rc = op->client ? answer_now(lane, op->client, op->client_link, &m, op->payload,
                                    op->payload_size)
                        : ACP_OK;
    if (rc == ACP_E_BUSY && m.kind == ACP_GET) { /* device memory has taken the place of what was there */
        rc = lane_fail(lane, ACP_E_UNREGISTERED, m.src, m.a);
        answer_settle(lane, op->client, op->client_link, &m, &lane->fault, 0);
    }
    if (rc == ACP_E_BUSY) {
        pending_bar(lane, op);
        return false;
    }
    if (rc != ACP_OK)
        op_table_fault(op, &lane->fault); /* for those that follow it */
    op->client = NULL;              /* it has its answer */
    return true;
}
