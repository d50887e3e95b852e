/* The executor: the effect of a command on memory that this process can reach. */
#include "operations/execute.h"
#include "base/crc32c.h"
#include "base/crc32c_copy.h"
#include "base/stream_copy.h"
#include "memory/translate.h"
#include "operations/op_table.h"
#include "peers/peer.h"
#include "progress/doorbell.h"

#include <errno.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>

#define BATCH ((uint64_t)1024) /* atomics in one stay inside a region */
#define VM_BYTES ((uint64_t)1 << 30) /* one process_vm call moves less than 2 GiB */

/* Aligned words are copied whole; a reader of the word sees everything written before it. */
static inline void copy_bytes(unsigned char *dst, const unsigned char *src, uint64_t size)
{
    uintptr_t both = (uintptr_t)dst | (uintptr_t)src;
    if (size == 8 && (both & 7) == 0) {
        uint64_t word = __atomic_load_n((const uint64_t *)(const void *)src, __ATOMIC_ACQUIRE);
        __atomic_store_n((uint64_t *)(void *)dst, word, __ATOMIC_RELEASE);
    } else if (size == 4 && (both & 3) == 0) {
        uint32_t word = __atomic_load_n((const uint32_t *)(const void *)src, __ATOMIC_ACQUIRE);
        __atomic_store_n((uint32_t *)(void *)dst, word, __ATOMIC_RELEASE);
    } else {
        atomic_thread_fence(memory_order_acq_rel);
        memmove(dst, src, size);
        atomic_thread_fence(memory_order_acq_rel);
    }
}

static inline void written(acp_engine *e, const struct translation *t, acp_ga_t ga, uint64_t size)
{
    if (unlikely(t->fence))
        atomic_thread_fence(memory_order_seq_cst);
    if (unlikely(atomic_load_explicit(&t->peer->shm.doors->watching, memory_order_relaxed)))
        doorbell_notify(e, t->peer, t->position + (ga - t->low), size);
}

int execute_copy(acp_lane *lane, const struct translation *d, acp_ga_t dst,
                 const struct translation *s, acp_ga_t src, uint64_t size)
{
    if (unlikely(!translate_enter(d, ROLE_DST)))
        return lane_fail(lane, ACP_E_UNREGISTERED, dst, size);
    if (unlikely(!translate_enter(s, ROLE_SRC))) {
        translate_leave(d, ROLE_DST);
        return lane_fail(lane, ACP_E_UNREGISTERED, src, size);
    }
    copy_bytes(d->base + (dst - d->low), s->base + (src - s->low), size);
    translate_leave(s, ROLE_SRC);
    translate_leave(d, ROLE_DST);
    written(lane->engine, d, dst, size);
    return ACP_OK;
}

int execute_write(acp_lane *lane, const struct translation *d, acp_ga_t dst, const void *src,
                  uint64_t size)
{
    if (unlikely(!translate_enter(d, ROLE_DST)))
        return lane_fail(lane, ACP_E_UNREGISTERED, dst, size);
    copy_bytes(d->base + (dst - d->low), src, size);
    translate_leave(d, ROLE_DST);
    written(lane->engine, d, dst, size);
    return ACP_OK;
}

int execute_read(acp_lane *lane, void *dst, const struct translation *s, acp_ga_t src,
                 uint64_t size)
{
    if (unlikely(!translate_enter(s, ROLE_SRC)))
        return lane_fail(lane, ACP_E_UNREGISTERED, src, size);
    copy_bytes(dst, s->base + (src - s->low), size);
    translate_leave(s, ROLE_SRC);
    return ACP_OK;
}

/* Between memory of this process and region `t`; the bytes' sum goes on in *sum. */
static int summed_loaded(acp_lane *lane, bool write, unsigned char *mine,
                         const struct translation *t, acp_ga_t ga, uint64_t size, uint64_t *sum)
{
    unsigned char *there = t->base + (ga - t->low);
    uint32_t role = write ? ROLE_DST : ROLE_SRC;
    if (!translate_enter(t, role))
        return lane_fail(lane, ACP_E_UNREGISTERED, ga, size);
    *sum = acp_crc32c_copy((uint32_t)*sum, write ? there : mine, write ? mine : there, size);
    translate_leave(t, role);
    if (write)
        written(lane->engine, t, ga, size);
    return ACP_OK;
}

#define ATOMIC_CASES(width)                                                                     \
    case ACP_CAS##width: {                                                                      \
        uint##width##_bits expected = (uint##width##_bits)compare;                              \
        __atomic_compare_exchange_n((uint##width##_bits *)p, &expected,                         \
                                    (uint##width##_bits)value, false, __ATOMIC_SEQ_CST,         \
                                    __ATOMIC_SEQ_CST);                                          \
        return expected;                                                                        \
    }                                                                                           \
    case ACP_SWAP##width:                                                                       \
        return __atomic_exchange_n((uint##width##_bits *)p, (uint##width##_bits)value,          \
                                   __ATOMIC_SEQ_CST);                                           \
    case ACP_ADD##width:                                                                        \
        return __atomic_fetch_add((uint##width##_bits *)p, (uint##width##_bits)value,           \
                                  __ATOMIC_SEQ_CST);                                            \
    case ACP_XOR##width:                                                                        \
        return __atomic_fetch_xor((uint##width##_bits *)p, (uint##width##_bits)value,           \
                                  __ATOMIC_SEQ_CST);                                            \
    case ACP_OR##width:                                                                         \
        return __atomic_fetch_or((uint##width##_bits *)p, (uint##width##_bits)value,            \
                                 __ATOMIC_SEQ_CST);                                             \
    case ACP_AND##width:                                                                        \
        return __atomic_fetch_and((uint##width##_bits *)p, (uint##width##_bits)value,           \
                                  __ATOMIC_SEQ_CST);

typedef uint32_t uint4_bits;
typedef uint64_t uint8_bits;

static inline uint64_t apply(uint8_t kind, void *p, uint64_t value, uint64_t compare)
{
    switch (kind) {
        ATOMIC_CASES(4)
        ATOMIC_CASES(8)
    }
    return 0;
}

int execute_atomic(acp_lane *lane, uint8_t kind, const struct translation *s, acp_ga_t src,
                   uint64_t value, uint64_t compare, uint64_t *old)
{
    uint32_t width = layout_atomic_width(kind);
    if (unlikely(!translate_enter(s, ROLE_SRC)))
        return lane_fail(lane, ACP_E_UNREGISTERED, src, width);
    *old = apply(kind, s->base + (src - s->low), value, compare);
    translate_leave(s, ROLE_SRC);
    written(lane->engine, s, src, width);
    return ACP_OK;
}

/* Elements from `i` on while they lie in region `s`, at most BATCH of them; returns their number. */
uint64_t execute_atomics(acp_lane *lane, uint8_t kind, const struct translation *s, acp_column ga,
                         acp_column value, acp_column compare, uint64_t *old, uint64_t i,
                         uint64_t count)
{
    uint32_t width = layout_atomic_width(kind);
    uint64_t first = i, end = count - i < BATCH ? count : i + BATCH;
    if (!translate_enter(s, ROLE_SRC))
        return 0;
    for (; i < end; i++) {
        acp_ga_t src = acp_column_at(ga, i);
        if (!translate_covers(s, src, width))
            break;
        uint64_t before = apply(kind, s->base + (src - s->low), acp_column_at(value, i),
                                compare.data ? acp_column_at(compare, i) : 0);
        if (old)
            old[i] = before;
    }
    translate_leave(s, ROLE_SRC);
    if (unlikely(s->peer->shm.doors->watching)) /* a load behind the atomics; each sleeper checks its word */
        doorbell_notify(lane->engine, s->peer, 0, UINT64_MAX / 2);
    return i - first;
}

/* Between memory of this process and registered memory of another of the node. */
static int vm_transfer(acp_lane *lane, bool write, unsigned char *mine,
                       const struct translation *t, acp_ga_t ga, uint64_t size)
{
    struct peer *p = t->peer;
    uint32_t role = write ? ROLE_DST : ROLE_SRC;
    uint64_t done = 0;
    int rc = ACP_OK;
    while (done < size && rc == ACP_OK) {
        uint64_t part = size - done < VM_BYTES ? size - done : VM_BYTES;
        struct iovec here = {mine + done, part};
        struct iovec there = {(void *)(uintptr_t)(t->position + (ga - t->low) + done), part};
        if (p->shm.control->phase == PHASE_CLOSED) /* registered memory may be in other use by now */
            return lane_fail(lane, ACP_E_LOST, ga, size);
        if (!translate_enter(t, role))
            return lane_fail(lane, ACP_E_UNREGISTERED, ga, size);
        ssize_t n = write ? process_vm_writev((pid_t)p->row.pid, &here, 1, &there, 1, 0)
                          : process_vm_readv((pid_t)p->row.pid, &here, 1, &there, 1, 0);
        int error = errno;
        translate_leave(t, role);
        if (n > 0) {
            done += (uint64_t)n;
        } else if (peer_vm_refused(p, error)) {
            rc = ACP_E_BUSY;
        } else if (error == ESRCH) {
            peer_mark_lost(lane->engine, p);
            rc = ACP_E_LOST;
        } else {
            rc = ACP_E_SYSTEM;
        }
        if (rc != ACP_OK) {
            lane_fail(lane, rc, ga, size);
            lane->fault.error = error;
        }
    }
    if (rc == ACP_OK && write)
        written(lane->engine, t, ga, size);
    return rc;
}

/* The same; a sum wanted is that of the bytes here. */
static int vm_summed(acp_lane *lane, bool write, unsigned char *mine, const struct translation *t,
                     acp_ga_t ga, uint64_t size, uint64_t *sum)
{
    int rc = vm_transfer(lane, write, mine, t, ga, size);
    if (rc == ACP_OK && sum)
        *sum = acp_crc32c((uint32_t)*sum, mine, size);
    return rc;
}

static int run_once(acp_lane *lane, const struct message *c, struct place local, uint64_t from,
                    uint64_t size, uint64_t *result)
{
    struct translation d, s;
    enum reach reach_d = REACH_LOAD, reach_s = REACH_LOAD;
    acp_ga_t dst = c->dst + from, src = c->src + from;
    int rc;
    if (layout_is_atomic(c->kind)) {
        rc = translate(lane, c->src, layout_atomic_width(c->kind), &s, &reach_s);
        if (rc == ACP_OK && reach_s != REACH_LOAD)
            rc = lane_fail(lane, ACP_E_BUSY, c->src, layout_atomic_width(c->kind));
        return rc == ACP_OK ? execute_atomic(lane, c->kind, &s, c->src, c->a, c->b, result) : rc;
    }
    bool mine_dst = local.local && !local.is_source, mine_src = local.local && local.is_source;
    if (!mine_dst && (rc = translate(lane, dst, size, &d, &reach_d)) != ACP_OK)
        return rc;
    if (!mine_src && (rc = translate(lane, src, size, &s, &reach_s)) != ACP_OK)
        return rc;
    if (reach_d == REACH_LOAD && reach_s == REACH_LOAD) {
        if (result)
            return summed_loaded(lane, mine_src, local.local + from, mine_src ? &d : &s,
                                 mine_src ? dst : src, size, result);
        if (mine_dst)
            return execute_read(lane, local.local + from, &s, src, size);
        if (mine_src)
            return execute_write(lane, &d, dst, local.local + from, size);
        return execute_copy(lane, &d, dst, &s, src, size);
    }
    if (reach_d == REACH_VM && reach_s == REACH_LOAD) {
        if (mine_src)
            return vm_summed(lane, true, local.local + from, &d, dst, size, result);
        if (!translate_enter(&s, ROLE_SRC))
            return lane_fail(lane, ACP_E_UNREGISTERED, src, size);
        rc = vm_transfer(lane, true, s.base + (src - s.low), &d, dst, size);
        translate_leave(&s, ROLE_SRC);
        return rc;
    }
    if (reach_s == REACH_VM && reach_d == REACH_LOAD) {
        if (mine_dst)
            return vm_summed(lane, false, local.local + from, &s, src, size, result);
        if (!translate_enter(&d, ROLE_DST))
            return lane_fail(lane, ACP_E_UNREGISTERED, dst, size);
        rc = vm_transfer(lane, false, d.base + (dst - d.low), &s, src, size);
        translate_leave(&d, ROLE_DST);
        if (rc == ACP_OK)
            written(lane->engine, &d, dst, size);
        return rc;
    }
    return lane_fail(lane, ACP_E_BUSY, dst, size);
}

int execute_command(acp_lane *lane, const struct message *c, struct place local, uint64_t from,
                    uint64_t size, uint64_t *result)
{
    int rc = ACP_E_UNREGISTERED;
    /* A neighbour's release may change a region between looking it up and entering it. */
    for (int attempt = 0; attempt < 3 && rc == ACP_E_UNREGISTERED; attempt++)
        rc = run_once(lane, c, local, from, size, result);
    return rc;
}

int execute_stream(acp_lane *lane, const struct message *put, const unsigned char *payload, uint64_t size, uint64_t *sum)
{
    struct translation d;
    enum reach reach;
    if (translate(lane, put->dst, size, &d, &reach) != ACP_OK || reach != REACH_LOAD || !translate_enter(&d, ROLE_DST))
        return execute_command(lane, put, (struct place){(unsigned char *)(uintptr_t)payload, true}, 0, size, sum);
    unsigned char *there = d.base + (put->dst - d.low);
    if (sum)
        *sum = acp_crc32c_stream((uint32_t)*sum, there, payload, size);
    else
        stream_copy(there, payload, size);
    translate_leave(&d, ROLE_DST);
    written(lane->engine, &d, put->dst, size);
    return ACP_OK;
}

/* Reads the part of the source at `at` into memory of this process, for a put; *sum, if given, goes
 * on over it. */
int execute_part_read(acp_lane *lane, struct op *op, uint64_t at, uint64_t size, unsigned char *buffer,
                       uint64_t *sum)
{
    if (op->local.local && sum) {
        *sum = acp_crc32c_copy((uint32_t)*sum, buffer, op->local.local + at, size);
        return ACP_OK;
    }
    if (op->local.local) {
        memcpy(buffer, op->local.local + at, size);
        return ACP_OK;
    }
    struct message c = op->command;
    c.src += at;
    return execute_command(lane, &c, (struct place){buffer, false}, 0, size, sum);
}

/* Writes bytes of a get to the part of the destination at `at`. */
int execute_part_write(acp_lane *lane, struct op *op, uint64_t at, uint64_t size,
                        const unsigned char *buffer)
{
    if (op->local.local) {
        memcpy(op->local.local + at, buffer, size);
        return ACP_OK;
    }
    struct message c = op->command;
    c.dst += at;
    return execute_command(lane, &c, (struct place){(unsigned char *)(uintptr_t)buffer, true}, 0,
                           size, NULL);
}
