/* The table of queued operations: numbers, order and completion.
 *
 * Queued operations are numbered 2, 4, 6 ...; one that was complete at once has the last of these + 1. The watermark
 * is the number up to which all are done; a slot of the table is free again when the watermark has passed it. */
#include "operations/op_table.h"
#include "core/state/peer.h"
#include "core/upcalls.h"
#include "operations/answer.h"
#include "operations/op_errors.h"
#include "operations/pending.h"
#include "operations/protocol.h"
#include "operations/protocol_shm.h"
#include "operations/reserve.h"
#include "operations/task.h"
#include "operations/vector.h"
#include "peers/rank_table.h"
#include "progress/progress.h"
#include "transport/shm_ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct op *slot_of(acp_engine *e, acp_handle_t handle)
{
    return &e->ops.table[(handle / 2) % OPS];
}

struct op *op_table_new(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    acp_handle_t handle = e->ops.last + 2;
    if (handle - e->ops.watermark > 2 * OPS || e->shm.backlogged) {
        lane_fail(lane, ACP_E_BUSY, ACP_GA_NULL, 0);
        return NULL;
    }
    struct op *op = slot_of(e, handle);
    memset(&op->order, 0, offsetof(struct op, fault) - offsetof(struct op, order));
    op->fault.status = ACP_OK; /* the rest has been given back, or is a task's */
    atomic_store_explicit(&op->handle, handle, memory_order_relaxed);
    op->state = OP_WAITING;
    return op;
}

struct op *op_table_find(acp_engine *e, uint64_t id)
{
    if (id & TASK_BIT)
        return task_find(e, id);
    struct op *op = slot_of(e, id);
    return op->handle == id && op->state == OP_RUNNING ? op : NULL;
}

/* If its order has failed it does not run and carries that error. */
static void look_back(const acp_engine *e, struct op *op)
{
    const acp_failure *failure = NULL;
    if (op->order != ACP_HANDLE_NULL)
        failure = op_errors_before(e, op->order, op->chained);
    if (failure)
        op_table_fault(op, &failure->fault);
}

static void start_or_fail(acp_lane *lane, struct op *op)
{
    op->state = OP_RUNNING;
    if (op->fault.status != ACP_OK)
        op_table_finish(lane, op);
    else
        protocol_start(lane, op);
}

/* Records a failure before the operation counts as done; and passes it to all that wait for it among others, for a
 * call may take the error before those others are done. */
static void failure_note(acp_engine *e, const struct op *op)
{
    op_errors_keep(e, op);
    for (struct op *later = e->ops.waiting; later; later = later->next)
        if (later->order >= op->handle)
            op_table_fault(later, &op->fault);
}

/* Followers of `op` alone (ACP_HANDLE_CONT): they do not run if it failed. */
static void start_followers(acp_lane *lane, struct op *op)
{
    struct op *follower = op->followers, *next;
    op->followers = NULL;
    for (; follower; follower = next) {
        next = follower->next_follower;
        follower->then = NULL;
        follower->state = OP_RUNNING;
        if (op->fault.status != ACP_OK) {
            op_table_fault(follower, &op->fault);
            op_table_finish(lane, follower);
        } else {
            protocol_start(lane, follower);
        }
    }
}

static void watermark_advance(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    acp_handle_t mark = e->ops.watermark;
    while (mark < e->ops.last && slot_of(e, mark + 2)->state == OP_DONE)
        mark += 2;
    if (mark == e->ops.watermark)
        return;
    atomic_store_explicit(&e->ops.watermark, mark, memory_order_release);
    struct op *op = e->ops.waiting, *next;
    e->ops.waiting = NULL;
    struct op **tail = &e->ops.waiting;
    struct op *ready = NULL, **ready_tail = &ready;
    for (; op; op = next) {
        next = op->next;
        op->next = NULL;
        if (op->order <= mark) {
            *ready_tail = op;
            ready_tail = &op->next;
        } else {
            *tail = op;
            tail = &op->next;
        }
    }
    for (op = ready; op; op = next) {
        next = op->next;
        op->next = NULL;
        start_or_fail(lane, op);
    }
}

/* Releases an operation's memory; its followers and waiters are notified afterwards. */
static void op_free(acp_engine *e, struct op *op)
{
    pending_unstall(e, op);
    if (op->away)
        atomic_fetch_sub_explicit(&e->ops.bytes_away, op->away, memory_order_relaxed);
    op->away = 0;
    op->state = OP_DONE;
    op->local.local = NULL;
    free(op->payload);
    free(op->many); /* one that failed before it was started */
    op->payload = NULL;
    op->many = NULL;
    free(op->batch);
    op->batch = NULL;
    if (op->job)
        e->up->device_forsake(e, op->job);
    op->job = NULL;
    while (op->bounces)
        protocol_shm_release(e, op, op->bounces);
}

void op_table_finish(acp_lane *lane, struct op *op)
{
    acp_engine *e = lane->engine;
    if (op->handle && op->fault.status != ACP_OK)
        failure_note(e, op);
    if (op->client && op->command.kind == ACP_GET && op->local.local)
        answer_brought(lane, op);
    op_free(e, op);
    if (op->handle) {
        atomic_fetch_sub_explicit(&e->ops.outstanding, 1, memory_order_release);
        start_followers(lane, op);
        watermark_advance(lane);
        progress_event(e);
        return;
    }
    if (op->kept) {
        progress_event(e);
        return;
    }
    if (op->parent && op->parent->way == WAY_RELAY)
        e->up->device_part_done(lane, op);
    else if (op->parent)
        vector_child_done(lane, op);
    else
        answer_task(lane, op);
    start_followers(lane, op);
    task_free(e, op);
}

void op_table_done(acp_lane *lane, const struct peer *target, uint64_t last, uint32_t count)
{
    acp_engine *e = lane->engine;
    uint32_t done = 0;
    for (uint64_t left = count; left--;) {
        struct op *op = op_table_find(e, last - 2 * left);
        if (!op || op->target != target || !op->in_flight || !op_table_tells_nothing(op))
            continue;
        op->in_flight = 0;
        op_free(e, op);
        start_followers(lane, op);
        done++;
    }
    atomic_fetch_sub_explicit(&e->ops.outstanding, done, memory_order_release);
    watermark_advance(lane);
    progress_event(e);
}

bool op_table_order_met_slow(acp_engine *e, const acp_lane *lane, acp_handle_t order)
{
    acp_handle_t last = e->ops.last;
    bool met;
    if (order == ACP_HANDLE_CONT) {
        met = (lane->previous & 1) || lane->previous <= e->ops.watermark || acp_done(e, lane->previous);
    } else {
        if (order == ACP_HANDLE_ALL || order > last)
            order = last;
        met = (order & ~(acp_handle_t)1) <= e->ops.watermark;
    }
    return met && !e->ops.failure_count; /* in this order; the table looks whether it concerns this one */
}

acp_handle_t op_table_submit(acp_lane *lane, struct op *op, acp_handle_t order)
{
    acp_engine *e = lane->engine;
    acp_handle_t handle = op->handle, before = e->ops.last;
    op->asked = op->command.kind;
    atomic_store_explicit(&e->ops.last, handle, memory_order_release);
    atomic_fetch_add_explicit(&e->ops.outstanding, 1, memory_order_release);
    if (order == ACP_HANDLE_CONT) {
        op->chained = true;
        op->order = lane->previous;
        struct op *then = lane->previous && !(lane->previous & 1) &&
                                  lane->previous > e->ops.watermark
                              ? slot_of(e, lane->previous)
                              : NULL;
        if (then && then->handle == lane->previous && then->state != OP_DONE) {
            op->then = then;
            if (then->state == OP_RUNNING && protocol_start_behind(lane, op))
                return handle;
            struct op **at = &then->followers;
            while (*at)
                at = &(*at)->next_follower;
            *at = op;
            return handle;
        }
        look_back(e, op);
    } else {
        op->order = order == ACP_HANDLE_NULL                     ? ACP_HANDLE_NULL
                    : order == ACP_HANDLE_ALL || order > before ? before
                                                                 : order & ~(acp_handle_t)1;
        look_back(e, op);
        if (op->order > e->ops.watermark) {
            struct op **at = &e->ops.waiting;
            while (*at)
                at = &(*at)->next;
            *at = op;
            return handle;
        }
    }
    start_or_fail(lane, op);
    return handle;
}

bool op_table_lose(acp_lane *lane, struct op *op, acp_fault *fault)
{
    bool to = op->way == WAY_PUT || op->way == WAY_WINDOW_PUT;
    bool working = op->way == WAY_RUN || (op_table_by_window(op->way) && !op->in_flight);
    op->in_flight = 0;
    fault->ga = to ? op->command.dst : op->command.src;
    op_table_fault(op, fault);
    if (!working)
        op_table_finish(lane, op);
    return !working;
}

void op_table_fail_peer(acp_lane *lane, struct peer *p)
{
    acp_engine *e = lane->engine;
    acp_fault fault = {.status = ACP_E_LOST, .rank = rank_table_rank(e, p->slot)};
    for (acp_handle_t h = e->ops.watermark + 2; h <= e->ops.last; h += 2) {
        struct op *op = slot_of(e, h);
        if (op->handle != h || op->state != OP_RUNNING || op->target != p)
            continue;
        op_table_lose(lane, op, &fault);
    }
    for (struct op *op = e->ops.tasks, *next; op; op = next) {
        next = op->next_task;
        if (op->client == p) {
            op->client = NULL;
            op->client_link = NULL;
        }
        if (!op->client && op->state == OP_WAITING && op->command.kind == ACP_LOOKUP && !op->kept) {
            task_free(e, op); /* no thread waits for it any more */
        } else if (op->state == OP_RUNNING && op->target == p && op->way != WAY_RUN &&
                   op_table_lose(lane, op, &fault)) {
            next = e->ops.tasks; /* finishing may end more tasks than this one */
        }
    }
}

void op_table_close(acp_engine *e)
{
    for (uint32_t i = 0; e->ops.table && i < OPS; i++) {
        free(e->ops.table[i].payload);
        free(e->ops.table[i].many);
        e->up->device_forget(e->ops.table[i].job);
    }
    task_close(e);
    while (e->ops.bounce_pool) {
        struct bounce *b = e->ops.bounce_pool;
        e->ops.bounce_pool = b->next;
        free(b);
    }
    shm_ring_backlog_close(e);
    reserve_close(e);
    free(e->ops.call_space);
    op_errors_close(e);
    if (e->ops.table)
        munmap(e->ops.table, OPS * sizeof *e->ops.table);
    e->ops.table = NULL;
}
