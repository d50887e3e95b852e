
#include "operations/protocol_shm.h"
#include "core/state/peer.h"
#include "operations/execute.h"
#include "operations/method_call.h"
#include "operations/op_table.h"
#include "transport/shm_ring.h"

#include <stdlib.h>
#include <string.h>
/* The owner's ring as a road: commands in its cells, and bytes that only one process can reach in bounce chunks of
 * global memory. */

static bool bounce_new(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    struct bounce *b = calloc(1, sizeof *b);
    void *address;
    if (!b || acp_memory_alloc(lane, CHUNK_BYTES, 0, &b->ga, &address) != ACP_OK) {
        free(b);
        return false;
    }
    b->data = address;
    b->next = e->ops.bounce_pool;
    e->ops.bounce_pool = b;
    e->ops.bounce_count++;
    return true;
}

static struct bounce *bounce_take(acp_lane *lane, struct op *op, uint64_t at, uint64_t size)
{
    acp_engine *e = lane->engine;
    if (!e->ops.bounce_pool && !bounce_new(lane))
        return NULL;
    struct bounce *b = e->ops.bounce_pool;
    e->ops.bounce_pool = b->next;
    b->at = at;
    b->size = size;
    b->next = op->bounces;
    op->bounces = b;
    return b;
}

struct bounce *protocol_shm_bounce(struct op *op, const struct message *reply)
{
    for (struct bounce *b = op->bounces; b; b = b->next)
        if (b->ga == reply->dst || b->ga == reply->src)
            return b;
    return NULL;
}

void protocol_shm_release(acp_engine *e, struct op *op, struct bounce *b)
{
    for (struct bounce **at = &op->bounces; *at; at = &(*at)->next) {
        if (*at == b) {
            *at = b->next;
            break;
        }
    }
    b->next = e->ops.bounce_pool;
    e->ops.bounce_pool = b;
}

/* Without memory for one more chunk an operation waits for one in use. Without any in use it cannot: its operation
 * fails. */
static bool ring_room(acp_lane *lane, struct peer *to, uint32_t color)
{
    const acp_engine *e = lane->engine;
    (void)color;
    if (to->ring.backlog || e->ops.bounce_pool)
        return !to->ring.backlog;
    return e->ops.bounce_count < BOUNCE_CHUNKS && (bounce_new(lane) || !e->ops.bounce_count);
}

static int ring_part(acp_lane *lane, struct op *op, struct bounce *b, acp_ga_t dst, acp_ga_t src)
{
    struct message m = {.kind = ACP_COPY, .id = op_table_id(op), .from = lane->engine->self,
                        .dst = dst, .src = src, .a = b->size,
                        .after = op->sent_after ? op->order : 0};
    int rc = shm_ring_send(lane, op->target, 0, &m);
    if (rc != ACP_OK)
        protocol_shm_release(lane->engine, op, b);
    return rc;
}

/* No part is silent here: the answer gives the chunk back. */
static int ring_put(acp_lane *lane, struct op *op, uint64_t at, uint64_t size, bool silent)
{
    (void)silent;
    struct bounce *b = bounce_take(lane, op, at, size);
    if (!b)
        return lane->fault.status;
    int rc = execute_part_read(lane, op, at, size, b->data, NULL);
    if (rc != ACP_OK) {
        protocol_shm_release(lane->engine, op, b);
        return rc;
    }
    return ring_part(lane, op, b, op->command.dst + at, b->ga);
}

static int ring_get(acp_lane *lane, struct op *op, uint64_t at, uint64_t size)
{
    struct bounce *b = bounce_take(lane, op, at, size);
    if (!b)
        return lane->fault.status;
    return ring_part(lane, op, b, b->ga, op->command.src + at);
}

/* Bytes cross in one chunk: those that the method takes, then those that it brings. */
static int ring_call(acp_lane *lane, struct op *op)
{
    const struct acp_call *c = op->call;
    struct message m = method_call_message(lane, op);
    struct bounce *b = NULL;
    if (c->in_size || c->out_room) {
        if (!(b = bounce_take(lane, op, 0, c->in_size)))
            return lane->fault.status;
        m.dst = b->ga;
        if (c->in_size)
            memcpy(b->data, c->in, c->in_size);
    }
    int rc = shm_ring_send(lane, op->target, 0, &m);
    if (rc != ACP_OK && b)
        protocol_shm_release(lane->engine, op, b);
    return rc;
}

/* After a reset the pool's addresses are dead; its memory goes back. */
void protocol_shm_close(acp_engine *e)
{
    while (e->ops.bounce_pool) {
        struct bounce *b = e->ops.bounce_pool;
        e->ops.bounce_pool = b->next;
        acp_memory_drop(&e->lanes[LANE_CALLER], b->data, CHUNK_BYTES);
        free(b);
        e->ops.bounce_count--;
    }
}

const struct road road_ring = {
    .send = shm_ring_send, .put = ring_put, .get = ring_get, .call = ring_call, .room = ring_room,
    .parts = 8, .group = 1,
};
