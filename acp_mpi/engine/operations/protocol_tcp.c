/* The road that leads anywhere: commands as frames on a link. */
#include "operations/protocol_tcp.h"
#include "base/crc32c.h"
#include "memory/translate.h"
#include "operations/execute.h"
#include "operations/method_call.h"
#include "operations/op_table.h"
#include "peers/peer_liveness.h"
#include "transport/frame.h"
#include "transport/link.h"
#include "transport/link_io.h"
#include "transport/tcp_send_queue.h"

int protocol_tcp_command(acp_lane *lane, struct peer *to, uint32_t color, const struct message *m,
                         const void *payload, uint64_t size)
{
    struct link *link = link_to(lane, to, color);
    if (!link)
        return peer_liveness_fail(lane, to, m->src ? m->src : m->dst, m->a);
    return link_io_send(lane, link, m, payload, size);
}

int protocol_tcp_mail(acp_lane *lane, struct peer *to, uint32_t color, const struct message *m,
                      const void *payload, uint64_t size, bool has_time)
{
    struct link *link = link_to(lane, to, color);
    if (!link)
        return peer_liveness_fail(lane, to, m->dst, size);
    return link_io_send_mail(lane, link, m, payload, size, has_time);
}

static int road_send(acp_lane *lane, struct peer *to, uint32_t color, const struct message *m)
{
    bool later = layout_is_atomic(m->kind) && m->flags & ANSWER_LATER;
    struct link *link = later ? link_to(lane, to, color) : NULL;
    /* Only an atomic that goes out alone may be answered later: the answer to an earlier one releases frames that are
     * held back. */
    if (!link || (!link->unanswered && !link->corked))
        return protocol_tcp_command(lane, to, color, m, NULL, 0);
    struct message behind = *m;
    behind.flags &= (uint8_t)~ANSWER_LATER;
    return link_io_send(lane, link, &behind, NULL, 0);
}

static bool road_room(acp_lane *lane, struct peer *to, uint32_t color)
{
    const struct link *link = to->tcp.links[color];
    (void)lane;
    return !link || link_io_room(link);
}

/* A whole part that is global memory of this process goes out from where it lies: it must not change
 * before the operation is complete, nor end before link_io_take_in_all. False: it is to be read. */
static bool lend(acp_lane *lane, struct link *link, const struct op *op, uint64_t at, uint64_t size,
                 unsigned char *payload, uint64_t *sum)
{
    struct translation s;
    enum reach reach;
    acp_ga_t src = op->command.src + at;
    if (op->local.local || size != FRAME_PAYLOAD_MOST ||
        translate(lane, src, size, &s, &reach) != ACP_OK || reach != REACH_LOAD ||
        s.peer != lane->engine->job.own || !translate_enter(&s, ROLE_SRC))
        return false;
    const unsigned char *body = s.base + (src - s.low);
    tcp_send_queue_lend(&link->out, payload - FRAME_HEAD, FRAME_HEAD, body, size);
    if (!link->sealed)
        *sum = acp_crc32c((uint32_t)*sum, body, size);
    translate_leave(&s, ROLE_SRC);
    return true;
}

static int road_put(acp_lane *lane, struct op *op, uint64_t at, uint64_t size, bool silent)
{
    struct message m = {.kind = ACP_PUT, .flags = silent ? PART_SILENT : 0, .id = op_table_id(op),
                        .from = lane->engine->self, .dst = op->command.dst + at, .a = size,
                        .after = op->sent_after ? op->order : 0};
    struct link *link = link_to(lane, op->target, op->color);
    uint64_t sum = 0;
    unsigned char *payload = link ? link_io_reserve(lane, link, &m, size, &sum) : NULL;
    if (!payload)
        return link ? lane->fault.status : peer_liveness_fail(lane, op->target, m.dst, size);
    int rc = !size || lend(lane, link, op, at, size, payload, &sum)
                 ? ACP_OK
                 : execute_part_read(lane, op, at, size, payload, link->sealed ? NULL : &sum);
    if (rc == ACP_OK)
        link_io_commit(lane, link, &m, payload, size, sum);
    else
        link_io_cancel(link, size);
    return rc;
}

static int road_get(acp_lane *lane, struct op *op, uint64_t at, uint64_t size)
{
    struct message m = {.kind = ACP_GET, .id = op_table_id(op), .from = lane->engine->self, .dst = at,
                        .src = op->command.src + at, .a = size,
                        .after = op->sent_after ? op->order : 0};
    return protocol_tcp_command(lane, op->target, op->color, &m, NULL, 0);
}

static int road_call(acp_lane *lane, struct op *op)
{
    struct message m = method_call_message(lane, op);
    return protocol_tcp_command(lane, op->target, op->color, &m, op->call->in, op->call->in_size);
}

const struct road road_link = {
    .send = road_send, .put = road_put, .get = road_get, .call = road_call, .room = road_room,
    .parts = 64, .group = 16,
};
