/* The router: which way an operation goes.
 *
 *   run   both ends are in reach of this process: the executor does it here
 *   ask   the command travels to an owner, which runs or forwards it: third-party copies
 *   put   the source is here and the destination is not: parts travel to its owner
 *   get   the other way round
 *   window put, window get: the same, by MPI and without the owner
 *   device  one device reaches both ends: it copies
 *   relay   device memory is at one end: parts go through rooms of this process, each by two of these ways
 *   call  a method of an object that this process does not reach: its owner runs it
 *
 * A command that arrives from another process is routed in the same way, with what that
 * process reaches. A command only ever travels to the owner of one of its ends and from the
 * source's side towards the destination's, so it cannot circle. */
#include "operations/route.h"
#include "core/upcalls.h"
#include "devices/device_job.h"
#include "memory/translate.h"
#include "operations/execute.h"
#include "operations/op_table.h"
#include "operations/protocol_shm.h"
#include "operations/protocol_tcp.h"
#include "peers/newcomers.h"
#include "peers/peer.h"

#include <string.h>

const struct road *route_road(acp_engine *e, struct peer *p)
{
    return peer_attach(e, p) == RELATION_NODE ? &road_ring : &road_link;
}

static bool own_operation(const struct op *op)
{
    return op->handle || op->parent;
}

/* One end of an operation. ACP_PATH=owner sends operations of this process through the ring of the owner even where
 * load and store would do. */
struct end {
    struct translation t;
    enum reach reach;
    bool mine_alone; /* no other process can reach it */
    bool device;     /* device memory, of this process or of another of the node */
    const unsigned char *pointer;
};

static int survey(acp_lane *lane, const struct op *op, acp_ga_t ga, uint64_t size,
                  unsigned char *local, struct end *end)
{
    acp_engine *e = lane->engine;
    *end = (struct end){.reach = REACH_LOAD};
    if (local) {
        end->mine_alone = true;
        end->pointer = local;
        end->device = op->job && op->job->local;
        end->reach = end->device ? REACH_DEVICE : REACH_LOAD;
        return ACP_OK;
    }
    int rc = translate(lane, ga, size, &end->t, &end->reach);
    if (rc != ACP_OK)
        return rc;
    if (end->t.base)
        end->pointer = end->t.base + (ga - end->t.low);
    end->mine_alone = end->t.peer == e->job.own && end->t.kind == SEGMENT_PRIVATE;
    if (e->config.path == ACP_PATH_OWNER && own_operation(op) && end->t.peer != e->job.own &&
        end->reach <= REACH_DEVICE)
        end->reach = REACH_RING;
    end->device = end->t.kind == SEGMENT_DEVICE;
    if (end->reach == REACH_DEVICE && !device_import_likely(e, &end->t, ga))
        end->reach = REACH_RING;
    return ACP_OK;
}

static void go(struct plan *plan, enum op_way way, const struct end *to, acp_ga_t ga)
{
    plan->way = way;
    plan->target = to->t.peer;
    plan->road = to->reach == REACH_LINK ? &road_link : &road_ring;
    plan->color = acp_ga_color(ga);
}

/* One end at least is in reach of a device here. Two blocks of different owners go from device to device if one of the
 * owners has imported the other's; the destination's owner is the last one asked. */
static void route_device(const struct op *op, const struct end *d, const struct end *s, struct plan *plan)
{
    bool both = d->reach == REACH_DEVICE && s->reach == REACH_DEVICE;
    if (!(op->job && op->job->through_host) && (both || d->reach == REACH_LOAD || s->reach == REACH_LOAD))
        plan->way = WAY_DEVICE;
    else if (s->reach == REACH_DEVICE && d->reach == REACH_RING && d->device && !(op->local.local && op->local.is_source))
        go(plan, WAY_ASK, d, op->command.dst);
    else if (d->reach == REACH_DEVICE && s->reach == REACH_RING && s->device && !op->client && !op->local.local)
        go(plan, WAY_ASK, s, op->command.src);
    else
        plan->way = WAY_RELAY;
}

static int route_atomic(acp_lane *lane, const struct op *op, struct plan *plan)
{
    const struct message *c = &op->command;
    struct end s, d = {.reach = REACH_LOAD};
    uint32_t width = layout_atomic_width(c->kind);
    int rc = survey(lane, op, c->src, width, NULL, &s);
    if (rc != ACP_OK)
        return rc;
    if (s.device)
        return lane_fail(lane, ACP_E_DEVICE, c->src, width);
    plan->way = WAY_RUN;
    if (s.reach == REACH_LOAD)
        return ACP_OK;
    if (c->dst != ACP_GA_NULL && (rc = survey(lane, op, c->dst, width, NULL, &d)) != ACP_OK)
        return rc;
    go(plan, WAY_ASK, &s, c->src);
    plan->strip = d.reach <= REACH_DEVICE;
    return ACP_OK;
}

static int route_call(acp_lane *lane, const struct op *op, struct plan *plan)
{
    struct end object;
    int rc = survey(lane, op, op->command.src, 1, NULL, &object);
    if (rc == ACP_OK && object.device)
        rc = lane_fail(lane, ACP_E_DEVICE, op->command.src, 1);
    if (rc == ACP_OK && object.reach == REACH_LOAD)
        plan->way = WAY_RUN;
    else if (rc == ACP_OK)
        go(plan, WAY_CALL, &object, op->command.src);
    return rc;
}

int route(acp_lane *lane, const struct op *op, struct plan *plan)
{
    const struct message *c = &op->command;
    acp_engine *e = lane->engine;
    struct end s, d;
    memset(plan, 0, sizeof *plan);
    if (layout_is_atomic(c->kind))
        return route_atomic(lane, op, plan);
    if (op->call)
        return route_call(lane, op, plan);
    if (c->a == 0) {
        plan->way = WAY_RUN;
        return ACP_OK;
    }
    int rc = survey(lane, op, c->dst, c->a, op->local.is_source ? NULL : op->local.local, &d);
    if (rc == ACP_OK)
        rc = survey(lane, op, c->src, c->a, op->local.is_source ? op->local.local : NULL, &s);
    if (rc != ACP_OK)
        return rc;
    if (d.reach == REACH_DEVICE || s.reach == REACH_DEVICE) {
        route_device(op, &d, &s, plan);
    } else if (d.reach <= REACH_VM && s.reach <= REACH_VM && d.reach + s.reach < 2 * REACH_VM) {
        plan->way = WAY_RUN;
        plan->backward = execute_backward(d.pointer, s.pointer, c->a);
    } else if (s.reach == REACH_LINK && d.reach <= REACH_VM) {
        go(plan, WAY_GET, &s, c->src);
    } else if (s.reach == REACH_RING && d.reach == REACH_LOAD && d.mine_alone) {
        go(plan, WAY_GET, &s, c->src);
    } else if (s.reach == REACH_VM && d.reach == REACH_VM) {
        go(plan, WAY_ASK, op->fetched ? &d : &s, op->fetched ? c->dst : c->src);
        plan->halves = op->handle && c->a >= HALVES_BYTES && s.t.peer != d.t.peer;
    } else if (s.reach != REACH_LOAD) {
        go(plan, WAY_ASK, &s, c->src);
    } else if (d.reach == REACH_LINK || s.mine_alone) {
        go(plan, WAY_PUT, &d, c->dst);
    } else {
        go(plan, WAY_ASK, &d, c->dst);
    }
    if (plan->way == WAY_GET && plan->road == &road_link &&
        e->up->window_reaches(e, plan->target, c->src, c->a))
        plan->way = WAY_WINDOW_GET;
    if (plan->way == WAY_PUT && plan->road == &road_link && !op->rings &&
        e->up->window_reaches(e, plan->target, c->dst, c->a))
        plan->way = WAY_WINDOW_PUT;
    if ((plan->way == WAY_GET || plan->way == WAY_PUT) && plan->road == &road_link && c->a > BACKGROUND_BYTES)
        plan->color += LINK_LONG;
    return ACP_OK;
}

int acp_road(acp_lane *lane, uint32_t rank, acp_road_info *out)
{
    static const char *const opened[] = {"-", "own", "proc", "socket", "given"};
    acp_engine *e = lane->engine;
    if (!newcomers_find(e, rank))
        return lane_fail(lane, ACP_E_RANK, acp_ga(rank, 0, 0), 0);
    struct peer *p = peer_of_slot(e, rank_slot_of(e, rank));
    int relation = p->lost ? RELATION_UNKNOWN : peer_attach(e, p);
    bool forced = e->config.path == ACP_PATH_OWNER;
    out->lost = p->lost;
    out->memory = opened[p->shm.opened];
    out->road = relation == RELATION_SELF   ? "self"
                : relation == RELATION_NODE ? (forced ? "owner" : "load/store")
                : e->up->window_reaches(e, p, acp_starter(e, rank), 1) ? "window"
                                            : "link";
    out->registered = relation == RELATION_SELF     ? "self"
                      : relation == RELATION_REMOTE ? "link"
                      : forced || p->shm.vm_refused ? "owner"
                                                                        : "process_vm";
    return ACP_OK;
}
