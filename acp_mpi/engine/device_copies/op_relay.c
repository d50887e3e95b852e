/* Copies with device memory at one end that no single step does: between nodes, to memory that only its owner reaches,
 * and where a device refuses. Parts go through rooms of this process's global memory: while one part leaves its room,
 * the next one is fetched. Each of the two steps is an operation of its own, which the router sends on its way. */
#include "device_copies/op_relay.h"
#include "device_copies/op_device.h"
#include "operations/op_table.h"
#include "operations/pending.h"
#include "operations/protocol.h"
#include "operations/task.h"
#include "progress/doorbell.h"

#include <stdlib.h>

#define ROOM_BYTES ((uint64_t)1 << 20)
#define ROOMS 16u /* of the process */
#define PARTS 4u  /* of an operation, at most */

struct relay_room {
    acp_ga_t ga;
    unsigned char *data;
    struct relay_room *next;
};

enum part_state { PART_IDLE = 0, PART_FETCHED_SOON, PART_FETCHED, PART_LEAVES };

struct part {
    struct relay_room *room;
    const struct op *child;
    uint64_t at, size;
    enum part_state state;
};

struct relay {
    uint64_t next;  /* bytes of parts begun so far */
    uint32_t under_way;
    bool pushing;
    struct part parts[PARTS];
};

static struct relay_room *room_take(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    struct relay_room *room = e->copies.rooms;
    void *address;
    if (room) {
        e->copies.rooms = room->next;
        return room;
    }
    if (e->copies.room_count == ROOMS || !(room = calloc(1, sizeof *room)))
        return NULL;
    if (acp_memory_alloc(lane, ROOM_BYTES, 0, &room->ga, &address) != ACP_OK) {
        free(room);
        return NULL;
    }
    room->data = address;
    e->copies.room_count++;
    return room;
}

static void room_give(acp_engine *e, struct part *part)
{
    if (!part->room)
        return;
    part->room->next = e->copies.rooms;
    e->copies.rooms = part->room;
    part->room = NULL;
    if (e->ops.stalled_count)
        doorbell_kick(e);
}

void op_relay_free(acp_engine *e, struct relay *relay)
{
    for (uint32_t i = 0; relay && i < PARTS; i++)
        room_give(e, &relay->parts[i]);
    free(relay);
}

void op_relay_forget(struct device_job *job)
{
    for (uint32_t i = 0; job && job->relay && i < PARTS; i++)
        free(job->relay->parts[i].room);
    if (job)
        free(job->relay);
    free(job);
}

void op_relay_reset(acp_engine *e)
{
    while (e->copies.rooms) {
        struct relay_room *room = e->copies.rooms;
        e->copies.rooms = room->next;
        acp_memory_drop(&e->lanes[LANE_CALLER], room->data, ROOM_BYTES);
        free(room);
        e->copies.room_count--;
    }
}

void op_relay_close(acp_engine *e)
{
    while (e->copies.rooms) {
        struct relay_room *room = e->copies.rooms;
        e->copies.rooms = room->next;
        free(room);
    }
}

/* One step of a part: into its room, or out of it. */
static bool step_start(acp_lane *lane, struct op *op, struct part *part, bool fetch)
{
    const struct message *c = &op->command;
    bool local = op->local.local && op->local.is_source == fetch;
    struct op *child = task_new(lane->engine);
    struct device_job *job = child && local && op->job->local ? op_device_job(lane, child) : NULL;
    if (!child || (local && op->job->local && !job)) {
        if (child)
            task_free(lane->engine, child);
        lane_fail(lane, ACP_E_SYSTEM, c->src, c->a);
        op_table_fault(op, &lane->fault);
        return false;
    }
    child->command = (struct message){.kind = ACP_COPY, .dst = fetch ? part->room->ga : c->dst + part->at,
                                      .src = fetch ? c->src + part->at : part->room->ga, .a = part->size};
    if (local)
        child->local = (struct place){op->local.local + part->at, fetch};
    if (job)
        job->local = op->job->local;
    child->parent = op;
    child->state = OP_RUNNING;
    part->child = child;
    part->state = fetch ? PART_FETCHED_SOON : PART_LEAVES;
    op->job->relay->under_way++;
    protocol_start(lane, child);
    return true;
}

/* True: something was begun. */
static bool part_go_on(acp_lane *lane, struct op *op, struct part *part)
{
    struct relay *r = op->job->relay;
    uint64_t left = op->command.a - r->next;
    if (part->state == PART_FETCHED)
        return step_start(lane, op, part, false);
    if (part->state != PART_IDLE || !left || (!part->room && !(part->room = room_take(lane))))
        return false;
    part->size = left < ROOM_BYTES ? left : ROOM_BYTES;
    part->at = op->job->backward ? left - part->size : r->next;
    r->next += part->size;
    return step_start(lane, op, part, true);
}

void op_relay_push(acp_lane *lane, struct op *op)
{
    struct device_job *job = op_device_job(lane, op);
    if (job && !job->relay && !(job->relay = calloc(1, sizeof *job->relay)))
        lane_fail(lane, ACP_E_SYSTEM, op->command.src, op->command.a);
    if (!job || !job->relay) {
        op_table_fault(op, &lane->fault);
        op_table_finish(lane, op);
        return;
    }
    struct relay *r = job->relay;
    if (r->pushing)
        return;
    r->pushing = true;
    bool any = true;
    while (any && op->fault.status == ACP_OK) {
        any = false;
        for (uint32_t i = 0; i < (job->overlaps ? 1 : PARTS) && op->fault.status == ACP_OK; i++)
            any |= part_go_on(lane, op, &r->parts[i]);
    }
    r->pushing = false;
    if (r->under_way)
        return;
    if (r->next == op->command.a || op->fault.status != ACP_OK)
        op_table_finish(lane, op);
    else
        pending_stall(lane->engine, op); /* all rooms are in use */
}

void op_relay_child_done(acp_lane *lane, struct op *child)
{
    struct op *op = child->parent;
    struct relay *r = op->job->relay;
    struct part *part = r->parts;
    while (part->child != child)
        part++;
    if (child->fault.status != ACP_OK)
        op_table_fault(op, &child->fault);
    part->child = NULL;
    part->state = part->state == PART_FETCHED_SOON ? PART_FETCHED : PART_IDLE;
    r->under_way--;
    op_relay_push(lane, op);
}
