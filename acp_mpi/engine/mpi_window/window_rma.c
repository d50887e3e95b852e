/* Put and get by the window: begun, welcomed by the target, carried out in parts. */
#include "mpi_window/window_rma.h"
#include "core/state/peer.h"
#include "mpi_window/target_assist.h"
#include "mpi_window/window.h"
#include "operations/execute.h"
#include "operations/op_background.h"
#include "operations/op_table.h"
#include "progress/doorbell.h"
#include "progress/wait.h"

#include <sched.h>
#include <string.h>

#define DIRECT_BYTES ((uint64_t)1 << 20) /* of a slice that is in the caller's memory */
#define BATCH 32u /* operations before one flush for each target */

void window_rma_start(acp_lane *lane, struct op *op)
{
    bool welcome = true;
    if (window_forced(lane->engine) && target_assist_begin(lane, op, &welcome) != ACP_OK) {
        op_table_fault(op, &lane->fault);
        op_table_finish(lane, op);
    } else if (welcome) {
        op_background_add(lane->engine, op);
    } else {
        op->in_flight = 1;
    }
}

/* The target drives MPI now. */
void window_rma_welcome(acp_lane *lane, struct op *op)
{
    target_assist_welcome(op->target);
    op_background_add(lane->engine, op);
}

static void parts_end(acp_lane *lane, struct op *op)
{
    if (window_forced(lane->engine))
        target_assist_end(lane, op->target);
    op_table_finish(lane, op);
}

/* A slice of one operation. */
struct part {
    struct op *op;
    unsigned char *memory;
    uint64_t at, size;
    int target;
    bool put, staged, flushed;
    acp_fault fault;
};

static void part_failed(struct part *part, int status, int error)
{
    const struct message *c = &part->op->command;
    acp_ga_t ga = (part->put ? c->dst : c->src) + part->at;
    if (part->fault.status == ACP_OK)
        part->fault = (acp_fault){.status = status, .error = error, .ga = ga, .size = part->size,
                                  .rank = acp_ga_rank(ga)};
}

/* Chooses the slice; false: no room is left to stage it. With the lock held. */
static bool prepare(const struct window *w, struct op *op, uint64_t *staged, struct part *part)
{
    uint64_t left = op->command.a - op->issued;
    uint64_t most = op->local.local ? DIRECT_BYTES : SLICE_BYTES;
    *part = (struct part){.op = op, .at = op->issued, .size = left < most ? left : most,
                          .put = op->way == WAY_WINDOW_PUT, .fault = op->fault,
                          .target = (int)(op->target->slot - w->config.first_slot)};
    if (op->local.local) {
        part->memory = op->local.local + part->at;
        return true;
    }
    uint64_t room = (part->size + 15) & ~(uint64_t)15;
    if (room > SLICE_BYTES - *staged)
        return false;
    part->staged = true;
    part->memory = w->staging + *staged;
    *staged += room;
    return true;
}

/* Where a part is in the window. */
static uint64_t part_displacement(const struct part *p)
{
    const struct message *c = &p->op->command;
    return acp_ga_offset(p->put ? c->dst : c->src) - STARTER_OFFSET + p->at;
}

/* Flushes the target of the first part, and of all others that go there. A byte that is fetched
 * behind a put shows that the put is there. */
static void parts_settle(const struct window *w, struct part *parts, uint32_t count)
{
    const struct part *put = NULL;
    unsigned char byte;
    int target = parts->target, rc = w->mpi.flush(target, w->config.window);
    for (uint32_t i = 0; i < count && w->reads_back; i++)
        if (parts[i].put && !parts[i].flushed && parts[i].target == target)
            put = &parts[i];
    if (put && !rc)
        rc = window_issue(w, false, &byte, target, part_displacement(put), 1);
    if (put && !rc)
        rc = w->mpi.flush(target, w->config.window);
    for (uint32_t i = 0; i < count; i++) {
        if (parts[i].flushed || parts[i].target != target)
            continue;
        parts[i].flushed = true;
        if (rc)
            part_failed(&parts[i], ACP_E_MPI, rc);
    }
}

static void parts_move(acp_lane *lane, const struct window *w, struct part *parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct part *p = &parts[i];
        if (p->fault.status == ACP_OK && p->staged && p->put &&
            execute_part_read(lane, p->op, p->at, p->size, p->memory, NULL) != ACP_OK)
            p->fault = lane->fault;
        p->flushed = p->fault.status != ACP_OK;
        int rc = p->flushed ? 0 : window_issue(w, p->put, p->memory, p->target, part_displacement(p), p->size);
        if (rc)
            part_failed(p, ACP_E_MPI, rc);
    }
    for (uint32_t i = 0; i < count; i++)
        if (!parts[i].flushed)
            parts_settle(w, parts + i, count - i);
    for (uint32_t i = 0; i < count; i++) {
        struct part *p = &parts[i];
        if (p->fault.status == ACP_OK && p->staged && !p->put &&
            execute_part_write(lane, p->op, p->at, p->size, p->memory) != ACP_OK)
            p->fault = lane->fault;
    }
}

/* With the lock held, which is released around the calls of MPI. */
static void carry_out(acp_lane *lane, struct window *w, struct part *parts, uint32_t count)
{
    acp_engine *e = lane->engine;
    pthread_mutex_unlock(&e->lock);
    if (window_enter(w)) {
        parts_move(lane, w, parts, count);
        window_leave(w);
    } else {
        for (uint32_t i = 0; i < count; i++)
            part_failed(&parts[i], ACP_E_CLOSED, 0);
    }
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < count; i++) {
        struct op *op = parts[i].op;
        op->issued += parts[i].size;
        if (parts[i].fault.status != ACP_OK)
            op_table_fault(op, &parts[i].fault);
        if (op->fault.status != ACP_OK || op->issued == op->command.a)
            parts_end(lane, op);
        else
            op_background_add(e, op); /* the next one has its turn */
    }
}

/* A slice of each of the first window operations in the list of work. With the lock held. */
void window_rma_step(acp_lane *lane, struct op *first)
{
    acp_engine *e = lane->engine;
    struct window *w = atomic_load(&e->mpi.window);
    struct part parts[BATCH];
    uint64_t staged = 0;
    uint32_t count = 1;
    prepare(w, first, &staged, &parts[0]);
    while (count < BATCH && e->ops.work && op_table_by_window(e->ops.work->way) &&
           prepare(w, e->ops.work, &staged, &parts[count])) {
        count++;
        op_background_take(e);
    }
    carry_out(lane, w, parts, count);
}

/* A thread that waits for its own short put or get carries it out, unless the leader has begun: that saves the turn
 * through the leader. */
void window_rma_help(acp_engine *e, acp_handle_t handle)
{
    struct window *w = atomic_load_explicit(&e->mpi.window, memory_order_acquire);
    if (!w || !atomic_load_explicit(&w->open, memory_order_relaxed))
        return;
    wait_caller_enter(e);
    pthread_mutex_lock(&e->lock);
    struct op *op = atomic_load(&e->stopping) ? NULL : op_background_claim(e, handle);
    if (op && op_table_by_window(op->way) && op->local.local && op->command.a <= DIRECT_BYTES) {
        struct part part;
        uint64_t staged = 0;
        prepare(w, op, &staged, &part);
        carry_out(&e->lanes[LANE_LOCKED], w, &part, 1);
        if (atomic_load(&e->progress.callers) > 1) /* a thread that sleeps as the leader may wait for this, too */
            doorbell_kick(e);
    } else if (op) {
        op_background_add(e, op);
    }
    pthread_mutex_unlock(&e->lock);
    wait_caller_leave(e);
}
