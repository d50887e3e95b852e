/* The window: a road for put and get whose far end is memory that is never released, inside
 * the window part of a rank of the own MPI group on another node. MPI is called without the
 * engine's lock, by the leader, which takes such operations from its list of work.
 *
 * ACP_PATH=window takes this road although nothing may happen at the target unless it calls
 * MPI; then the operations visit it (visit.c). */
#include "mpi.h"
#include "op.h"
#include "visit.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define DIRECT_BYTES ((uint64_t)1 << 20) /* of a slice that is in the caller's memory */
#define GUEST_LOOKS 8 /* at MPI in a row: what comes between them makes answers late */
#define BATCH 32u /* operations before one flush for each target */
#define GUEST_PAUSE_NS 50000 /* between two looks at MPI when guests have been silent for long */

struct window {
    struct mpi mpi;
    acp_window_config config;
    unsigned char *staging; /* the leader's: parts that the caller's memory does not hold */
    _Atomic bool open; /* a road */
    _Atomic bool closed;
    _Atomic bool reads_back; /* a flush may return before what was put is there */
    _Atomic uint32_t inside; /* threads in MPI calls */
};

static bool enter_mpi(struct window *w)
{
    atomic_fetch_add(&w->inside, 1);
    if (!atomic_load(&w->closed))
        return true;
    atomic_fetch_sub(&w->inside, 1);
    return false;
}

static void leave_mpi(struct window *w)
{
    atomic_fetch_sub(&w->inside, 1);
}

static bool forced(const acp_engine *e)
{
    return e->config.path == ACP_PATH_WINDOW;
}

int acp_window_attach(acp_engine *e, const acp_window_config *config, const char **missing)
{
    struct window *w = calloc(1, sizeof *w);
    *missing = NULL;
    if (!w || !(w->staging = malloc(SLICE_BYTES))) {
        free(w);
        return ACP_E_SYSTEM;
    }
    w->config = *config;
    *missing = mpi_find(&w->mpi, config->user);
    w->config.user = NULL;
    if (*missing) {
        free(w->staging);
        free(w);
        return ACP_E_ARGUMENT;
    }
    atomic_store(&e->window, w);
    return ACP_OK;
}

void acp_window_open(acp_engine *e, bool reads_back)
{
    struct window *w = atomic_load(&e->window);
    if (!w)
        return;
    atomic_store(&w->reads_back, reads_back);
    atomic_store(&w->open, true);
}

void acp_window_close(acp_engine *e)
{
    struct window *w = atomic_load(&e->window);
    if (!w)
        return;
    atomic_store(&w->open, false);
    atomic_store(&w->closed, true);
    while (atomic_load(&w->inside))
        sched_yield();
    pthread_mutex_lock(&e->lock);
    visits_end(&e->lanes[LANE_LOCKED]);
    pthread_mutex_unlock(&e->lock);
}

void window_free(acp_engine *e)
{
    struct window *w = atomic_load(&e->window);
    if (w)
        free(w->staging);
    free(w);
}

/* Does the window lead to these bytes of a rank that is reached by link otherwise? */
bool window_reaches(acp_engine *e, const struct peer *p, acp_ga_t ga, uint64_t size)
{
    const struct window *w = atomic_load_explicit(&e->window, memory_order_acquire);
    uint64_t at = acp_ga_offset(ga) - STARTER_OFFSET;
    return w && atomic_load_explicit(&w->open, memory_order_relaxed) &&
           p->slot - w->config.first_slot < w->config.count && acp_ga_color(ga) == 0 &&
           at < w->config.extent && size <= w->config.extent - at &&
           (p->row.node != e->config.node || forced(e));
}

/* May peers write this word of the own memory by the window, unseen by this process? */
bool window_writes(acp_engine *e, uint64_t position)
{
    const struct window *w = atomic_load_explicit(&e->window, memory_order_acquire);
    return w && atomic_load_explicit(&w->open, memory_order_relaxed) &&
           position - STARTER_OFFSET < w->config.extent;
}

/* An aligned word goes as a word, so that it is seen whole. */
static int issue(const struct window *w, bool put, unsigned char *memory, int target,
                 uint64_t at, uint64_t size)
{
    uint64_t both = (uint64_t)(uintptr_t)memory | at;
    uintptr_t type = w->config.byte, window = w->config.window;
    int count = (int)size;
    if (size == 8 && !(both & 7)) {
        type = w->config.word8;
        count = 1;
    } else if (size == 4 && !(both & 3)) {
        type = w->config.word4;
        count = 1;
    }
    return put ? w->mpi.put(memory, count, type, target, (intptr_t)at, count, type, window)
               : w->mpi.get(memory, count, type, target, (intptr_t)at, count, type, window);
}

int acp_window_put(acp_engine *e, uint32_t rank, uint64_t at, const void *data, uint64_t size)
{
    struct window *w = atomic_load(&e->window);
    if (!w || !enter_mpi(w))
        return ACP_E_CLOSED;
    int target = (int)(slot_of_rank(e, rank) - w->config.first_slot);
    int rc = issue(w, true, (unsigned char *)(uintptr_t)data, target, at, size);
    if (rc == 0)
        rc = w->mpi.flush(target, w->config.window);
    leave_mpi(w);
    return rc == 0 ? ACP_OK : ACP_E_MPI;
}

/* Looks at MPI for the guests; the leader calls again while there are any. */
void window_drive(acp_engine *e)
{
    struct window *w = atomic_load(&e->window);
    _Alignas(16) char status[256]; /* of any MPI */
    int flag;
    if (!atomic_load_explicit(&e->guests, memory_order_relaxed) || !w || !enter_mpi(w))
        return;
    for (int look = 0; look < GUEST_LOOKS; look++)
        w->mpi.iprobe(w->config.any_source, w->config.any_tag, w->config.comm, &flag, status);
    leave_mpi(w);
}

/* Between two looks. */
void window_pause(acp_engine *e)
{
    const struct timespec pause = {.tv_nsec = GUEST_PAUSE_NS};
    if (now_ns() < e->lively)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}

void window_start(acp_lane *lane, struct op *op)
{
    bool welcome = true;
    if (forced(lane->engine) && visit_begin(lane, op, &welcome) != ACP_OK) {
        op_fault(op, &lane->fault);
        op_finish(lane, op);
    } else if (welcome) {
        work_add(lane->engine, op);
    } else {
        op->in_flight = 1;
    }
}

/* The target drives MPI now. */
void window_welcome(acp_lane *lane, struct op *op)
{
    visit_welcome(op->target);
    work_add(lane->engine, op);
}

static void end(acp_lane *lane, struct op *op)
{
    if (forced(lane->engine))
        visit_end(lane, op->target);
    op_finish(lane, op);
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

/* Chooses the slice; false if there is no room left to stage it. With the lock held. */
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
static uint64_t place(const struct part *p)
{
    const struct message *c = &p->op->command;
    return acp_ga_offset(p->put ? c->dst : c->src) - STARTER_OFFSET + p->at;
}

/* Flushes the target of the first part, and of all others that go there. A byte that is fetched
 * behind a put shows that the put is there. */
static void settle(const struct window *w, struct part *parts, uint32_t count)
{
    const struct part *put = NULL;
    unsigned char byte;
    int target = parts->target, rc = w->mpi.flush(target, w->config.window);
    for (uint32_t i = 0; i < count && w->reads_back; i++)
        if (parts[i].put && !parts[i].flushed && parts[i].target == target)
            put = &parts[i];
    if (put && !rc)
        rc = issue(w, false, &byte, target, place(put), 1);
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

static void move(acp_lane *lane, const struct window *w, struct part *parts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct part *p = &parts[i];
        if (p->fault.status == ACP_OK && p->staged && p->put &&
            part_read(lane, p->op, p->at, p->size, p->memory) != ACP_OK)
            p->fault = lane->fault;
        p->flushed = p->fault.status != ACP_OK;
        int rc = p->flushed ? 0 : issue(w, p->put, p->memory, p->target, place(p), p->size);
        if (rc)
            part_failed(p, ACP_E_MPI, rc);
    }
    for (uint32_t i = 0; i < count; i++)
        if (!parts[i].flushed)
            settle(w, parts + i, count - i);
    for (uint32_t i = 0; i < count; i++) {
        struct part *p = &parts[i];
        if (p->fault.status == ACP_OK && p->staged && !p->put &&
            part_write(lane, p->op, p->at, p->size, p->memory) != ACP_OK)
            p->fault = lane->fault;
    }
}

/* With the lock held, which it lets go while it calls MPI. */
static void carry_out(acp_lane *lane, struct window *w, struct part *parts, uint32_t count)
{
    acp_engine *e = lane->engine;
    pthread_mutex_unlock(&e->lock);
    if (enter_mpi(w)) {
        move(lane, w, parts, count);
        leave_mpi(w);
    } else {
        for (uint32_t i = 0; i < count; i++)
            part_failed(&parts[i], ACP_E_CLOSED, 0);
    }
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < count; i++) {
        struct op *op = parts[i].op;
        op->issued += parts[i].size;
        if (parts[i].fault.status != ACP_OK)
            op_fault(op, &parts[i].fault);
        if (op->fault.status != ACP_OK || op->issued == op->command.a)
            end(lane, op);
        else
            work_add(e, op); /* the next one has its turn */
    }
}

/* A slice of each of the first window operations in the list of work. With the lock held. */
void window_step(acp_lane *lane, struct op *first)
{
    acp_engine *e = lane->engine;
    struct window *w = atomic_load(&e->window);
    struct part parts[BATCH];
    uint64_t staged = 0;
    uint32_t count = 1;
    prepare(w, first, &staged, &parts[0]);
    while (count < BATCH && e->work && by_window(e->work->way) &&
           prepare(w, e->work, &staged, &parts[count])) {
        count++;
        work_take(e);
    }
    carry_out(lane, w, parts, count);
}

/* Who waits for its own short put or get does it, unless the leader has begun: that saves the
 * turn through the leader. */
void window_help(acp_engine *e, acp_handle_t handle)
{
    struct window *w = atomic_load_explicit(&e->window, memory_order_acquire);
    if (!w || !atomic_load_explicit(&w->open, memory_order_relaxed))
        return;
    atomic_fetch_add(&e->callers, 1);
    pthread_mutex_lock(&e->lock);
    struct op *op = atomic_load(&e->stopping) ? NULL : work_claim(e, handle);
    if (op && by_window(op->way) && op->local.local && op->command.a <= DIRECT_BYTES) {
        struct part part;
        uint64_t staged = 0;
        prepare(w, op, &staged, &part);
        carry_out(&e->lanes[LANE_LOCKED], w, &part, 1);
    } else if (op) {
        work_add(e, op);
    }
    pthread_mutex_unlock(&e->lock);
    atomic_fetch_sub(&e->callers, 1);
}
