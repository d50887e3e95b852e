/* Many small operations in one call. Elements in reach of load and store are done at once; the rest becomes one
 * operation: its elements travel in batches by link, or as tasks of this process. */
#include "operations/vector.h"
#include "core/upcalls.h"
#include "memory/translate.h"
#include "operations/batch.h"
#include "operations/execute.h"
#include "operations/op_table.h"
#include "operations/pending.h"
#include "operations/protocol.h"
#include "operations/route.h"
#include "operations/task.h"
#include "peers/newcomers.h"
#include "progress/doorbell.h"
#include "transport/shm_ring.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW 256u
#define BATCH_BYTES ((uint64_t)64 << 10) /* the longest stay inside a region */

static struct many *many_new(uint8_t kind, const acp_column columns[4], uint64_t count,
                             uint64_t *old)
{
    struct many *m = malloc(sizeof *m + 4 * count * sizeof m->data[0]);
    if (!m)
        return NULL;
    *m = (struct many){.count = count, .kind = kind, .old = old};
    for (uint32_t c = 0; c < 4; c++) {
        m->columns[c] = m->data + c * count;
        for (uint64_t i = 0; i < count; i++)
            m->columns[c][i] = columns[c].data ? acp_column_at(columns[c], i) : 0;
    }
    return m;
}

static void element_command(const struct many *m, uint64_t i, struct message *c)
{
    *c = (struct message){.kind = m->kind, .dst = m->columns[0][i], .src = m->columns[1][i],
                          .a = m->columns[2][i], .b = m->columns[3][i]};
}

static bool start_alone(acp_lane *lane, struct op *op, uint64_t i)
{
    struct many *m = op->many;
    struct op *child = task_new(lane->engine);
    if (!child)
        return false;
    element_command(m, i, &child->command);
    if (m->old)
        child->local = (struct place){(unsigned char *)(m->old + i), false};
    child->parent = op;
    child->fetched = m->halves && i;
    child->state = OP_RUNNING;
    m->next += i == m->next;
    m->under_way++;
    protocol_start(lane, child);
    return true;
}

/* The next element, which the router looks at in `probe`; false: not now. */
static bool start_next(acp_lane *lane, struct op *op, struct op *probe)
{
    struct many *m = op->many;
    struct plan plan;
    element_command(m, m->next, &probe->command);
    if (route(lane, probe, &plan) == ACP_OK && batch_takes(&plan, &probe->command)) {
        bool added = batch_add(lane, op, m->next, &plan, &probe->command);
        m->next += added;
        return added;
    }
    if (start_alone(lane, op, m->next))
        return true;
    lane_fail(lane, ACP_E_SYSTEM, 0, 0);
    op_table_fault(op, &lane->fault);
    return false;
}

/* Starts as many elements as the window allows; ends the operation after the last. */
void vector_push(acp_lane *lane, struct op *op)
{
    acp_engine *e = lane->engine;
    struct many *m = op->many;
    if (m->pushing)
        return;
    struct op probe = {.parent = op};
    m->pushing = true;
    while (m->again_count && m->under_way < WINDOW && op->fault.status == ACP_OK &&
           start_alone(lane, op, m->again[m->again_count - 1]))
        m->again_count--;
    while (!m->again_count && m->next < m->count && m->under_way < WINDOW && op->fault.status == ACP_OK &&
           !e->shm.backlogged && start_next(lane, op, &probe))
        continue;
    batches_send(lane, op);
    m->pushing = false;
    if (m->under_way == 0 && ((m->next == m->count && !m->again_count) || op->fault.status != ACP_OK)) {
        op->many = NULL;
        free(m->again);
        free(m);
        op_table_finish(lane, op);
    } else if (m->under_way == 0) { /* a ring is full: when there is room */
        pending_stall(e, op);
    }
}

void vector_child_done(acp_lane *lane, struct op *child)
{
    struct op *op = child->parent;
    if (child->fault.status != ACP_OK)
        op_table_fault(op, &child->fault);
    op->many->under_way--;
    vector_push(lane, op);
}

/* Both owners work at the same time, which takes little more than half of the time of one. */
bool vector_halves(acp_lane *lane, struct op *op)
{
    const struct message *c = &op->command;
    uint64_t half = layout_page_up(c->a / 2);
    uint64_t dst[] = {c->dst, c->dst + half}, src[] = {c->src, c->src + half}, size[] = {half, c->a - half};
    const acp_column columns[4] = {{(char *)dst, 8}, {(char *)src, 8}, {(char *)size, 8}, {NULL, 0}};
    struct many *m = many_new(ACP_COPY, columns, 2, NULL);
    if (!m)
        return false;
    m->halves = true;
    op->way = WAY_MANY;
    op->many = m;
    vector_push(lane, op);
    return true;
}

/* The streams of the own device memory among the ends, marked once each. */
static int many_mark(acp_lane *lane, const struct many *m, struct device_job **job)
{
    struct message c;
    if (likely(!atomic_load_explicit(&lane->engine->devices.used, memory_order_relaxed)) || m->kind != ACP_COPY)
        return ACP_OK;
    for (uint64_t i = 0; i < m->count; i++) {
        element_command(m, i, &c);
        if (lane->engine->up->device_mark(lane, &c, NULL, false, job) != ACP_OK)
            return lane->fault.status;
    }
    return ACP_OK;
}

static acp_handle_t submit_many(acp_lane *lane, struct many *m, acp_handle_t order)
{
    acp_engine *e = lane->engine;
    if (!m) {
        lane_fail(lane, ACP_E_SYSTEM, 0, 0);
        return 0;
    }
    struct device_job *job = NULL;
    if (many_mark(lane, m, &job) != ACP_OK) {
        free(m);
        return 0;
    }
    shm_ring_submit_begin(e);
    struct op *op = op_table_new(lane);
    acp_handle_t handle = 0;
    if (op) {
        op->way = WAY_MANY;
        op->many = m;
        op->command = (struct message){.kind = m->kind};
        op->awaited = m->old;
        op->job = job;
        handle = op_table_submit(lane, op, order);
    } else {
        free(m);
        e->up->device_forsake(e, job);
    }
    shm_ring_submit_end(e);
    op_table_run_devices(lane);
    return handle;
}

/* Is every element in reach of load and store? Raises the errors that can be detected now. */
static int columns_check(acp_lane *lane, acp_column ga, acp_column size, uint64_t width, uint32_t role,
                         uint64_t count, bool may_be_null, bool *loaded, uint64_t *bad)
{
    for (uint64_t i = 0; i < count; i++) {
        acp_ga_t address = acp_column_at(ga, i);
        uint64_t n = width ? width : acp_column_at(size, i);
        *bad = i;
        if (unlikely(width && (address & (width - 1))))
            return lane_fail(lane, ACP_E_ALIGN, address, width);
        if (address == ACP_GA_NULL && may_be_null)
            continue;
        if (unlikely(n == 0)) {
            if (address == ACP_GA_NULL)
                return lane_fail(lane, ACP_E_NULL, address, 0);
            if (address >> 63 ||
                !newcomers_find(lane->engine, (uint64_t)acp_ga_rank(address)))
                return lane_fail(lane, ACP_E_RANK, address, 0);
            continue;
        }
        if (likely(translate_find(lane, role, address, n) != NULL))
            continue;
        if (lane->fault.status != ACP_OK)
            return lane->fault.status;
        *loaded = false;
    }
    return ACP_OK;
}

static inline void copy_element(unsigned char *d, const unsigned char *s, uint64_t n)
{
    if (n == 8 && (((uintptr_t)d | (uintptr_t)s) & 7) == 0)
        __atomic_store_n((uint64_t *)(void *)d,
                         __atomic_load_n((const uint64_t *)(const void *)s, __ATOMIC_RELAXED),
                         __ATOMIC_RELAXED);
    else
        memmove(d, s, n);
}

static int copy_loaded_many(acp_lane *lane, acp_column dst, acp_column src, acp_column size,
                            uint64_t count, uint64_t *bad)
{
    for (uint64_t i = 0; i < count;) {
        uint64_t n = acp_column_at(size, i), bytes = 0;
        *bad = i;
        if (!n) {
            i++;
            continue;
        }
        acp_ga_t to = acp_column_at(dst, i), from = acp_column_at(src, i);
        const struct translation *d = translate_find(lane, ROLE_DST, to, n);
        const struct translation *s = d ? translate_find(lane, ROLE_SRC, from, n) : NULL;
        if (!s)
            return lane->fault.status != ACP_OK ? lane->fault.status
                                                : lane_fail(lane, ACP_E_UNREGISTERED, to, n);
        if (n > BATCH_BYTES || d->peer->shm.doors->watching) {
            int rc = execute_copy(lane, d, to, s, from, n);
            if (rc != ACP_OK && rc != ACP_E_UNREGISTERED)
                return rc;
            i += rc == ACP_OK;
            continue; /* if it changed just now it is looked up again */
        }
        if (!translate_enter(d, ROLE_DST))
            continue;
        if (!translate_enter(s, ROLE_SRC)) {
            translate_leave(d, ROLE_DST);
            continue;
        }
        atomic_thread_fence(memory_order_acq_rel);
        do {
            copy_element(d->base + (to - d->low), s->base + (from - s->low), n);
            bytes += n + 64;
            i++;
        } while (i < count && bytes < BATCH_BYTES && (n = acp_column_at(size, i)) &&
                 translate_covers(d, to = acp_column_at(dst, i), n) &&
                 translate_covers(s, from = acp_column_at(src, i), n));
        atomic_thread_fence(memory_order_acq_rel);
        translate_leave(s, ROLE_SRC);
        translate_leave(d, ROLE_DST);
        if (unlikely(d->fence))
            atomic_thread_fence(memory_order_seq_cst);
        if (unlikely(d->peer->shm.doors->watching)) /* a waiter came meanwhile: let it look */
            doorbell_notify(lane->engine, d->peer, 0, UINT64_MAX / 2);
    }
    return ACP_OK;
}

acp_handle_t acp_copy_many(acp_lane *lane, acp_column dst, acp_column src, acp_column size,
                           uint64_t count, acp_handle_t order, uint64_t *bad)
{
    bool loaded = true;
    if (columns_check(lane, dst, size, 0, ROLE_DST, count, false, &loaded, bad) != ACP_OK ||
        columns_check(lane, src, size, 0, ROLE_SRC, count, false, &loaded, bad) != ACP_OK)
        return 0;
    if (loaded && op_table_order_met(lane->engine, lane, order))
        return copy_loaded_many(lane, dst, src, size, count, bad) == ACP_OK
                   ? op_table_now(lane->engine)
                   : 0;
    const acp_column columns[4] = {dst, src, size, {NULL, 0}};
    return submit_many(lane, many_new(ACP_COPY, columns, count, NULL), order);
}

acp_handle_t acp_atomic_many(acp_lane *lane, acp_kind kind, acp_column ga, acp_column value,
                             acp_column compare, uint64_t *old, uint64_t count,
                             acp_handle_t order, uint64_t *bad)
{
    bool loaded = true;
    uint32_t width = layout_atomic_width((uint8_t)kind);
    if (columns_check(lane, ga, ga, width, ROLE_SRC, count, false, &loaded, bad) != ACP_OK)
        return 0;
    if (!loaded || !op_table_order_met(lane->engine, lane, order)) {
        const acp_column columns[4] = {{NULL, 0}, ga, value, compare};
        return submit_many(lane, many_new((uint8_t)kind, columns, count, old), order);
    }
    for (uint64_t i = 0; i < count;) {
        *bad = i;
        const struct translation *s = translate_find(lane, ROLE_SRC, acp_column_at(ga, i), width);
        if (!s)
            return 0;
        /* none, if the region changed just now: it is looked up again */
        i += execute_atomics(lane, (uint8_t)kind, s, ga, value, compare, old, i, count);
    }
    return op_table_now(lane->engine);
}
