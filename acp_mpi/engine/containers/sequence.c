/* The methods of vectors and deques. */
#include "containers/sequence.h"
#include "base/linux.h"
#include "containers/container.h"
#include "containers/sequence_rows.h"
#include "containers/sequence_splice.h"
#include "core/lane.h"
#include "core/method.h"
#include "memory/heap.h"
#include "memory/size_class.h"
#include "memory/transaction.h"

#include <string.h>

#define LOOKS 100u /* at a sequence that changes, before its lock is taken */
#if defined(__SANITIZE_THREAD__) /* it cannot know that a torn read is thrown away */
#define READS 0u
#else
#define READS LOOKS
#endif

static int sequence_create(struct hold *hold, struct container *container, const uint64_t words[4])
{
    transaction_set(hold, &((struct sequence *)container)->row.width, words[0]);
    return ACP_OK;
}

static int sequence_clear(struct hold *hold, struct container *container)
{
    struct row_of *r = &((struct sequence *)container)->row;
    transaction_begin(hold);
    if (r->data)
        transaction_drop(hold, r->data);
    transaction_set(hold, &r->data, 0);
    transaction_set(hold, &r->room, 0);
    transaction_set(hold, &r->first, 0);
    transaction_set(hold, &r->size, 0);
    transaction_commit(hold);
    return ACP_OK;
}

const struct container_type sequence_type = {
    .size = sizeof(struct sequence), .create = sequence_create, .clear = sequence_clear};

static bool is_sequence(const struct container *k)
{
    return k->kind == KIND_VECTOR || k->kind == KIND_DEQUE;
}

static int enter_sequence(struct hold *hold, acp_lane *lane, const struct acp_call *c,
                          struct sequence **s)
{
    struct container *container;
    int rc = container_enter(hold, lane, c, KIND_ANY, &container);
    if (unlikely(rc != ACP_OK))
        return rc;
    *s = (struct sequence *)container;
    rc = likely(is_sequence(container)) ? sequence_rows_check(lane, hold->heap, &(*s)->row)
                                        : container_gone(lane, c);
    if (unlikely(rc != ACP_OK))
        transaction_leave(hold);
    return rc;
}

/* The row as read without the lock; false: it has changed meanwhile. */
static bool row_glance(const struct sequence *s, struct row_of *r, uint64_t *looked)
{
    *looked = transaction_version(&s->head.section);
    r->data = __atomic_load_n(&s->row.data, __ATOMIC_RELAXED);
    r->room = __atomic_load_n(&s->row.room, __ATOMIC_RELAXED);
    r->first = __atomic_load_n(&s->row.first, __ATOMIC_RELAXED);
    r->size = __atomic_load_n(&s->row.size, __ATOMIC_RELAXED);
    r->width = __atomic_load_n(&s->row.width, __ATOMIC_RELAXED);
    return transaction_unchanged(&s->head.section, *looked);
}

static int lead(const struct heap *h, const struct row_of *r, struct acp_call *c)
{
    struct sequence_look look = {.size = r->size, .room = r->room, .width = r->width,
                                 .bytes = r->room * r->width};
    if (r->room && sequence_rows_straight(r, 0, r->size))
        look.data = container_ga(c, h, sequence_rows_place(r, 0));
    c->result[0] = r->size;
    if (c->out_room >= sizeof look) {
        memcpy(c->out, &look, sizeof look);
        c->out_size = sizeof look;
    }
    return ACP_OK;
}

/* Copies the elements if they fit; a copy into a block is left to the caller. */
static int row_bring(const struct heap *h, const struct row_of *r, struct acp_call *c)
{
    struct stretch p = {.count = 1};
    int64_t at = (int64_t)c->b;
    uint64_t bytes;
    if (c->in_size)
        memcpy(&p, c->in, sizeof p);
    bool there = sequence_rows_locate(r, &at, &p.count, p.flags & SPLICE_CLIPS);
    c->result[0] = there ? p.count : 0;
    c->result[1] = (uint64_t)at;
    c->out_size = 0;
    bytes = c->result[0] * r->width;
    if (bytes > c->out_room)
        return ACP_OK;
    sequence_rows_copy(h, r, (uint64_t)at, c->result[0], c->out);
    c->out_size = bytes;
    return ACP_OK;
}

static int block_of(acp_lane *lane, struct heap *h, const struct row_of *r, uint64_t at,
                    uint64_t count, uint64_t *block)
{
    int rc = heap_take(lane, h, count * r->width, block, HEAP_PATIENCE_NS);
    if (rc == ACP_OK)
        sequence_rows_copy(h, r, at, count, h->base + *block);
    return rc;
}

typedef int (*reader)(const struct heap *, const struct row_of *, struct acp_call *);

static int read_by(acp_lane *lane, struct acp_call *c, reader read)
{
    struct heap *h;
    struct row_of r;
    struct hold hold;
    uint64_t looked;
    struct sequence *s = (struct sequence *)container_find(lane, c, KIND_ANY, &h);
    if (unlikely(!s || !is_sequence(&s->head)))
        return s ? container_gone(lane, c) : lane->fault.status;
    for (uint32_t look = READS; look; look--) {
        if (unlikely(!row_glance(s, &r, &looked))) {
            linux_cpu_relax();
            continue;
        }
        int rc = sequence_rows_check(lane, h, &r);
        if (likely(rc == ACP_OK))
            rc = read(h, &r, c);
        if (likely(transaction_unchanged(&s->head.section, looked)))
            return likely(container_lives(&s->head, c)) ? rc : container_gone(lane, c);
    }
    int rc = enter_sequence(&hold, lane, c, &s);
    if (rc == ACP_OK) {
        rc = read(h, &s->row, c);
        transaction_leave(&hold);
    }
    return rc;
}

int sequence_method_look(acp_lane *lane, struct acp_call *c)
{
    return read_by(lane, c, lead);
}

int sequence_method_read(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct sequence *s;
    struct stretch p = {.count = 1};
    uint64_t block = 0;
    if (unlikely(c->in_size && c->in_size < sizeof p))
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    if (c->in_size)
        memcpy(&p, c->in, sizeof p);
    if (likely(!(p.flags & SPLICE_BLOCK)))
        return read_by(lane, c, row_bring);
    int rc = enter_sequence(&hold, lane, c, &s);
    if (rc != ACP_OK)
        return rc;
    row_bring(hold.heap, &s->row, c);
    rc = block_of(lane, hold.heap, &s->row, c->result[1], c->result[0], &block);
    c->result[1] = block ? container_ga(c, hold.heap, block) : 0;
    transaction_leave(&hold);
    return rc;
}

int sequence_method_reserve(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct sequence *s;
    int rc = enter_sequence(&hold, lane, c, &s);
    if (rc != ACP_OK)
        return rc;
    if (c->b != RESERVE_FITS)
        rc = sequence_splice_reserve(&hold, s, c->b);
    else
        rc = s->row.size ? sequence_splice_fit(&hold, s) : sequence_clear(&hold, &s->head);
    transaction_leave(&hold);
    return rc;
}

/* Where the new elements are; false: not as many as there should be. */
static bool source_of(const struct heap *h, const struct splice *p, const struct acp_call *c,
                      uint64_t width, struct source *from)
{
    uint64_t bytes, came = c->in_size - sizeof *p, count = p->flags & SPLICE_REPEATS ? 1 : p->insert;
    *from = (struct source){.bytes = (const unsigned char *)c->in + sizeof *p,
                            .repeats = p->flags & SPLICE_REPEATS};
    if (unlikely(p->block)) {
        uint64_t at = acp_ga_offset(p->block) - h->position - BLOCK_HEAD;
        if (acp_ga_rank(p->block) != acp_ga_rank(c->object) || at % 16 ||
            !container_inside(h, at, BLOCK_LEAST) || heap_block(h, at)->mark != size_class_mark(h, at))
            return false;
        from->block = at + BLOCK_HEAD;
        from->bytes = h->base + from->block;
        came = heap_block_size(h, at) - BLOCK_HEAD;
    }
    return !__builtin_mul_overflow(count, width, &bytes) && bytes <= came;
}

/* Copies the elements that are about to go out: into the caller's memory, or a block. */
static int bring_out(struct hold *hold, const struct sequence *s, const struct splice *p,
                     struct acp_call *c, uint64_t *block)
{
    uint64_t bytes = p->erase * s->row.width;
    if (p->flags & SPLICE_BLOCK)
        return block_of(hold->lane, hold->heap, &s->row, (uint64_t)p->at, p->erase, block);
    if (bytes > c->out_room)
        return lane_fail(hold->lane, ACP_E_ARGUMENT, c->object, bytes);
    sequence_rows_copy(hold->heap, &s->row, (uint64_t)p->at, p->erase, c->out);
    c->out_size = bytes;
    return ACP_OK;
}

static int splice(struct hold *hold, struct sequence *s, struct splice *p, struct acp_call *c)
{
    struct source from;
    uint64_t block = 0;
    int rc = ACP_OK;
    if (unlikely(p->flags & SPLICE_RESIZES)) {
        uint64_t kept = p->insert < s->row.size ? p->insert : s->row.size;
        p->at = (int64_t)kept;
        p->erase = s->row.size - kept;
        p->insert -= kept;
    }
    if (unlikely(!sequence_rows_locate(&s->row, &p->at, &p->erase, p->flags & SPLICE_CLIPS)))
        return ACP_OK;
    if (unlikely(!source_of(hold->heap, p, c, s->row.width, &from)))
        return lane_fail(hold->lane, ACP_E_ARGUMENT, c->object, p->insert);
    if (p->flags & SPLICE_BRINGS)
        rc = bring_out(hold, s, p, c, &block);
    if (likely(rc == ACP_OK))
        rc = sequence_splice(hold, s, p, &from);
    if (unlikely(rc != ACP_OK && block)) {
        acp_fault why = hold->lane->fault;
        transaction_begin(hold);
        transaction_drop(hold, block); /* while the heap is busy the next holder gives it back */
        transaction_commit(hold);
        hold->lane->fault = why;
        block = 0;
    }
    c->result[0] = rc == ACP_OK;
    c->result[1] = block ? container_ga(c, hold->heap, block) : (uint64_t)p->at;
    return rc;
}

int sequence_method_splice(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct sequence *s;
    struct splice p;
    if (unlikely(c->in_size < sizeof p))
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    memcpy(&p, c->in, sizeof p);
    int rc = enter_sequence(&hold, lane, c, &s);
    if (unlikely(rc != ACP_OK))
        return rc;
    rc = splice(&hold, s, &p, c);
    transaction_leave(&hold);
    return rc;
}
