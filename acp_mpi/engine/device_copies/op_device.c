/* Copies that a device runs. They begin without the engine's lock, in the thread that has submitted them or in the
 * leader, and the leader asks whether they are done: for a short while, then their kind rings. */
#include "device_copies/op_device.h"
#include "base/linux.h"
#include "core/devices.h"
#include "devices/device_mark.h"
#include "device_copies/op_relay.h"
#include "operations/op_table.h"
#include "operations/protocol.h"
#include "progress/doorbell.h"

#include <stdlib.h>
#include <string.h>

#define ASK_NS ((uint64_t)50000) /* a copy is asked for so long; then its kind is to ring */

static void event_end(struct device_event *x)
{
    struct kind_fault fault;
    if (x->event)
        x->kind->table->wait(x->kind->state, x->event, &fault);
    x->event = NULL;
}

static void marks_end(struct device_job *job)
{
    for (uint32_t i = 0; i < MARKS; i++)
        event_end(&job->marks[i]);
}

static bool marks_wait(const struct device_job *job)
{
    bool any = false;
    for (uint32_t i = 0; i < MARKS; i++)
        any |= job->marks[i].event != NULL;
    return any;
}

static int mark_block(acp_lane *lane, const acp_device_block *b, struct device_job *job)
{
    struct device_kind *k = b->kind;
    struct kind_fault fault = {0};
    struct kind_event *event = NULL;
    uint32_t at = 0;
    for (; at < MARKS && job->marks[at].event; at++)
        if (job->marks[at].kind == k && job->marked[at].number == b->block.place.number &&
            job->marked[at].context == b->block.place.context && job->marked[at].stream == b->block.place.stream)
            return ACP_OK;
    if (at == MARKS)
        event_end(&job->marks[--at]); /* so many devices in one call: at once */
    uint64_t stream = lane->stream_handle == k->table->handles ? lane->stream : 0;
    int rc = k->table->mark(k->state, b->block.place, stream, &event, &fault);
    job->marks[at] = (struct device_event){k, event};
    job->marked[at] = b->block.place;
    return rc == KIND_OK ? ACP_OK : device_kinds_fail(lane, rc, &fault);
}

static int mark_address(acp_lane *lane, acp_ga_t ga, uint64_t size, struct device_job *job)
{
    struct translation t;
    enum reach reach;
    struct device_end end;
    if (ga == ACP_GA_NULL || !size || translate_remote(lane, ga) || translate(lane, ga, size, &t, &reach) != ACP_OK ||
        reach != REACH_DEVICE || t.peer != lane->engine->job.own ||
        device_import_find(lane, &t, ga, size, &end) != ACP_OK)
        return ACP_OK; /* the router raises errors */
    int rc = mark_block(lane, end.own, job);
    device_import_done(lane->engine, &end);
    return rc;
}

int op_device_mark(acp_lane *lane, const struct message *c, acp_device_block *local, bool local_is_source,
                   struct device_job **out)
{
    struct device_job job = *out ? **out : (struct device_job){.local = local};
    int rc = ACP_OK;
    if (!lane->unordered) {
        if (local)
            rc = mark_block(lane, local, &job);
        if (rc == ACP_OK && !(local && !local_is_source))
            rc = mark_address(lane, c->dst, c->a, &job);
        if (rc == ACP_OK && !(local && local_is_source))
            rc = mark_address(lane, c->src, c->a, &job);
    }
    bool any = local || job.marks[0].event;
    if (any && !*out && !(*out = malloc(sizeof **out)))
        rc = lane_fail(lane, ACP_E_SYSTEM, c->dst, sizeof **out);
    if (*out)
        **out = job;
    if (rc == ACP_OK)
        return rc;
    marks_end(&job);
    free(*out);
    *out = NULL;
    return rc;
}

struct device_job *op_device_job(acp_lane *lane, struct op *op)
{
    if (!op->job && (op->job = calloc(1, sizeof *op->job)))
        op->job->op = op;
    else if (!op->job)
        lane_fail(lane, ACP_E_SYSTEM, op->command.dst, sizeof *op->job);
    if (op->job)
        op->job->op = op;
    return op->job;
}

static void running_add(acp_engine *e, struct device_job *job)
{
    job->next = e->copies.running;
    e->copies.running = job;
    atomic_fetch_add(&e->copies.running_count, 1);
    atomic_store(&e->copies.due, DUE_NOW);
}

/* The thread that submits runs it when it has let go of the lock; another thread calls the leader. */
static void leader_call(acp_lane *lane)
{
    if (lane->index != LANE_LEADER && !lane->engine->shm.submits)
        doorbell_kick(lane->engine);
}

void op_device_add(acp_lane *lane, struct op *op)
{
    acp_engine *e = lane->engine;
    struct device_job *job = op_device_job(lane, op), **at = &e->copies.ready;
    if (!job) {
        op_table_fault(op, &lane->fault);
        op_table_finish(lane, op);
        return;
    }
    if (job->marks[1].event && op_device_gate(lane, op))
        return; /* a copy is behind one mark */
    while (*at)
        at = &(*at)->next;
    job->next = NULL;
    *at = job;
    atomic_store(&e->copies.waits, true);
    leader_call(lane);
}

bool op_device_gate(acp_lane *lane, struct op *op)
{
    struct device_job *job = op->job;
    if (!marks_wait(job))
        return false;
    job->op = op;
    job->since = linux_now_ns();
    running_add(lane->engine, job);
    leader_call(lane);
    return true;
}

void op_device_forsake(acp_engine *e, struct device_job *job)
{
    if (!job)
        return;
    op_relay_free(e, job->relay);
    job->relay = NULL;
    job->op = NULL;
    if (marks_wait(job))
        running_add(e, job);
    else
        free(job);
}

/* Starts anew, as the router decides by now. */
static void job_restart(acp_lane *lane, struct op *op)
{
    pthread_mutex_lock(&lane->engine->lock);
    protocol_start(lane, op);
    pthread_mutex_unlock(&lane->engine->lock);
}

static int side_open(acp_lane *lane, const struct op *op, bool source, struct device_side *side)
{
    acp_engine *e = lane->engine;
    const struct message *c = &op->command;
    acp_ga_t ga = source ? c->src : c->dst;
    enum reach reach;
    *side = (struct device_side){0};
    if (op->local.local && op->local.is_source == source) {
        side->host = op->local.local;
        acp_device_block *b = op->job->local;
        if (b)
            side->device = (struct device_end){
                .kind = b->kind, .block = &b->block,
                .offset = (uint64_t)(uintptr_t)op->local.local - b->block.base};
        return ACP_OK;
    }
    int rc = translate(lane, ga, c->a, &side->t, &reach);
    if (rc != ACP_OK)
        return rc;
    if (reach != REACH_LOAD && reach != REACH_DEVICE)
        return ACP_E_BUSY;
    if (!device_mark_enter(e, &side->t, &side->turn))
        return ACP_E_BUSY; /* it has changed just now */
    side->marked = true;
    side->host = side->t.base + (ga - side->t.low);
    return reach == REACH_LOAD ? ACP_OK : device_import_find(lane, &side->t, ga, c->a, &side->device);
}

static void sides_close(acp_engine *e, struct device_job *job)
{
    for (int i = 0; i < 2; i++) {
        struct device_side *side = &job->sides[i];
        if (side->device.kind)
            device_import_done(e, &side->device);
        if (side->marked)
            device_mark_leave(e, side->t.peer, side->turn);
        side->marked = false;
        side->device = (struct device_end){0};
    }
}

static struct kind_end end_of(const struct device_side *side)
{
    return side->device.kind ? (struct kind_end){.block = side->device.block, .offset = side->device.offset}
                             : (struct kind_end){.host = side->host};
}

static bool sides_overlap(const struct device_side *sides, uint64_t size)
{
    const struct device_end *d = &sides[0].device, *s = &sides[1].device;
    return d->kind && d->kind == s->kind && d->block->base == s->block->base && d->offset < s->offset + size &&
           s->offset < d->offset + size;
}

/* ACP_OK: it runs. ACP_E_BUSY: it takes another road. */
static int job_begin(acp_lane *lane, struct device_job *job)
{
    const struct op *op = job->op;
    struct device_kind *k = NULL;
    struct kind_fault fault = {0};
    int rc = ACP_OK;
    job->sides[1] = (struct device_side){0};
    for (int i = 0; i < 2 && rc == ACP_OK; i++)
        rc = side_open(lane, op, i, &job->sides[i]);
    if (rc != ACP_OK)
        return rc;
    const struct device_end *d = &job->sides[0].device, *s = &job->sides[1].device;
    k = d->kind ? d->kind : s->kind;
    job->overlaps = sides_overlap(job->sides, op->command.a);
    job->backward = job->overlaps && d->offset > s->offset;
    job->through_host = job->overlaps || (d->kind && s->kind && d->kind != s->kind);
    if (!k || job->through_host)
        return ACP_E_BUSY;
    struct kind_copy copy = {.to = end_of(&job->sides[0]), .from = end_of(&job->sides[1]), .size = op->command.a};
    copy.behind = job->marks[0].event; /* the only one */
    rc = k->table->copy(k->state, &copy, &job->copy.event, &fault);
    if (rc != KIND_CANNOT) /* else the copies of another way start behind it */
        job->marks[0].event = NULL;
    if (rc == KIND_OK) {
        job->copy.kind = job->copy.event ? k : NULL;
        return ACP_OK;
    }
    job->copy.event = NULL;
    job->through_host = rc == KIND_CANNOT && !(op->parent && op->parent->way == WAY_RELAY);
    return job->through_host ? ACP_E_BUSY : device_kinds_fail(lane, rc, &fault);
}

static void job_end(acp_lane *lane, struct device_job *job, int rc)
{
    acp_engine *e = lane->engine;
    struct op *op = job->op;
    const struct device_side *to = &job->sides[0];
    acp_fault fault = lane->fault;
    for (int i = 0; i < 2 && rc == ACP_OK; i++)
        if (job->sides[i].t.peer && job->sides[i].t.peer->lost) {
            rc = lane_fail(lane, ACP_E_LOST, i ? op->command.src : op->command.dst, op->command.a);
            fault = lane->fault;
        }
    if (to->t.base && to->t.peer->shm.doors->watching) /* a thread sleeps until bytes of host memory change */
        doorbell_notify(e, to->t.peer, to->t.position + (op->command.dst - to->t.low), op->command.a);
    sides_close(e, job);
    pthread_mutex_lock(&e->lock);
    if (rc != ACP_OK)
        op_table_fault(op, &fault);
    op_table_finish(lane, op);
    pthread_mutex_unlock(&e->lock);
}

static void job_start(acp_lane *lane, struct device_job *job)
{
    acp_engine *e = lane->engine;
    struct op *op = job->op;
    bool led = lane->index == LANE_LEADER || (op->awaited && !atomic_load(&e->progress.callers));
    int rc = job_begin(lane, job);
    if (rc == ACP_OK && job->copy.event) {
        pthread_mutex_lock(&e->lock);
        job->runs = true;
        job->since = linux_now_ns();
        running_add(e, job);
        pthread_mutex_unlock(&e->lock);
        if (!led)
            doorbell_kick(e);
        return;
    }
    if (rc != ACP_OK)
        sides_close(e, job);
    if (rc == ACP_E_BUSY)
        job_restart(lane, op);
    else
        job_end(lane, job, rc);
}

void op_device_run(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    while (atomic_load_explicit(&e->copies.waits, memory_order_relaxed)) {
        pthread_mutex_lock(&e->lock);
        struct device_job *job = e->copies.ready;
        if (job)
            e->copies.ready = job->next;
        if (!e->copies.ready)
            atomic_store(&e->copies.waits, false);
        pthread_mutex_unlock(&e->lock);
        if (job)
            job_start(lane, job);
    }
}

enum due op_device_due(const acp_engine *e)
{
    if (atomic_load_explicit(&e->copies.waits, memory_order_relaxed))
        return DUE_NOW;
    bool runs = atomic_load_explicit(&e->copies.running_count, memory_order_relaxed);
    return runs ? (enum due)atomic_load_explicit(&e->copies.due, memory_order_relaxed) : DUE_NOT;
}

static void rung(void *context)
{
    doorbell_kick(context);
}

/* KIND_BUSY, or how it ended. A device that has not finished for a while is to ring; if it cannot it is asked on. */
static int event_look(acp_engine *e, struct device_job *job, struct device_event *x, bool ask, struct kind_fault *fault)
{
    if (!x->event)
        return KIND_OK;
    pthread_mutex_lock(&e->copies.asking);
    int rc = x->kind->table->test(x->kind->state, x->event, fault);
    if (rc != KIND_BUSY)
        x->event = NULL;
    pthread_mutex_unlock(&e->copies.asking);
    if (rc == KIND_BUSY && ask && x->kind->table->notify(x->kind->state, x->event, rung, e, fault) != KIND_OK)
        job->mute = true;
    return rc;
}

/* True: it is done, and in no list. */
static bool job_look(acp_lane *lane, struct device_job *job, enum due *due)
{
    acp_engine *e = lane->engine;
    struct kind_fault fault = {0};
    uint64_t since = job->since;
    bool ask = since && linux_now_ns() - since > ASK_NS;
    if (ask)
        job->since = 0;
    int rc = event_look(e, job, &job->copy, ask, &fault);
    bool busy = rc == KIND_BUSY;
    for (uint32_t i = 0; i < MARKS; i++)
        busy |= event_look(e, job, &job->marks[i], ask, &fault) == KIND_BUSY;
    if (busy) {
        enum due when = job->since ? DUE_NOW : job->mute ? DUE_SOON : DUE_AWAKE;
        *due = when > *due ? when : *due;
        return false;
    }
    if (job->copy.kind) {
        job->copy.kind = NULL;
        atomic_fetch_sub(&e->copies.running_count, 1);
        job_end(lane, job, rc == KIND_OK ? ACP_OK : device_kinds_fail(lane, rc, &fault));
        return true;
    }
    atomic_fetch_sub(&e->copies.running_count, 1);
    if (job->op)
        job_restart(lane, job->op);
    else
        free(job);
    return true;
}

bool op_device_poll(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    enum due due = DUE_AWAKE;
    bool any = e->copies.waits;
    op_device_run(lane);
    pthread_mutex_lock(&e->lock);
    struct device_job *job = e->copies.running, *stays = NULL, *next;
    e->copies.running = NULL;
    pthread_mutex_unlock(&e->lock);
    for (; job; job = next) {
        next = job->next;
        if (job_look(lane, job, &due)) {
            any = true;
            continue;
        }
        job->next = stays;
        stays = job;
    }
    pthread_mutex_lock(&e->lock);
    if (e->copies.running)
        due = DUE_NOW; /* begun meanwhile */
    while (stays) {
        job = stays;
        stays = job->next;
        job->next = e->copies.running;
        e->copies.running = job;
    }
    atomic_store(&e->copies.due, due);
    pthread_mutex_unlock(&e->lock);
    return any;
}

/* The copy of an operation that a device runs for this process, with its event: both stay while `asking` is held. */
static const struct device_job *job_running(acp_engine *e, acp_handle_t handle)
{
    pthread_mutex_lock(&e->lock);
    const struct op *op = op_table_find(e, handle);
    const struct device_job *job = op && op->job && op->job->runs && op->job->copy.event ? op->job : NULL;
    pthread_mutex_unlock(&e->lock);
    return job;
}

int acp_device_after(acp_lane *lane, acp_handle_t handle, uint64_t stream, bool is_handle)
{
    acp_engine *e = lane->engine;
    struct kind_fault fault = {0};
    int rc = KIND_BUSY;
    pthread_mutex_lock(&e->copies.asking);
    const struct device_job *job = job_running(e, handle);
    const struct device_kind *k = job ? job->copy.kind : NULL;
    if (k && k->table->handles == is_handle) {
        const struct device_end *end = job->sides[0].device.kind ? &job->sides[0].device : &job->sides[1].device;
        rc = k->table->follow(k->state, job->copy.event, end->block->place, stream, &fault);
    }
    pthread_mutex_unlock(&e->copies.asking);
    return rc == KIND_OK ? ACP_OK : rc == KIND_BUSY ? ACP_E_BUSY : device_kinds_fail(lane, rc, &fault);
}

void op_device_close(acp_engine *e)
{
    struct device_job *lists[2] = {e->copies.ready, e->copies.running};
    e->copies.ready = e->copies.running = NULL;
    e->copies.running_count = 0;
    atomic_store(&e->copies.waits, false);
    for (int i = 0; i < 2; i++) {
        for (struct device_job *job = lists[i], *next; job; job = next) {
            next = job->next;
            event_end(&job->copy);
            marks_end(job);
            sides_close(e, job);
            if (!job->op)
                free(job);
        }
    }
}
