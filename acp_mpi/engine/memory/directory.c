/* The directory of a rank: the living regions of its offset space. Its owner changes it, any process of the node reads
 * it; a version counter tells a reader to read again. */
#include "memory/directory.h"
#include "base/linux.h"
#include "core/engine_state.h"

#include <sched.h>
#include <stdlib.h>

#define CHANGE_NS ((uint64_t)2000000000) /* a living owner's change is over by then */

/* Readers get the same bound, if the count was overwritten. */
static uint32_t own_count(const acp_engine *e)
{
    uint32_t count = atomic_load_explicit(&e->control->directory_count, memory_order_relaxed);
    return count < ENTRIES_MAX ? count : ENTRIES_MAX - 1;
}

static uint32_t order_lower_bound(acp_engine *e, uint64_t offset)
{
    uint32_t low = 0, high = own_count(e);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (e->memory.entries[e->memory.order[middle] & (ENTRIES_MAX - 1)].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void order_begin(acp_engine *e)
{
    atomic_fetch_add(&e->control->directory_version, 1);
    atomic_thread_fence(memory_order_seq_cst);
}

static void order_end(acp_engine *e)
{
    atomic_fetch_add_explicit(&e->control->directory_version, 1, memory_order_release);
}

/* Between order_begin and order_end. */
static void order_move(acp_engine *e, uint32_t to, uint32_t from)
{
    uint32_t slot = atomic_load_explicit(&e->memory.order[from], memory_order_relaxed);
    atomic_store_explicit(&e->memory.order[to], slot, memory_order_relaxed);
}

static bool registered(const struct region *region)
{
    return region->kind == SEGMENT_PRIVATE || region->kind == SEGMENT_ALIAS || region->kind == SEGMENT_DEVICE;
}

static void order_insert(acp_engine *e, uint32_t slot, const struct region *region)
{
    struct memory_state *m = &e->memory;
    struct entry *entry = &e->memory.entries[slot];
    entry->kind = (uint16_t)region->kind;
    entry->color = (uint16_t)region->color;
    entry->offset = region->offset;
    entry->length = region->length;
    entry->target = region->target;
    entry->pass = region->pass;
    entry->serial = region->serial;
    uint32_t at = order_lower_bound(e, region->offset), count = own_count(e);
    for (uint32_t i = count; i > at; i--)
        order_move(e, i, i - 1);
    e->memory.order[at] = slot;
    e->control->directory_count = count + 1;
    atomic_fetch_add_explicit(&entry->generation, 1, memory_order_release);
    if (region->kind == SEGMENT_PRIVATE)
        m->registered[slot] = (struct range){region->target, region->target + region->length};
    m->live_segments++;
    m->live_private += registered(region);
    m->used += region->kind == SEGMENT_MEMORY ? layout_page_up(region->length) : 0;
}

static void order_erase(acp_engine *e, const struct region *region)
{
    struct memory_state *m = &e->memory;
    uint32_t at = order_lower_bound(e, region->offset), count = own_count(e);
    for (uint32_t i = at; i + 1 < count; i++)
        order_move(e, i, i + 1);
    e->control->directory_count = count - 1;
    m->live_segments--;
    m->live_private -= registered(region);
    m->used -= region->kind == SEGMENT_MEMORY ? layout_page_up(region->length) : 0;
}

static bool take_slot(struct memory_state *m, uint32_t *slot)
{
    if (m->free_slot_count)
        *slot = m->free_slots[--m->free_slot_count];
    else if (m->slots_touched < ENTRIES_MAX)
        *slot = m->slots_touched++;
    else
        return false;
    return true;
}

static void give_slot(struct memory_state *m, uint32_t slot)
{
    if (m->free_slot_count == m->free_slot_room) {
        uint32_t room = m->free_slot_room ? m->free_slot_room * 2 : 16;
        uint32_t *grown = realloc(m->free_slots, room * sizeof *grown);
        if (!grown)
            return; /* the slot stays unused */
        m->free_slots = grown;
        m->free_slot_room = room;
    }
    m->free_slots[m->free_slot_count++] = slot;
}

int directory_publish(acp_engine *e, const struct region *region)
{
    uint32_t slot;
    if (!take_slot(&e->memory, &slot))
        return ACP_E_REGIONS;
    order_begin(e);
    order_insert(e, slot, region);
    order_end(e);
    return ACP_OK;
}

/* Ends `old`, and at the same moment publishes `left` and `right` (NULL or empty: none), so that no reader misses
 * them. An operation inside `old` is still inside: its slot is not reused by them. ACP_E_REGIONS: no slots are left
 * for them, and all is as before. */
int directory_replace(acp_engine *e, const struct region *old, const struct region *left,
                      const struct region *right)
{
    uint32_t slot, spare = e->memory.free_slot_count + ENTRIES_MAX - e->memory.slots_touched;
    uint32_t need = (left && left->length) + (right && right->length);
    if (need > spare)
        return ACP_E_REGIONS;
    order_begin(e);
    order_erase(e, old);
    if (left && left->length && take_slot(&e->memory, &slot))
        order_insert(e, slot, left);
    if (right && right->length && take_slot(&e->memory, &slot))
        order_insert(e, slot, right);
    order_end(e);
    atomic_fetch_add(&e->memory.entries[old->slot].generation, 1);
    give_slot(&e->memory, old->slot);
    return ACP_OK;
}

/* The entry at that place of the order, whatever is written there. */
static inline const struct entry *entry_at(const struct control *c, uint32_t at)
{
    uint32_t slot = atomic_load_explicit(&directory_order(c)[at], memory_order_relaxed);
    return &directory_entries(c)[slot & (ENTRIES_MAX - 1)];
}

/* Reads the entry that holds `offset`, from any process's directory. */
int directory_find(const struct control *c, uint64_t offset, struct region *out)
{
    uint64_t start = 0;
    for (uint32_t attempt = 1;; attempt++) {
        if (attempt % 1024 == 0) { /* the owner is preempted in the middle of a change, or dead */
            uint64_t now = linux_now_ns();
            start = start ? start : now;
            if (now - start > CHANGE_NS)
                break;
            sched_yield();
        }
        uint64_t version = atomic_load_explicit(&c->directory_version, memory_order_acquire);
        if (version & 1) {
            linux_cpu_relax();
            continue;
        }
        uint32_t low = 0, high = atomic_load_explicit(&c->directory_count, memory_order_relaxed);
        if (high > ENTRIES_MAX)
            return ACP_E_UNREGISTERED;
        while (low < high) { /* the last entry at or below offset */
            uint32_t middle = (low + high) / 2;
            if (atomic_load_explicit(&entry_at(c, middle)->offset, memory_order_relaxed) <= offset)
                low = middle + 1;
            else
                high = middle;
        }
        bool found = false;
        if (low > 0) {
            const struct entry *entry = entry_at(c, low - 1);
            out->slot = (uint32_t)(entry - directory_entries(c));
            out->generation = atomic_load_explicit(&entry->generation, memory_order_acquire);
            out->offset = entry->offset;
            out->length = entry->length;
            out->target = entry->target;
            out->pass = entry->pass;
            out->serial = entry->serial;
            out->kind = entry->kind;
            out->color = entry->color;
            found = (out->generation & 1) && offset - out->offset < out->length;
        }
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&c->directory_version, memory_order_relaxed) == version)
            return found ? ACP_OK : ACP_E_UNREGISTERED;
    }
    return ACP_E_LOST; /* the owner died while it changed its directory */
}

