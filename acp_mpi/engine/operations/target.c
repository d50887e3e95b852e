/* Input from other processes: commands to run on memory of this one, replies to its own operations, and notices. With
 * the lock held. */
#include "operations/target.h"
#include "core/upcalls.h"
#include "memory/translate.h"
#include "operations/ack.h"
#include "operations/any_source.h"
#include "operations/batch.h"
#include "operations/execute.h"
#include "operations/notices.h"
#include "operations/op_table.h"
#include "operations/pending.h"
#include "operations/protocol.h"
#include "operations/remote_call.h"
#include "operations/reserve.h"
#include "operations/route.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "transport/link.h"
#include "transport/link_io.h"

#include <stdlib.h>
#include <string.h>

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

void target_reply(acp_lane *lane, struct peer *to, struct link *link,
                  const struct message *command, uint64_t value)
{
    send_reply(lane, to, link, command, NULL, value, NULL, 0);
}

void target_fail(acp_lane *lane, struct peer *to, struct link *link,
                 const struct message *command)
{
    send_reply(lane, to, link, command, &lane->fault, 0, NULL, 0);
}

static const acp_fault *earlier_failure(const struct peer *from, uint64_t id)
{
    for (uint32_t i = 0; i < from->ops.chain_failure_count; i++)
        if (from->ops.chain_failures[i].id == id)
            return &from->ops.chain_failures[i].fault;
    return NULL;
}

static void remember_failure(struct peer *from, uint64_t id, const acp_fault *fault)
{
    uint32_t kept = 0;
    if (id >> 63 || earlier_failure(from, id))
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

struct op *target_task(acp_engine *e, const struct peer *client, uint64_t id)
{
    for (struct op *op = e->ops.tasks; op; op = op->next_task)
        if (op->client == client && op->client_id == id && op->state != OP_DONE)
            return op;
    return NULL;
}

static void task_settle(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                        const acp_fault *fault, uint64_t value)
{
    if (fault && fault->status != ACP_OK)
        remember_failure(from, m->id, fault);
    send_reply(lane, from, link, m, fault, value, NULL, 0);
}

/* Straight from a frame into its place, while it is summed. */
int target_land(acp_lane *lane, const struct message *m, const unsigned char *payload, uint64_t size,
                uint64_t *sum)
{
    return execute_command(lane, m, (struct place){(unsigned char *)(uintptr_t)payload, true}, 0, size, sum);
}

void target_landed(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                   int rc)
{
    if (rc != ACP_OK || !(m->flags & PART_SILENT))
        task_settle(lane, from, link, m, rc == ACP_OK ? NULL : &lane->fault, 0);
}

void target_task_reply(acp_lane *lane, struct op *op)
{
    struct message m = op->command;
    m.id = op->client_id;
    if (op->client)
        task_settle(lane, op->client, op->client_link, &m, &op->fault, op->result);
}

static int serve_get(acp_lane *lane, struct peer *from, struct link *link,
                     const struct message *m)
{
    struct translation t;
    enum reach reach;
    int rc = m->a <= CHUNK_BYTES ? translate(lane, m->src, m->a, &t, &reach)
                                 : lane_fail(lane, ACP_E_ARGUMENT, m->src, m->a);
    while (rc == ACP_OK && (reach != REACH_LOAD || !translate_enter(&t, ROLE_SRC)))
        rc = reach != REACH_LOAD ? lane_fail(lane, ACP_E_UNREGISTERED, m->src, m->a)
                                 : translate(lane, m->src, m->a, &t, &reach);
    if (rc != ACP_OK) {
        task_settle(lane, from, link, m, &lane->fault, 0);
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
                                    : remote_call_serve(lane, link, m, &c);
    if (rc == ACP_E_BUSY)
        return rc;
    answer.b = c.result[1];
    answer.after = c.out_size;
    send_reply(lane, from, link, &answer, rc == ACP_OK ? NULL : &lane->fault, c.result[0], c.out,
               c.out_size);
    return rc;
}

static int serve_now(acp_lane *lane, struct peer *from, struct link *link,
                     const struct message *m, const unsigned char *payload, uint64_t size)
{
    return m->kind == ACP_GET ? serve_get(lane, from, link, m)
                              : serve_call(lane, from, link, m, payload, size);
}

/* A task that waited for its order, for room for its result, or for a lock. */
void target_task_serve(acp_lane *lane, struct op *op)
{
    struct message m = op->command;
    m.id = op->client_id;
    if (op->client_link && (!link_io_room(op->client_link) || !reserve_ready(lane->engine))) {
        pending_stall(lane->engine, op);
        return;
    }
    int rc = op->client ? serve_now(lane, op->client, op->client_link, &m, op->payload,
                                    op->payload_size)
                        : ACP_OK;
    if (rc == ACP_E_BUSY) {
        pending_bar(lane, op);
        return;
    }
    if (rc != ACP_OK)
        op_table_fault(op, &lane->fault); /* for those that follow it */
    op->client = NULL;              /* it has its answer */
    op_table_finish(lane, op);
}

/* A task: a command that is not done at once. */
static void begin_task(acp_lane *lane, struct peer *from, struct link *link,
                       const struct message *m, const unsigned char *payload, uint64_t size,
                       struct op *then)
{
    acp_engine *e = lane->engine;
    struct op *op = op_table_task_new(e);
    if (!op) {
        lane_fail(lane, ACP_E_SYSTEM, m->src, m->a);
        task_settle(lane, from, link, m, &lane->fault, 0);
        return;
    }
    op->command = *m;
    if (layout_is_atomic(m->kind))
        op->command.flags = 0; /* it waited or goes on elsewhere: its answer is not delayed further */
    op->client = from;
    op->client_link = link;
    op->client_id = m->id;
    if (payload) {
        op->payload_size = size;
        op->payload = malloc(size);
        if (!op->payload) {
            lane_fail(lane, ACP_E_SYSTEM, m->dst, m->a);
            task_settle(lane, from, link, m, &lane->fault, 0);
            op->client = NULL;
            op_table_task_free(e, op);
            return;
        }
        memcpy(op->payload, payload, size);
        if (m->kind == ACP_PUT)
            op->local = (struct place){op->payload, true};
    }
    if (then) {
        struct op **at = &then->followers;
        while (*at)
            at = &(*at)->next_follower;
        *at = op;
        op->then = then;
    } else {
        op->state = OP_RUNNING;
        protocol_start(lane, op);
    }
}

static void serve_command(acp_lane *lane, struct peer *from, struct link *link,
                          const struct message *m, const unsigned char *payload, uint64_t size)
{
    acp_engine *e = lane->engine;
    if (m->kind == ACP_PUT && (m->a != size || !payload)) {
        lane_fail(lane, ACP_E_ARGUMENT, m->dst, m->a);
        task_settle(lane, from, link, m, &lane->fault, 0);
        return;
    }
    if (m->after && m->kind != ACP_CALL) {
        const acp_fault *earlier = earlier_failure(from, m->after);
        if (earlier) {
            acp_fault fault = *earlier;
            task_settle(lane, from, link, m, &fault, 0);
            return;
        }
        struct op *then = e->ops.tasks ? target_task(e, from, m->after) : NULL;
        if (then) {
            begin_task(lane, from, link, m, payload, size, then);
            return;
        }
    }
    if (layout_is_atomic(m->kind) && (m->src & (layout_atomic_width(m->kind) - 1))) {
        lane_fail(lane, ACP_E_ALIGN, m->src, layout_atomic_width(m->kind));
        task_settle(lane, from, link, m, &lane->fault, 0);
    } else if (m->kind == ACP_GET || m->kind == ACP_BATCH || m->kind == ACP_CALL) {
        if ((link && !link_io_room(link)) ||
            serve_now(lane, from, link, m, payload, size) == ACP_E_BUSY)
            begin_task(lane, from, link, m, payload, size, NULL);
    } else if (m->kind == ACP_PUT) {
        struct place source = {(unsigned char *)(uintptr_t)payload, true};
        target_landed(lane, from, link, m, execute_command(lane, m, source, 0, size, NULL));
    } else if (layout_is_atomic(m->kind) && m->dst == ACP_GA_NULL) {
        uint64_t old = 0;
        int rc = execute_command(lane, m, (struct place){0}, 0, 0, &old);
        if (rc == ACP_E_BUSY)
            begin_task(lane, from, link, m, payload, size, NULL);
        else if (rc == ACP_OK && link && m->flags & ANSWER_TOGETHER)
            ack_add(lane, link, m);
        else
            task_settle(lane, from, link, m, rc == ACP_OK ? NULL : &lane->fault, old);
    } else {
        begin_task(lane, from, link, m, payload, size, NULL);
    }
}

void target_arrived(acp_lane *lane, struct peer *from, struct link *link,
                    const struct message *m, const unsigned char *payload, uint64_t size)
{
    acp_engine *e = lane->engine;
    struct op *op;
    switch (m->kind) {
    case ACP_REPLY:
        if (link && m->flags & ANSWER_TOGETHER)
            ack_take(lane, link, m);
        else if ((op = op_table_find(e, m->id)))
            protocol_reply(lane, op, m, payload, size);
        break;
    case ACP_LOST:
        notices_loss_heard(lane, m);
        break;
    case ACP_LEAVING:
        notices_leave_heard(lane, from, m);
        break;
    case ACP_SIGNAL:
        e->up->signal(lane, from, link, m, payload, size);
        break;
    case ACP_PUBLISH:
    case ACP_LOOKUP:
        e->up->name(lane, from, link, m, payload, size);
        break;
    case ACP_NEWS:
        if (m->a == NEWS_ENDS) {
            notices_ends_heard(lane, from, m->b, m->after);
            break;
        }
        peer_attach(e, from); /* a peer in touch is told later losses */
        notices_catch_up(lane, from, link);
        if (m->a == NEWS_WATCH)
            any_source_asked(e, from, m->b);
        break;
    case ACP_ROWS:
        newcomers_learn(e, m, payload, size);
        break;
    case ACP_GUEST:
        e->up->guest(lane, from, link, m, payload, size);
        break;
    case ACP_MAIL:
    case ACP_MAIL_PART:
    case ACP_MAIL_SAID:
    case ACP_MAIL_WHERE:
        if (link)
            e->up->mail(lane, from, link, m, payload, size);
        break;
    case ACP_DOUBT:
        e->up->doubted(lane, from, link, m, payload, size);
        break;
    case ACP_DOING:
        send_reply(lane, from, link, m, NULL, layout_doing(e->control), NULL, 0);
        break;
    default:
        if (m->kind == ACP_COPY || m->kind == ACP_PUT || m->kind == ACP_GET ||
            m->kind == ACP_CALL || (m->kind == ACP_BATCH && payload) || layout_is_atomic(m->kind))
            serve_command(lane, from, link, m, payload, size);
    }
}
