/* Which blocks of a heap belong to its containers: each kind names its own. */
#include "inspect/heap_containers.h"
#include "containers/container.h"
#include "containers/container_head.h"
#include "containers/list.h"
#include "containers/map.h"
#include "containers/map_bucket.h"
#include "containers/map_slots.h"
#include "containers/sequence.h"
#include "containers/workspace.h"
#include "inspect/heap_walk.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#define TRIES 8u /* to see a container that does not change */

static void own_section(struct survey_tiles *t, const struct section *s, uint32_t i)
{
    for (uint32_t n = 0; n < SECTION_BLOCKS; n++) {
        heap_containers_own(t, s->fresh[n], i);
        heap_containers_own(t, s->stale[n], i);
    }
}

static bool own_row(struct survey_tiles *t, uint64_t at, uint32_t i)
{
    struct sequence s;
    if (!heap_walk_read(t, at, &s, sizeof s))
        return false;
    heap_containers_own(t, s.row.data, i);
    t->containers[i].elements = s.row.size;
    return true;
}

/* From node to node; no chain is longer than there are blocks. */
static bool own_chain(struct survey_tiles *t, uint64_t at, uint32_t i)
{
    for (uint64_t steps = 0; at && steps <= t->count; steps++) {
        struct {
            struct list_node node;
            struct list_far far;
        } n;
        bool far;
        if (!heap_walk_read(t, at, &n.node, sizeof n.node))
            return false;
        far = list_nameless(n.node.name) == LIST_FAR;
        if (far && !heap_walk_read(t, at, &n, sizeof n))
            return false;
        heap_containers_own(t, at, i);
        if (far && n.far.block && !list_is_address(n.far.block))
            heap_containers_own(t, n.far.block, i);
        at = n.node.next;
    }
    return !at;
}

/* The spare blocks of a list: their former contents mean nothing. */
static bool own_spares(struct survey_tiles *t, uint64_t at, uint32_t i)
{
    for (uint64_t steps = 0; at && steps <= t->count; steps++) {
        struct heap_kept kept;
        if (!heap_walk_read(t, at, &kept, sizeof kept))
            return false;
        heap_containers_own(t, at, i);
        at = kept.next;
    }
    return !at;
}

static bool own_list(struct survey_tiles *t, uint64_t at, uint32_t i)
{
    struct list l;
    if (!heap_walk_read(t, at, &l, sizeof l))
        return false;
    t->containers[i].elements = l.size;
    if (l.job.kind)
        heap_containers_own(t, l.job.block, i);
    return own_chain(t, l.first, i) && own_chain(t, l.dead, i) &&
           own_spares(t, l.spare, i);
}

/* The boxes that slots [from, to) name. */
static bool own_boxes(struct survey_tiles *t, const struct shape *shape, uint64_t slots,
                      uint64_t from, uint64_t to, uint32_t i)
{
    for (uint64_t place = from; place < to; place++) {
        uint64_t slot[2];
        if (!heap_walk_read(t, slots + 8 * place * shape->unit, slot, sizeof slot))
            return false;
        if (slot[0] > SLOT_GRAVE)
            heap_containers_own(t, slot[1], i);
    }
    return true;
}

static bool own_stripe(struct survey_tiles *t, const struct shape *shape, const struct stripe *s,
                       uint32_t i)
{
    struct slots slots;
    own_section(t, &s->section, i);
    heap_containers_own(t, s->slots, i);
    heap_containers_own(t, s->dying, i);
    t->containers[i].elements += shape->counts ? s->total : s->count;
    if (!shape->boxed)
        return true;
    return map_slots_look(&t->heap, shape, s->slots, s->log, &slots) &&
           own_boxes(t, shape, s->slots, 0, slots.places, i) &&
           (!s->dying || own_boxes(t, shape, s->dying, s->dying_at, s->dying_end, i));
}

static bool own_stripes(struct survey_tiles *t, uint64_t at, uint32_t i)
{
    struct map_part map, after;
    t->containers[i].elements = 0;
    bool good = heap_walk_read(t, at, &map, sizeof map) && map.shape.unit <= t->heap.span / 8;
    for (uint32_t n = 0; good && n < STRIPES; n++)
        good = own_stripe(t, &map.shape, &map.stripes[n], i);
    t->there = false;
    if (!good || !heap_walk_read(t, at, &after, sizeof after))
        return false;
    for (uint32_t n = 0; good && n < STRIPES; n++)
        good = transaction_unchanged(&after.stripes[n].section, map.stripes[n].section.version);
    return good;
}

static bool own_bytes(struct survey_tiles *t, uint64_t at, uint32_t i)
{
    struct workspace w;
    if (!heap_walk_read(t, at, &w, sizeof w))
        return false;
    heap_containers_own(t, w.data, i);
    t->containers[i].elements = w.size;
    return true;
}

/* By kind: the blocks of a container besides its head and its note. */
static bool (*const own[KINDS])(struct survey_tiles *t, uint64_t at, uint32_t i) = {
    [KIND_DEQUE] = own_row,       [KIND_LIST] = own_list,   [KIND_MAP] = own_stripes,
    [KIND_MULTISET] = own_stripes, [KIND_SET] = own_stripes, [KIND_VECTOR] = own_row,
    [KIND_WORKSPACE] = own_bytes,
};

static bool own_all(struct survey_tiles *t, uint64_t at, uint32_t i)
{
    struct container before, after;
    uint64_t kind = t->containers[i].kind;
    t->there = false;
    if (!heap_walk_read(t, at, &before, sizeof before))
        return false;
    heap_containers_own(t, at, i);
    heap_containers_own(t, before.note, i);
    own_section(t, &before.section, i);
    bool good = !own[kind] || own[kind](t, at, i);
    t->there = false;
    return good && heap_walk_read(t, at, &after, sizeof after) && after.serial == before.serial &&
           transaction_unchanged(&after.section, before.section.version);
}

void heap_containers_owned(struct survey_tiles *t, uint32_t i)
{
    uint64_t at = t->containers[i].offset - t->heap.position;
    for (uint32_t try = 0; try < TRIES; try++)
        if (own_all(t, at, i))
            return;
    t->whole = false;
}

bool heap_containers_head(struct survey_tiles *t, uint64_t at, uint64_t size, struct container *head)
{
    uint64_t least;
    if (size < BLOCK_HEAD + sizeof *head || !heap_walk_read(t, at + BLOCK_HEAD, head, sizeof *head))
        return false;
    least = container_head_size(head->kind);
    return least && size >= BLOCK_HEAD + least && head->era == t->heap.head->nonce;
}
