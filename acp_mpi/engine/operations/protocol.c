/* The ways of operations, step by step: an operation begins as the router has decided, goes on when there is room, and
 * ends with the last answer. */
#include "operations/protocol.h"
#include "core/upcalls.h"
#include "memory/translate.h"
#include "operations/answer.h"
#include "operations/batch.h"
#include "operations/execute.h"
#include "operations/method_call.h"
#include "operations/op_background.h"
#include "operations/op_table.h"
#include "operations/pending.h"
#include "operations/protocol_shm.h"
#include "operations/protocol_tcp.h"
#include "operations/route.h"
#include "operations/vector.h"

#include <string.h>

/* An owner on this node reaches what this process reaches. So it may run the second before this process has
 * delivered the old value that the first brings; and a put is read here and now, maybe from memory to which
 * the first is to bring something. */
static bool reads_too_early(const struct op *before, const struct plan *plan)
{
    if (plan->road != &road_ring)
        return false;
    return (before->stripped && before->command.dst != ACP_GA_NULL) ||
           (plan->way == WAY_PUT && (before->way != WAY_PUT || before->target->shown));
}

/* May `op` be sent now although the operation before it is under way? If both are settled at
 * the same target, which keeps their order, and nothing that the first still brings to this
 * process is read by the second. */
static bool may_go(acp_lane *lane, const struct op *op, struct plan *plan)
{
    const struct op *before = op->then;
    if (op->way == WAY_MANY || op->job)
        return false;
    if (op_table_tells_nothing(op) && op_table_tells_nothing(before) && before->way == WAY_ASK &&
        before->road == &road_link && translate_remote(lane, op->command.src) == before->target &&
        acp_ga_color(op->command.src) == before->color) {
        *plan = (struct plan){.way = WAY_ASK, .road = &road_link, .target = before->target,
                              .color = before->color, .strip = true};
        return true;
    }
    bool single = before->way == WAY_ASK ||
                  (before->way == WAY_PUT && before->issued == before->command.a &&
                   before->command.a <= CHUNK_BYTES);
    if (!single || route(lane, op, plan) != ACP_OK || plan->target != before->target ||
        plan->road != before->road || plan->color != before->color ||
        reads_too_early(before, plan))
        return false;
    if (plan->way == WAY_ASK)
        return true;
    return op->command.a <= CHUNK_BYTES &&
           (plan->way == WAY_GET || (plan->way == WAY_PUT && !before->stripped));
}

static void lane_fault(acp_lane *lane, struct op *op)
{
    if (lane->fault.status == ACP_E_BUSY)
        lane->fault.status = ACP_E_SYSTEM;
    op_table_fault(op, &lane->fault);
}

/* The old value of an atomic is known: it goes where the caller wanted it. */
static void answer_deliver(acp_lane *lane, struct op *op)
{
    struct message *c = &op->command;
    if (op->local.local) {
        memcpy(op->local.local, &op->result, sizeof op->result);
        op_table_finish(lane, op);
    } else if (c->dst != ACP_GA_NULL) {
        c->a = layout_atomic_width(c->kind);
        c->kind = ACP_COPY;
        c->src = ACP_GA_NULL;
        op->local = (struct place){(unsigned char *)&op->result, true};
        op->issued = 0;
        op->sent_after = false;
        protocol_start(lane, op);
    } else {
        op_table_finish(lane, op);
    }
}

static void method_carry(acp_lane *lane, struct op *op)
{
    int rc = method_call_run(lane, op->call);
    if (rc == ACP_E_BUSY) {
        pending_bar(lane, op);
        return;
    }
    if (rc != ACP_OK)
        op_table_fault(op, &lane->fault);
    op_table_finish(lane, op);
}

static void command_carry(acp_lane *lane, struct op *op)
{
    acp_engine *e = lane->engine;
    struct message *c = &op->command;
    if (op->call) {
        method_carry(lane, op);
        return;
    }
    if (layout_is_atomic(c->kind)) {
        if (execute_command(lane, c, op->local, 0, 0, &op->result) == ACP_OK) {
            answer_deliver(lane, op);
            return;
        }
        lane_fault(lane, op);
    } else if (c->a > BACKGROUND_BYTES) {
        op_background_add(e, op);
        return;
    } else if (c->a) {
        int rc = execute_command(lane, c, op->local, 0, c->a, NULL);
        if (rc == ACP_E_BUSY) { /* a fast way was refused just now: there is another */
            protocol_start(lane, op);
            return;
        }
        if (rc != ACP_OK)
            lane_fault(lane, op);
    }
    op_table_finish(lane, op);
}

/* A command of a peer that is answered in one piece, and found no room, or a taken lock. */
static bool waits_to_be_served(const struct op *op)
{
    uint8_t kind = op->command.kind;
    return (kind == ACP_GET && !op->local.local) || kind == ACP_BATCH || (kind == ACP_CALL && !op->call);
}

/* Was the last part sent in the middle of a group with one answer, which must still be requested? */
static bool group_open(const struct op *op)
{
    return op->way == WAY_PUT && op->issued < op->command.a &&
           op->issued / CHUNK_BYTES % op->road->group != 0;
}

/* Sends the next part, or requests it. */
static int part_push(acp_lane *lane, struct op *op)
{
    uint64_t left = op->command.a - op->issued, size = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    uint64_t at = op->issued;
    if (op->way == WAY_GET) {
        int rc = op->road->get(lane, op, at, size);
        op->issued += rc == ACP_OK ? size : 0;
        op->in_flight += rc == ACP_OK;
        return rc;
    }
    op->issued += size;
    bool silent = group_open(op);
    int rc = op->road->put(lane, op, at, size, silent);
    op->in_flight += rc == ACP_OK && !silent;
    if (rc != ACP_OK)
        op->issued = at;
    return rc;
}

/* A part cannot be read: those before it that have no answer yet may still be on their way, and no
 * operation ends before them. A part without bytes gets theirs. */
static void group_close(acp_lane *lane, struct op *op)
{
    if (!group_open(op))
        return;
    op->in_flight += op->road->put(lane, op, op->issued, 0, false) == ACP_OK;
    op->issued = op->command.a;
}

/* Sends or requests as many parts as there is room for. */
void protocol_push(acp_lane *lane, struct op *op)
{
    if (op->way == WAY_MANY) {
        vector_push(lane, op);
        return;
    }
    if (op->way == WAY_RELAY) {
        lane->engine->up->device_relay(lane, op);
        return;
    }
    if (op->call || waits_to_be_served(op)) {
        protocol_start(lane, op);
        return;
    }
    uint32_t most = op->road->parts / (op->way == WAY_PUT ? op->road->group : 1);
    bool room = true, failed = false;
    /* A failed operation goes on until the answer that shows that no part is under way. */
    while (!failed && op->issued < op->command.a && op->in_flight < most &&
           (op->fault.status == ACP_OK || group_open(op)) &&
           (room = op->road->room(lane, op->target, op->color)))
        failed = part_push(lane, op) != ACP_OK;
    if (failed) {
        lane_fault(lane, op);
        group_close(lane, op);
    }
    if (op->in_flight == 0 && (failed || op->issued == op->command.a ||
                               (op->fault.status != ACP_OK && !group_open(op)))) {
        if (op->fault.status == ACP_OK && op->road == &road_link)
            lane->engine->up->window_learn(lane, op->target,
                         op->way == WAY_PUT ? op->command.dst : op->command.src, op->command.a);
        op_table_finish(lane, op);
    } else if (!room) {
        pending_stall(lane->engine, op);
    }
}

static void ask(acp_lane *lane, struct op *op)
{
    struct message m = op->command;
    m.id = op_table_id(op);
    m.from = lane->engine->self;
    m.after = op->sent_after ? op->order : 0;
    if (op->stripped)
        m.dst = ACP_GA_NULL;
    m.flags = op_table_tells_nothing(op) ? ANSWER_TOGETHER : 0;
    /* More of the chain will come before a caller waits. */
    if (op->chained && m.dst == ACP_GA_NULL && layout_is_atomic(m.kind) &&
        !atomic_load_explicit(&lane->engine->progress.callers, memory_order_relaxed))
        m.flags |= ANSWER_LATER;
    op->in_flight = 1;
    if (!layout_is_atomic(m.kind)) {
        op->away = m.a;
        atomic_fetch_add_explicit(&lane->engine->ops.bytes_away, op->away, memory_order_relaxed);
    }
    if (op->road->send(lane, op->target, op->color, &m) != ACP_OK) {
        lane_fault(lane, op);
        op->in_flight = 0;
        op_table_finish(lane, op);
    }
}

static void call_send(acp_lane *lane, struct op *op)
{
    if (!op->road->room(lane, op->target, op->color)) {
        pending_stall(lane->engine, op);
        return;
    }
    op->in_flight = 1;
    if (op->road->call(lane, op) != ACP_OK) {
        lane_fault(lane, op);
        op->in_flight = 0;
        op_table_finish(lane, op);
    }
}

static void plan_follow(acp_lane *lane, struct op *op, const struct plan *plan)
{
    if (op->job && plan->way != WAY_DEVICE && lane->engine->up->device_gate(lane, op))
        return;
    op->way = (uint8_t)plan->way;
    op->road = plan->road;
    op->target = plan->target;
    op->color = plan->color;
    op->stripped = plan->strip;
    op->backward = plan->backward;
    if (plan->way == WAY_RUN)
        command_carry(lane, op);
    else if (plan->way == WAY_ASK)
        ask(lane, op);
    else if (plan->way == WAY_CALL)
        call_send(lane, op);
    else if (plan->way == WAY_DEVICE)
        lane->engine->up->device_add(lane, op);
    else if (op_table_by_window(op->way))
        lane->engine->up->window_start(lane, op);
    else
        protocol_push(lane, op);
}

/* Sends `op` behind the operation before it if the target will keep their order. */
bool protocol_start_behind(acp_lane *lane, struct op *op)
{
    struct plan plan;
    if (!may_go(lane, op, &plan))
        return false;
    op->sent_after = true;
    op->state = OP_RUNNING;
    plan_follow(lane, op, &plan);
    return true;
}

void protocol_start(acp_lane *lane, struct op *op)
{
    struct plan plan;
    if (op->way == WAY_MANY) {
        if (!op->job || !lane->engine->up->device_gate(lane, op))
            vector_push(lane, op);
        return;
    }
    if (waits_to_be_served(op)) {
        if (answer_waiting(lane, op))
            op_table_finish(lane, op);
        return;
    }
    if (op->fault.status != ACP_OK || route(lane, op, &plan) != ACP_OK) {
        lane_fault(lane, op);
        op_table_finish(lane, op);
        return;
    }
    if (!plan.halves || !vector_halves(lane, op))
        plan_follow(lane, op, &plan);
}

void protocol_reply(acp_lane *lane, struct op *op, const struct message *m,
                    const unsigned char *payload, uint64_t size)
{
    bool silent = op->way == WAY_PUT && m->flags & PART_SILENT; /* it has failed */
    if (!op->in_flight && !silent)
        return;
    op->in_flight -= !silent;
    if (m->status != ACP_OK) {
        acp_fault fault = {.status = m->status, .ga = m->b, .size = m->after,
                           .rank = acp_ga_rank(m->b)};
        op_table_fault(op, &fault);
    }
    if (op->way == WAY_BATCH) {
        batch_reply(lane, op, payload, size);
        op_table_finish(lane, op);
        return;
    }
    if (op->way == WAY_CALL) {
        method_call_reply(lane, op, m, payload, size);
        op_table_finish(lane, op);
        return;
    }
    if (op_table_by_window(op->way)) {
        lane->engine->up->window_welcome(lane, op);
        return;
    }
    if (op->way == WAY_ASK) {
        op->result = m->a;
        if (op->kept)
            op->command.b = m->b;
        if (op->fault.status == ACP_OK && layout_is_atomic(op->command.kind) && op->stripped)
            answer_deliver(lane, op);
        else
            op_table_finish(lane, op);
        return;
    }
    uint64_t at = m->dst; /* echoed: which part this is */
    struct bounce *bounce = protocol_shm_bounce(op, m);
    if (bounce) {
        at = bounce->at;
        size = bounce->size;
        payload = bounce->data;
    }
    if (op->way == WAY_GET && m->status == ACP_OK &&
        (!payload || size > op->command.a || at > op->command.a - size ||
         execute_part_write(lane, op, at, size, payload) != ACP_OK))
        lane_fault(lane, op);
    if (bounce)
        protocol_shm_release(lane->engine, op, bounce);
    protocol_push(lane, op);
}

/* Operations that found no room on their road, or a taken lock, try again. True: one went on. */
bool protocol_retry(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    uint32_t before = e->ops.stalled_count;
    for (uint32_t left = before; left && e->ops.stalled; left--) {
        struct op *op = e->ops.stalled;
        pending_unstall(e, op);
        protocol_push(lane, op);
    }
    return e->ops.stalled_count < before;
}

/* One slice of a long copy; true if there was one. */
bool protocol_slice(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    pthread_mutex_lock(&e->lock);
    if (!e->ops.work) {
        atomic_store(&e->ops.work_pending, false);
        e->ops.work_kicked = false;
        pthread_mutex_unlock(&e->lock);
        return false;
    }
    struct op *op = op_background_take(e);
    if (op_table_by_window(op->way)) {
        e->up->window_step(lane, op);
        pthread_mutex_unlock(&e->lock);
        return true;
    }
    struct message command = op->command;
    struct place local = op->local;
    uint64_t left = command.a - op->issued, size = left < SLICE_BYTES ? left : SLICE_BYTES;
    uint64_t at = op->backward ? left - size : op->issued;
    pthread_mutex_unlock(&e->lock);
    int rc = execute_command(lane, &command, local, at, size, NULL);
    pthread_mutex_lock(&e->lock);
    op->issued += size;
    if (rc == ACP_E_BUSY) {
        op->issued = 0;
        protocol_start(lane, op);
    } else {
        if (rc != ACP_OK)
            lane_fault(lane, op);
        if (rc != ACP_OK || op->issued == command.a) {
            op_table_finish(lane, op);
        } else { /* the next copy has its turn */
            op_background_add(e, op);
        }
    }
    pthread_mutex_unlock(&e->lock);
    return true;
}
