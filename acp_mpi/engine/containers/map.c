/* Methods of a part of a map. */
#include "containers/map.h"
#include "containers/container.h"
#include "containers/map_bucket.h"
#include "containers/map_find.h"
#include "containers/map_slots.h"
#include "memory/heap.h"
#include "memory/size_class.h"
#include "memory/transaction.h"
#include "memory/transaction_lock.h"

#include <string.h>

static void map_make(struct container *container)
{
    struct map_part *map = (struct map_part *)container;
    for (uint32_t i = 0; i < STRIPES; i++)
        transaction_lock_create(&map->stripes[i].section);
}

static int map_create(struct hold *hold, struct container *container, const uint64_t words[4])
{
    struct map_part *map = (struct map_part *)container;
    int rc = map_slots_shape(&map->shape, words[0], words[1], words[2], words[3]);
    return rc == ACP_OK ? rc : lane_fail(hold->lane, rc, ACP_GA_NULL, words[1]);
}

static int map_clear(struct hold *hold, struct container *container)
{
    struct map_part *map = (struct map_part *)container;
    const struct shape shape = map->shape;
    if (!map_slots_sound(&shape))
        return map_bucket_damaged(hold->lane);
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct hold inner;
        struct stripe *s = &map->stripes[i];
        bool more = true;
        int rc = transaction_enter(&inner, hold->lane, &s->section, hold->heap, HEAP_PATIENCE_NS);
        if (rc != ACP_OK)
            return rc;
        rc = map_slots_clear(&inner, &shape, s);
        while (rc == ACP_OK && more)
            rc = map_slots_sweep(&inner, &shape, s, &more);
        if (rc == ACP_OK && !map_bucket_settled(&inner))
            rc = ACP_E_BUSY;
        transaction_leave(&inner);
        if (rc != ACP_OK)
            return rc;
    }
    return ACP_OK;
}

const struct container_type map_type = {
    .size = sizeof(struct map_part), .make = map_make, .create = map_create, .clear = map_clear};

int map_part_find(acp_lane *lane, const struct acp_call *c, struct part *part)
{
    uint64_t kind = c->b & 0xff;
    if (unlikely(kind != KIND_MAP && kind != KIND_SET && kind != KIND_MULTISET))
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, kind);
    part->map = (struct map_part *)container_find(lane, c, kind, &part->heap);
    if (unlikely(!part->map))
        return lane->fault.status;
    uint64_t at = (uint64_t)((unsigned char *)part->map - part->heap->base);
    if (unlikely(!container_inside(part->heap, at, sizeof *part->map)))
        return container_gone(lane, c);
    part->shape = part->map->shape;
    atomic_thread_fence(memory_order_acquire);
    if (unlikely(!container_lives(&part->map->head, c)))
        return container_gone(lane, c);
    return likely(map_slots_sound(&part->shape)) ? ACP_OK : map_bucket_damaged(lane);
}

int map_part_enter(struct hold *hold, acp_lane *lane, const struct acp_call *c, struct part *part,
                   struct stripe *stripe)
{
    int rc = transaction_enter(hold, lane, &stripe->section, part->heap, lane->patience_ns);
    if (unlikely(rc != ACP_OK))
        return rc;
    if (likely(container_lives(&part->map->head, c)))
        return ACP_OK;
    transaction_leave(hold);
    return container_gone(lane, c);
}

/* Without the lock: the result counts if the table is still the one that was searched. */
static int still(acp_lane *lane, const struct acp_call *c, const struct part *part, int rc)
{
    return rc != ACP_OK || likely(container_lives(&part->map->head, c)) ? rc
                                                                        : container_gone(lane, c);
}

static struct stripe *part_stripe(const struct part *part, uint64_t hash)
{
    return &part->map->stripes[hash % STRIPES];
}

static bool element_fits(const struct shape *shape, const struct element *e, bool valued)
{
    return (shape->key_size == SIZE_ANY || shape->key_size == e->key_size) && e->hash > SLOT_GRAVE &&
           (!valued || shape->value_size == SIZE_ANY || shape->value_size == e->value_size);
}

/* The request of a call, and its element. */
static int request(acp_lane *lane, const struct acp_call *c, const struct part *part, bool valued,
                   struct map_request *r, struct element *e)
{
    const struct heap *h = part->heap;
    uint64_t left = c->in_size - sizeof *r;
    if (unlikely(c->in_size < sizeof *r))
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    memcpy(r, c->in, sizeof *r);
    const unsigned char *key = (const unsigned char *)c->in + sizeof *r;
    if (unlikely(r->box)) {
        r->box = acp_ga_offset(r->box) - h->position;
        if (!part->shape.boxed || r->box % 16 || r->box <= h->first ||
            r->box >= h->end || !map_slots_read_box(h, r->box, e) ||
            heap_block(h, r->box - BLOCK_HEAD)->mark != size_class_mark(h, r->box - BLOCK_HEAD))
            return lane_fail(lane, ACP_E_BLOCK, c->object, 0);
    } else if (likely(r->key_size <= left && (!valued || r->value_size <= left - r->key_size))) {
        *e = (struct element){.key = key, .key_size = r->key_size, .value = key + r->key_size,
                              .value_size = valued ? r->value_size : 0};
    } else {
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    }
    e->hash = r->hash;
    e->box = r->box;
    return likely(element_fits(&part->shape, e, valued)) ? ACP_OK
                                                         : lane_fail(lane, ACP_E_ARGUMENT, c->object, 0);
}

static struct answer asked(struct acp_call *c)
{
    return (struct answer){.out = c->out_room ? c->out : NULL, .room = c->out_room};
}

static void answer_told(struct acp_call *c, const struct answer *answer)
{
    struct map_large large = {answer->stamp, answer->key_size, answer->value_size};
    c->result[0] = answer->found;
    c->out_size = answer->size;
    if (unlikely(answer->found == FOUND_LARGE && c->out_room >= sizeof large)) {
        memcpy(c->out, &large, sizeof large);
        c->out_size = sizeof large;
    }
}

int map_method_find(acp_lane *lane, struct acp_call *c)
{
    struct part part;
    struct map_request r;
    struct element e;
    struct answer answer = asked(c);
    int rc = map_part_find(lane, c, &part);
    if (unlikely(rc != ACP_OK || (rc = request(lane, c, &part, false, &r, &e)) != ACP_OK))
        return rc;
    rc = map_find_element(lane, part.heap, &part.shape, part_stripe(&part, r.hash), &e, &answer,
                          lane->patience_ns);
    answer_told(c, &answer);
    c->result[1] = answer.found ? container_ga(c, part.heap, answer.value_at) : ACP_GA_NULL;
    return still(lane, c, &part, rc);
}

int map_method_piece(acp_lane *lane, struct acp_call *c)
{
    struct part part;
    struct map_request r;
    struct answer answer = asked(c);
    int rc = map_part_find(lane, c, &part);
    if (rc != ACP_OK)
        return rc;
    if (c->in_size < sizeof r || !c->out_room)
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    memcpy(&r, c->in, sizeof r);
    answer.stamp = r.stamp;
    rc = map_find_piece(lane, part.heap, &part.shape, part_stripe(&part, r.hash), r.hash, r.from,
                        &answer, lane->patience_ns);
    answer_told(c, &answer);
    return still(lane, c, &part, rc);
}

/* A change of one element: its stripe, entered. */
struct one {
    struct part part;
    struct map_request request;
    struct element element;
    struct stripe *stripe;
    struct hold hold;
};

static int one_begin(acp_lane *lane, const struct acp_call *c, bool valued, struct one *one)
{
    struct part *part = &one->part;
    int rc = map_part_find(lane, c, part);
    if (unlikely(rc != ACP_OK || (rc = request(lane, c, part, valued, &one->request,
                                               &one->element)) != ACP_OK))
        return rc;
    one->stripe = part_stripe(part, one->request.hash);
    map_slots_fetch(part->heap, &part->shape, one->stripe, one->request.hash);
    return map_part_enter(&one->hold, lane, c, part, one->stripe);
}

int map_method_put(acp_lane *lane, struct acp_call *c)
{
    struct one one;
    struct answer answer = asked(c);
    int rc = one_begin(lane, c, true, &one);
    if (unlikely(rc != ACP_OK))
        return rc;
    rc = map_bucket_put(&one.hold, &one.part.shape, one.stripe, &one.element,
                        (enum put_how)(c->b >> 8), &answer);
    transaction_leave(&one.hold);
    answer_told(c, &answer);
    c->result[1] = answer.adopted;
    return rc;
}

int map_method_erase(acp_lane *lane, struct acp_call *c)
{
    struct one one;
    struct answer answer = asked(c);
    int rc = one_begin(lane, c, false, &one);
    if (unlikely(rc != ACP_OK))
        return rc;
    rc = map_bucket_erase(&one.hold, &one.part.shape, one.stripe, &one.element, one.request.stamp,
                          &answer);
    transaction_leave(&one.hold);
    answer_told(c, &answer);
    return rc;
}

int map_method_scan(acp_lane *lane, struct acp_call *c)
{
    struct part part;
    struct map_request r;
    uint64_t stripe = c->b >> 8, size, count, next, elements = 0;
    int rc = map_part_find(lane, c, &part);
    if (rc != ACP_OK)
        return rc;
    if (c->in_size < sizeof r)
        return lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    memcpy(&r, c->in, sizeof r);
    while (stripe < STRIPES && c->out_room - c->out_size >= c->out_room / 4) {
        rc = map_find_scan(lane, part.heap, &part.shape, &part.map->stripes[stripe], r.from,
                           (unsigned char *)c->out + c->out_size, c->out_room - c->out_size, &size,
                           &count, &next, lane->patience_ns);
        if (rc != ACP_OK)
            return rc;
        c->out_size += size;
        elements += count;
        if (next && next == r.from)
            break;
        r.from = next;
        stripe += !next;
    }
    c->result[0] = r.from;
    c->result[1] = stripe | elements << 8;
    return still(lane, c, &part, ACP_OK);
}

int map_method_look(acp_lane *lane, struct acp_call *c)
{
    struct part part;
    struct map_statistics sum = {0};
    uint64_t most = 0;
    int rc = map_part_find(lane, c, &part);
    if (rc != ACP_OK)
        return rc;
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct amounts a;
        rc = map_find_count(lane, part.heap, &part.map->stripes[i], &a, lane->patience_ns);
        if (rc != ACP_OK)
            return rc;
        sum.count += a.count;
        if (__builtin_add_overflow(sum.total, a.total, &sum.total))
            most = UINT64_MAX;
        sum.graves += a.graves;
        sum.places += a.places;
        sum.bytes += 8 * a.places * part.shape.unit;
    }
    sum.total |= most;
    c->result[0] = sum.count;
    c->result[1] = sum.total;
    if (c->out_room >= sizeof sum) {
        memcpy(c->out, &sum, sizeof sum);
        c->out_size = sizeof sum;
    }
    return still(lane, c, &part, ACP_OK);
}

int map_method_clear(acp_lane *lane, struct acp_call *c)
{
    struct part part;
    struct hold hold;
    bool again = c->b >> 8, more;
    int rc = map_part_find(lane, c, &part);
    for (uint32_t i = 0; rc == ACP_OK && i < STRIPES; i++) {
        struct stripe *s = &part.map->stripes[i];
        rc = map_part_enter(&hold, lane, c, &part, s);
        if (rc != ACP_OK)
            break;
        rc = again ? ACP_OK : map_slots_clear(&hold, &part.shape, s);
        if (rc == ACP_OK)
            rc = map_slots_sweep(&hold, &part.shape, s, &more);
        transaction_leave(&hold);
        c->result[0] |= rc == ACP_OK && more;
    }
    return rc;
}

int map_method_reserve(acp_lane *lane, struct acp_call *c)
{
    struct part part;
    struct hold hold;
    uint64_t count;
    int rc = map_part_find(lane, c, &part);
    if (rc == ACP_OK && c->in_size != sizeof count)
        rc = lane_fail(lane, ACP_E_ARGUMENT, c->object, c->in_size);
    for (uint32_t i = 0; rc == ACP_OK && i < STRIPES; i++) {
        struct stripe *s = &part.map->stripes[i];
        memcpy(&count, c->in, sizeof count);
        rc = map_part_enter(&hold, lane, c, &part, s);
        if (rc != ACP_OK)
            break;
        rc = map_slots_reserve(&hold, &part.shape, s, count);
        transaction_leave(&hold);
    }
    return rc;
}
