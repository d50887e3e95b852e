/* The operations as users call them: run at once where load and store reach both ends and
 * nothing is waited for, else handed to the operation table. */
#include "core/devices.h"
#include "core/upcalls.h"
#include "devices/device_block.h"
#include "memory/translate.h"
#include "operations/execute.h"
#include "operations/op_table.h"
#include "peers/newcomers.h"
#include "transport/shm_ring.h"

static acp_handle_t call_refuse(acp_lane *lane, int status, acp_ga_t ga, uint64_t size)
{
    lane_fail(lane, status, ga, size);
    return 0;
}

/* Null and rank are checked even for an empty operation. */
static bool plausible(acp_lane *lane, acp_ga_t ga)
{
    if (ga == ACP_GA_NULL)
        return lane_fail(lane, ACP_E_NULL, ga, 0) == ACP_OK;
    if (ga >> 63 || !newcomers_find(lane->engine, (uint64_t)acp_ga_rank(ga)))
        return lane_fail(lane, ACP_E_RANK, ga, 0) == ACP_OK;
    return true;
}

/* Errors of an address that this process can detect are raised at the call. */
static bool known_good(acp_lane *lane, acp_ga_t ga, uint64_t size)
{
    struct translation t;
    enum reach reach;
    return translate(lane, ga, size, &t, &reach) == ACP_OK;
}

/* The same where `size` may be 0. */
static bool usable(acp_lane *lane, acp_ga_t ga, uint64_t size)
{
    return translate_remote(lane, ga) || (plausible(lane, ga) && (!size || known_good(lane, ga, size)));
}

int acp_check(acp_lane *lane, acp_ga_t ga, uint64_t size)
{
    return known_good(lane, ga, size) ? ACP_OK : lane->fault.status;
}

/* How an operation is waited for, as far as that decides its way. */
enum manner { PLAIN, AWAITED, RINGS };

/* `block`: the local side is device memory. */
static acp_handle_t submit_from(acp_lane *lane, const struct message *command, struct place local,
                                acp_device_block *block, acp_handle_t order, enum manner manner)
{
    acp_engine *e = lane->engine;
    acp_handle_t handle = 0;
    struct device_job *job = NULL;
    if (unlikely(atomic_load_explicit(&e->devices.used, memory_order_relaxed)) &&
        e->up->device_mark(lane, command, block, local.is_source, &job) != ACP_OK)
        return 0;
    shm_ring_submit_begin(e);
    struct op *op = op_table_new(lane);
    if (op) {
        op->command = *command;
        op->local = local;
        op->awaited = manner == AWAITED;
        op->rings = manner == RINGS;
        op->job = job;
        handle = op_table_submit(lane, op, order);
    } else {
        e->up->device_forsake(e, job);
    }
    shm_ring_submit_end(e);
    op_table_run_devices(lane);
    return handle;
}

static acp_handle_t submit(acp_lane *lane, const struct message *command, struct place local,
                           acp_handle_t order, enum manner manner)
{
    return submit_from(lane, command, local, NULL, order, manner);
}

acp_handle_t acp_copy(acp_lane *lane, acp_ga_t dst, acp_ga_t src, uint64_t size,
                      acp_handle_t order)
{
    acp_engine *e = lane->engine;
    if (likely(size - 1 < BACKGROUND_BYTES && op_table_order_met(e, lane, order))) {
        const struct translation *d, *s;
        while (likely((d = translate_find(lane, ROLE_DST, dst, size)) != NULL &&
                      (s = translate_find(lane, ROLE_SRC, src, size)) != NULL)) {
            int rc = execute_copy(lane, d, dst, s, src, size);
            if (likely(rc == ACP_OK))
                return op_table_now(e);
            if (rc != ACP_E_UNREGISTERED) /* it changed just now: look it up again */
                return 0;
        }
        if (lane->fault.status != ACP_OK)
            return 0;
    }
    if (!usable(lane, dst, size) || !usable(lane, src, size))
        return 0;
    if (!size && op_table_order_met(e, lane, order))
        return op_table_now(e);
    struct message command = {.kind = ACP_COPY, .dst = dst, .src = src, .a = size};
    return submit(lane, &command, (struct place){0}, order, PLAIN);
}

acp_handle_t acp_atomic(acp_lane *lane, acp_kind kind, acp_ga_t dst, acp_ga_t src, uint64_t value,
                        uint64_t compare, acp_handle_t order)
{
    acp_engine *e = lane->engine;
    uint32_t width = layout_atomic_width((uint8_t)kind);
    if (unlikely(src & (width - 1)))
        return call_refuse(lane, ACP_E_ALIGN, src, width);
    if (likely(op_table_order_met(e, lane, order))) {
        const struct translation *s = translate_find(lane, ROLE_SRC, src, width), *d = NULL;
        if (likely(s && (dst == ACP_GA_NULL || (d = translate_find(lane, ROLE_DST, dst, width))))) {
            uint64_t old;
            while (unlikely(execute_atomic(lane, (uint8_t)kind, s, src, value, compare, &old)))
                if (!(s = translate_find(lane, ROLE_SRC, src, width)))
                    return 0;
            while (d && unlikely(execute_write(lane, d, dst, &old, width) != ACP_OK))
                d = translate_find(lane, ROLE_DST, dst, width);
            if (dst != ACP_GA_NULL && !d)
                return 0;
            return op_table_now(e);
        }
        if (lane->fault.status != ACP_OK)
            return 0;
    }
    if (!known_good(lane, src, width) || (dst != ACP_GA_NULL && !known_good(lane, dst, width)))
        return 0;
    struct message command = {.kind = (uint8_t)kind, .dst = dst, .src = src, .a = value,
                              .b = compare};
    return submit(lane, &command, (struct place){0}, order, PLAIN);
}

static acp_handle_t iput_iget(acp_lane *lane, acp_ga_t ga, struct place local, uint64_t size,
                              acp_handle_t order, enum manner manner)
{
    if (!usable(lane, ga, size))
        return 0;
    if (!size && op_table_order_met(lane->engine, lane, order))
        return op_table_now(lane->engine);
    struct message command = {.kind = ACP_COPY, .dst = local.is_source ? ga : ACP_GA_NULL,
                              .src = local.is_source ? ACP_GA_NULL : ga, .a = size};
    return submit(lane, &command, local, order, manner);
}

static acp_handle_t iput(acp_lane *lane, acp_ga_t dst, const void *src, uint64_t size,
                         acp_handle_t order, enum manner manner)
{
    acp_engine *e = lane->engine;
    if (likely(size - 1 < BACKGROUND_BYTES && op_table_order_met(e, lane, order))) {
        const struct translation *d;
        while (likely((d = translate_find(lane, ROLE_DST, dst, size)) != NULL))
            if (likely(execute_write(lane, d, dst, src, size) == ACP_OK))
                return op_table_now(e);
        if (lane->fault.status != ACP_OK)
            return 0;
    }
    return iput_iget(lane, dst, (struct place){(unsigned char *)(uintptr_t)src, true}, size,
                     order, manner);
}

acp_handle_t acp_iput(acp_lane *lane, acp_ga_t dst, const void *src, uint64_t size,
                      acp_handle_t order)
{
    return iput(lane, dst, src, size, order, PLAIN);
}

acp_handle_t acp_iput_flag(acp_lane *lane, acp_ga_t dst, const void *word, acp_handle_t order)
{
    return iput(lane, dst, word, 8, order, RINGS);
}

acp_handle_t acp_iget(acp_lane *lane, void *dst, acp_ga_t src, uint64_t size, acp_handle_t order)
{
    acp_engine *e = lane->engine;
    if (likely(size - 1 < BACKGROUND_BYTES && op_table_order_met(e, lane, order))) {
        const struct translation *s;
        while (likely((s = translate_find(lane, ROLE_SRC, src, size)) != NULL))
            if (likely(execute_read(lane, dst, s, src, size) == ACP_OK))
                return op_table_now(e);
        if (lane->fault.status != ACP_OK)
            return 0;
    }
    return iput_iget(lane, src, (struct place){dst, false}, size, order, PLAIN);
}

static acp_handle_t device_transfer(acp_lane *lane, acp_ga_t ga, acp_device_block *block, uint64_t offset,
                                    uint64_t size, bool is_source, acp_handle_t order, bool awaited)
{
    uint64_t whole = block->block.size;
    if (!usable(lane, ga, size))
        return 0;
    if (offset > whole || size > whole - offset)
        return call_refuse(lane, ACP_E_ARGUMENT, ga, size);
    if (!size && op_table_order_met(lane->engine, lane, order))
        return op_table_now(lane->engine);
    struct message command = {.kind = ACP_COPY, .dst = is_source ? ga : ACP_GA_NULL,
                              .src = is_source ? ACP_GA_NULL : ga, .a = size};
    struct place local = {(unsigned char *)(uintptr_t)(block->block.base + offset), is_source};
    return submit_from(lane, &command, local, block, order, awaited ? AWAITED : PLAIN);
}

acp_handle_t acp_device_iput(acp_lane *lane, acp_ga_t dst, acp_device_block *block, uint64_t offset, uint64_t size,
                             acp_handle_t order, bool awaited)
{
    return device_transfer(lane, dst, block, offset, size, true, order, awaited);
}

acp_handle_t acp_device_iget(acp_lane *lane, acp_device_block *block, uint64_t offset, acp_ga_t src, uint64_t size,
                             acp_handle_t order, bool awaited)
{
    return device_transfer(lane, src, block, offset, size, false, order, awaited);
}

void acp_device_stream(acp_lane *lane, uint64_t stream, bool handle, bool unordered)
{
    lane->stream = stream;
    lane->stream_handle = handle;
    lane->unordered = unordered;
}

/* A blocking transfer: the caller waits anyway, so it moves the bytes itself if it can. */
static int transfer_now(acp_lane *lane, acp_ga_t ga, struct place local, uint64_t size)
{
    struct translation t;
    enum reach reach;
    acp_engine *e = lane->engine;
    struct message command = {.kind = ACP_COPY, .dst = local.is_source ? ga : ACP_GA_NULL,
                              .src = local.is_source ? ACP_GA_NULL : ga, .a = size};
    int rc = translate(lane, ga, size, &t, &reach);
    if (rc != ACP_OK)
        return rc;
    bool forced = e->config.path == ACP_PATH_OWNER && t.peer != e->job.own;
    if (forced || (reach != REACH_LOAD && reach != REACH_VM))
        return ACP_E_BUSY;
    unsigned char *there = t.base ? t.base + (ga - t.low) : NULL;
    bool backward = local.is_source ? execute_backward(there, local.local, size)
                                    : execute_backward(local.local, there, size);
    uint64_t parts = (size + BACKGROUND_BYTES - 1) / BACKGROUND_BYTES;
    for (uint64_t i = 0; i < parts && rc == ACP_OK; i++) {
        uint64_t at = (backward ? parts - 1 - i : i) * BACKGROUND_BYTES;
        uint64_t part = size - at < BACKGROUND_BYTES ? size - at : BACKGROUND_BYTES;
        rc = execute_command(lane, &command, local, at, part, NULL);
    }
    return rc;
}

static int blocking(acp_lane *lane, acp_ga_t ga, struct place local, uint64_t size,
                    acp_handle_t *pending)
{
    *pending = 0;
    if (!size)
        return plausible(lane, ga) ? ACP_OK : lane->fault.status;
    int rc = translate_remote(lane, ga) ? ACP_E_BUSY : transfer_now(lane, ga, local, size);
    if (rc != ACP_E_BUSY)
        return rc;
    *pending = iput_iget(lane, ga, local, size, ACP_HANDLE_NULL, AWAITED);
    return *pending ? ACP_OK : lane->fault.status;
}

int acp_put(acp_lane *lane, acp_ga_t dst, const void *src, uint64_t size, acp_handle_t *pending)
{
    const struct translation *d =
        size - 1 < BACKGROUND_BYTES ? translate_find(lane, ROLE_DST, dst, size) : NULL;
    *pending = 0;
    if (likely(d != NULL && execute_write(lane, d, dst, src, size) == ACP_OK))
        return ACP_OK;
    return blocking(lane, dst, (struct place){(unsigned char *)(uintptr_t)src, true}, size,
                    pending);
}

int acp_get(acp_lane *lane, void *dst, acp_ga_t src, uint64_t size, acp_handle_t *pending)
{
    const struct translation *s =
        size - 1 < BACKGROUND_BYTES ? translate_find(lane, ROLE_SRC, src, size) : NULL;
    *pending = 0;
    if (likely(s != NULL && execute_read(lane, dst, s, src, size) == ACP_OK))
        return ACP_OK;
    return blocking(lane, src, (struct place){dst, false}, size, pending);
}

int acp_fetch_here(acp_lane *lane, acp_kind kind, acp_ga_t src, uint64_t value, uint64_t compare,
                   uint64_t *old)
{
    uint32_t width = layout_atomic_width((uint8_t)kind);
    if (unlikely(src & (width - 1)))
        return lane_fail(lane, ACP_E_ALIGN, src, width);
    const struct translation *s;
    while (likely((s = translate_find(lane, ROLE_SRC, src, width)) != NULL))
        if (likely(execute_atomic(lane, (uint8_t)kind, s, src, value, compare, old) == ACP_OK))
            return ACP_OK;
    return lane->fault.status != ACP_OK ? lane->fault.status : ACP_E_BUSY;
}

int acp_fetch(acp_lane *lane, acp_kind kind, acp_ga_t src, uint64_t value, uint64_t compare,
              uint64_t *old, acp_handle_t *pending)
{
    *pending = 0;
    int rc = acp_fetch_here(lane, kind, src, value, compare, old);
    if (rc != ACP_E_BUSY)
        return rc;
    struct message command = {.kind = (uint8_t)kind, .src = src, .a = value, .b = compare};
    /* The old value goes to the caller's own word, as a get would bring it. */
    *pending = submit(lane, &command, (struct place){(unsigned char *)old, false},
                      ACP_HANDLE_NULL, AWAITED);
    return *pending ? ACP_OK : lane->fault.status;
}
