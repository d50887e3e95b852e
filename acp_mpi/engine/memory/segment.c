/* Segments, which have addresses: memory that is given out, and memory of the program. Offsets are given out once and
 * reused last, oldest first, so that a stale address is an error until the whole span has been handed out. */
#include "memory/segment.h"
#include "core/engine_state.h"
#include "memory/commit.h"
#include "memory/directory.h"
#include "memory/heap_calls.h"
#include "memory/retire.h"
#include "memory/window_blocks.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

void segment_range_push(struct ranges *list, struct range r)
{
    struct range *last = list->count ? &list->at[list->count - 1] : NULL;
    if (r.low >= r.high)
        return;
    if (last && last->high == r.low) { /* released in order: one hole */
        last->high = r.high;
        return;
    }
    if (last && last->low == r.high) {
        last->low = r.low;
        return;
    }
    if (list->count == list->room) {
        uint32_t more = list->room ? list->room * 2 : 16;
        struct range *grown = realloc(list->at, more * sizeof *grown);
        if (!grown)
            return; /* these offsets are never reused: no harm but space */
        list->at = grown;
        list->room = more;
    }
    list->at[list->count++] = r;
}

/* New offsets that begin a large page; 0: none are left, or pages are ordinary. */
static uint64_t take_aligned(struct memory_state *m, uint64_t size, uint64_t large)
{
    uint64_t offset = large ? (m->bump + large - 1) & ~(large - 1) : 0;
    if (!large || offset > m->span || size > m->span - offset)
        return 0;
    segment_range_push(&m->free, (struct range){m->bump, offset});
    m->bump = offset + size;
    return offset;
}

/* Offsets for `size` bytes: new ones while there are any, then the oldest hole that fits. */
static uint64_t take_offsets(struct memory_state *m, uint64_t size, uint64_t large)
{
    uint64_t aligned = take_aligned(m, size, large);
    if (aligned)
        return aligned;
    if (size <= m->span - m->bump) {
        uint64_t offset = m->bump;
        m->bump += size;
        return offset;
    }
    for (uint32_t i = 0; i < m->free.count; i++) {
        struct range *r = &m->free.at[i];
        if (r->high - r->low < size)
            continue;
        uint64_t offset = r->low;
        r->low += size;
        if (r->low == r->high) {
            memmove(r, r + 1, (m->free.count - i - 1) * sizeof *r);
            m->free.count--;
        }
        return offset;
    }
    return 0;
}

static bool is_tight(acp_engine *e, uint64_t more)
{
    return e->memory.committed + commit_heap_size(e) + more > e->memory.limit;
}

/* Publishes committed memory. With the space lock held. */
static int memory_publish(acp_engine *e, uint64_t offset, uint64_t size, uint32_t color, acp_fault *fault)
{
    struct region region = {.offset = offset, .length = size ? size : 1, .color = color,
                            .kind = SEGMENT_MEMORY};
    int rc = directory_publish(e, &region);
    if (rc != ACP_OK) {
        retire_memory(e, offset, layout_page_up(region.length));
        fault->high = ENTRIES_MAX;
    }
    return rc;
}

static int memory_result(acp_lane *lane, int rc, uint64_t offset, uint32_t color, acp_ga_t *ga, void **address)
{
    if (rc == ACP_OK) {
        *ga = acp_ga(acp_rank(lane->engine), color, offset);
        *address = lane->engine->memory.base + offset;
    }
    return lane->fault.status = rc;
}

int acp_memory_alloc(acp_lane *lane, uint64_t size, uint32_t color, acp_ga_t *ga, void **address)
{
    acp_engine *e = lane->engine;
    struct memory_state *m = &e->memory;
    uint64_t whole = layout_page_up(size ? size : 1);
    if (color >= ACP_COLORS)
        return lane_fail(lane, ACP_E_ARGUMENT, 0, size);
    pthread_mutex_lock(&e->space);
    bool possible = size <= m->limit;
    if (possible && is_tight(e, whole)) {
        pthread_mutex_unlock(&e->space);
        heap_calls_trim(lane);
        pthread_mutex_lock(&e->space);
    }
    lane->fault = (acp_fault){.size = size, .rank = acp_rank(e), .high = m->limit};
    if (possible && is_tight(e, whole) && m->unpunched_bytes)
        retire_punch(e);
    uint64_t offset = possible ? take_offsets(m, whole + GUARD_BYTES, commit_large_page(e, whole)) : 0;
    int rc = offset ? ACP_OK : ACP_E_FULL;
    if (rc == ACP_OK)
        rc = commit_memory(e, offset, whole, &lane->fault);
    if (rc == ACP_OK)
        rc = memory_publish(e, offset, size, color, &lane->fault);
    else if (offset)
        segment_range_push(&m->free, (struct range){offset, offset + whole + GUARD_BYTES});
    pthread_mutex_unlock(&e->space);
    return memory_result(lane, rc, offset, color, ga, address);
}

bool acp_window_keeps_arrays(const acp_engine *e)
{
    return e->config.window_committed || e->config.path == ACP_PATH_WINDOW;
}

/* Offsets of the array part with memory: *used of their bytes must be made zero. With the space lock held. */
static int window_take(acp_engine *e, uint64_t size, uint64_t *offset, uint64_t *used, acp_fault *fault)
{
    struct memory_state *m = &e->memory;
    uint64_t whole = layout_page_up(size ? size : 1);
    *offset = size <= m->window.size ? window_blocks_take(m, whole + GUARD_BYTES, used) : 0;
    if (!*offset && size <= m->window.size && m->unpunched_bytes) {
        retire_punch(e);
        *offset = window_blocks_take(m, whole + GUARD_BYTES, used);
    }
    if (!*offset) {
        fault->low = 1;
        fault->high = window_blocks_largest(m);
        return ACP_E_FULL;
    }
    *used = *used < whole ? *used : whole;
    if (e->config.window_committed)
        return ACP_OK;
    *used = 0; /* holes were punched where arrays have been */
    int rc = commit_memory(e, *offset, whole, fault);
    if (rc != ACP_OK)
        window_blocks_give(m, (struct range){*offset, *offset + whole + GUARD_BYTES});
    return rc;
}

int acp_window_alloc(acp_lane *lane, uint64_t size, uint32_t color, acp_ga_t *ga, void **address)
{
    acp_engine *e = lane->engine;
    uint64_t offset = 0, used = 0;
    if (color >= ACP_COLORS)
        return lane_fail(lane, ACP_E_ARGUMENT, 0, size);
    lane->fault = (acp_fault){.size = size, .rank = acp_rank(e)};
    pthread_mutex_lock(&e->space);
    int rc = window_take(e, size, &offset, &used, &lane->fault);
    pthread_mutex_unlock(&e->space);
    if (rc == ACP_OK) {
        memset(e->memory.base + offset, 0, used);
        pthread_mutex_lock(&e->space);
        rc = memory_publish(e, offset, size, color, &lane->fault);
        pthread_mutex_unlock(&e->space);
    }
    return memory_result(lane, rc, offset, color, ga, address);
}

int acp_segment_register(acp_lane *lane, void *address, uint64_t size, uint32_t color,
                         acp_ga_t *ga)
{
    acp_engine *e = lane->engine;
    struct memory_state *m = &e->memory;
    uint64_t virtual = (uint64_t)(uintptr_t)address, base = (uint64_t)(uintptr_t)m->base;
    uint64_t into_page = virtual & (PAGE - 1); /* so that alignment shows in the address */
    lane->fault = (acp_fault){.size = size, .rank = acp_rank(e)};
    if (color >= ACP_COLORS || !size || size > m->span)
        return lane->fault.status = ACP_E_ARGUMENT;
    struct region whole;
    pthread_mutex_lock(&e->space);
    /* Memory counts as any other once its address has died in a reset. */
    bool global = virtual >= base && virtual - base < m->span &&
                  directory_find(e->control, virtual - base, &whole) == ACP_OK &&
                  size <= whole.offset + whole.length - (virtual - base);
    if (!m->registered) /* unused entries take no memory */
        m->registered = calloc(ENTRIES_MAX, sizeof *m->registered);
    uint64_t offset = m->registered ? take_offsets(m, layout_page_up(into_page + size) + GUARD_BYTES, 0) : 0;
    int rc = offset ? ACP_OK : m->registered ? ACP_E_FULL : ACP_E_SYSTEM;
    if (rc == ACP_OK) {
        struct region region = {.offset = offset + into_page, .length = size, .color = color,
                                .kind = global ? SEGMENT_ALIAS : SEGMENT_PRIVATE,
                                .target = global ? virtual - base : virtual};
        rc = directory_publish(e, &region);
    }
    if (rc == ACP_E_REGIONS) {
        lane->fault.high = ENTRIES_MAX;
        segment_range_push(&m->free, (struct range){offset, offset + layout_page_up(into_page + size) + GUARD_BYTES});
    }
    pthread_mutex_unlock(&e->space);
    if (rc == ACP_OK)
        *ga = acp_ga(acp_rank(e), color, offset + into_page);
    return lane->fault.status = rc;
}

int segment_publish(acp_lane *lane, struct region *region, acp_ga_t *ga)
{
    acp_engine *e = lane->engine;
    struct memory_state *m = &e->memory;
    uint64_t room = layout_page_up(region->length) + GUARD_BYTES;
    lane->fault = (acp_fault){.size = region->length, .rank = acp_rank(e), .high = ENTRIES_MAX};
    pthread_mutex_lock(&e->space);
    region->offset = region->length < m->span ? take_offsets(m, room, 0) : 0;
    int rc = region->offset ? directory_publish(e, region) : ACP_E_FULL;
    if (rc != ACP_OK && region->offset)
        segment_range_push(&m->free, (struct range){region->offset, region->offset + room});
    pthread_mutex_unlock(&e->space);
    *ga = acp_ga(acp_rank(e), region->color, region->offset);
    return lane->fault.status = rc;
}

acp_ga_t acp_query_ga(acp_engine *e, const void *address, uint64_t size)
{
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)e->memory.base);
    struct region region;
    if ((uintptr_t)address < (uintptr_t)e->memory.base || offset >= e->memory.span)
        return ACP_GA_NULL;
    if (directory_find(e->control, offset, &region) != ACP_OK ||
        (region.kind != SEGMENT_MEMORY && region.kind != SEGMENT_HEAP) ||
        size > region.offset + region.length - offset)
        return ACP_GA_NULL;
    return acp_ga(acp_rank(e), region.color, offset);
}

acp_ga_t acp_starter(acp_engine *e, uint32_t rank)
{
    (void)e;
    return acp_ga(rank, 0, STARTER_OFFSET);
}

acp_ga_t acp_post(acp_engine *e, uint32_t rank)
{
    (void)e;
    return acp_ga(rank, 0, POST_OFFSET);
}

uint64_t *acp_late_notes(acp_engine *e)
{
    return (uint64_t *)(void *)(e->memory.base + LATE_OFFSET);
}
