/* Input from other processes: commands to run on memory of this one, replies to its own operations, and notices. With
 * the lock held. */
#include "operations/target.h"
#include "core/upcalls.h"
#include "operations/ack.h"
#include "operations/answer.h"
#include "operations/any_source.h"
#include "operations/execute.h"
#include "operations/notices.h"
#include "operations/op_table.h"
#include "operations/protocol.h"
#include "operations/task.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "transport/link.h"
#include "transport/link_io.h"

#include <stdlib.h>
#include <string.h>

/* A task: a command that is not done at once. */
static void begin_task(acp_lane *lane, struct peer *from, struct link *link,
                       const struct message *m, const unsigned char *payload, uint64_t size,
                       struct op *then)
{
    acp_engine *e = lane->engine;
    struct op *op = task_new(e);
    if (!op) {
        lane_fail(lane, ACP_E_SYSTEM, m->src, m->a);
        answer_settle(lane, from, link, m, &lane->fault, 0);
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
            answer_settle(lane, from, link, m, &lane->fault, 0);
            op->client = NULL;
            task_free(e, op);
            return;
        }
        memcpy(op->payload, payload, size);
        if (m->kind == ACP_PUT)
            op->local = (struct place){op->payload, true};
    }
    if (m->kind == ACP_GET && answer_of_device(lane, m)) {
        op->payload = malloc(m->a);
        op->payload_size = m->a;
        op->local = (struct place){op->payload, false};
        if (!op->payload)
            lane_fail(lane, ACP_E_SYSTEM, m->src, m->a);
        if (!op->payload)
            op_table_fault(op, &lane->fault);
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

/* Straight from a frame into its place, while it is summed if a sum is wanted. */
int target_land(acp_lane *lane, const struct message *m, const unsigned char *payload, uint64_t size,
                bool is_long, uint64_t *sum)
{
    if (is_long)
        return execute_stream(lane, m, payload, size, sum);
    return execute_command(lane, m, (struct place){(unsigned char *)(uintptr_t)payload, true}, 0, size, sum);
}

/* A part for device memory becomes a task behind the parts before it, for one answer may be for all of them. */
void target_landed(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                   const unsigned char *payload, int rc)
{
    if (rc == ACP_E_BUSY)
        begin_task(lane, from, link, m, payload, m->a, task_of(lane->engine, from, m->id));
    else if (rc != ACP_OK || !(m->flags & PART_SILENT))
        answer_settle(lane, from, link, m, rc == ACP_OK ? NULL : &lane->fault, 0);
}

static void serve_command(acp_lane *lane, struct peer *from, struct link *link,
                          const struct message *m, const unsigned char *payload, uint64_t size)
{
    acp_engine *e = lane->engine;
    if (m->kind == ACP_PUT && (m->a != size || !payload)) {
        lane_fail(lane, ACP_E_ARGUMENT, m->dst, m->a);
        answer_settle(lane, from, link, m, &lane->fault, 0);
        return;
    }
    if (m->after && m->kind != ACP_CALL) {
        const acp_fault *earlier = answer_earlier_failure(from, m->after);
        if (earlier) {
            acp_fault fault = *earlier;
            answer_settle(lane, from, link, m, &fault, 0);
            return;
        }
        struct op *then = e->ops.tasks ? task_of(e, from, m->after) : NULL;
        if (then) {
            begin_task(lane, from, link, m, payload, size, then);
            return;
        }
    }
    if (layout_is_atomic(m->kind) && (m->src & (layout_atomic_width(m->kind) - 1))) {
        lane_fail(lane, ACP_E_ALIGN, m->src, layout_atomic_width(m->kind));
        answer_settle(lane, from, link, m, &lane->fault, 0);
    } else if (m->kind == ACP_GET || m->kind == ACP_BATCH || m->kind == ACP_CALL) {
        if ((link && !link_io_room(link)) ||
            answer_now(lane, from, link, m, payload, size) == ACP_E_BUSY)
            begin_task(lane, from, link, m, payload, size, NULL);
    } else if (m->kind == ACP_PUT) {
        struct place source = {(unsigned char *)(uintptr_t)payload, true};
        target_landed(lane, from, link, m, payload, execute_command(lane, m, source, 0, size, NULL));
    } else if (layout_is_atomic(m->kind) && m->dst == ACP_GA_NULL) {
        uint64_t old = 0;
        int rc = execute_command(lane, m, (struct place){0}, 0, 0, &old);
        if (rc == ACP_E_BUSY)
            begin_task(lane, from, link, m, payload, size, NULL);
        else if (rc == ACP_OK && link && m->flags & ANSWER_TOGETHER)
            ack_add(lane, link, m);
        else
            answer_settle(lane, from, link, m, rc == ACP_OK ? NULL : &lane->fault, old);
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
            op_table_done(lane, link->peer, m->id, ack_take(link, m));
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
    case ACP_CHANNEL:
        e->up->channel(lane, from, link, m, payload, size);
        break;
    case ACP_DOUBT:
        e->up->doubted(lane, from, link, m, payload, size);
        break;
    case ACP_DOING:
        answer_value(lane, from, link, m, layout_doing(e->control));
        break;
    default:
        if (m->kind == ACP_COPY || m->kind == ACP_PUT || m->kind == ACP_GET ||
            m->kind == ACP_CALL || (m->kind == ACP_BATCH && payload) || layout_is_atomic(m->kind))
            serve_command(lane, from, link, m, payload, size);
    }
}
