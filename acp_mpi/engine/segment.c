/* The memory of this rank: one sparse sealed file whose offsets are the offsets of its
 * addresses, and the directory that says what is where.
 *
 * Offsets are given out once and reused last, oldest first, so that a stale address is an
 * error until the whole span has been handed out. */
#include "blocks.h"
#include "heap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>


void range_push(struct range **list, uint32_t *count, uint32_t *room, struct range r)
{
    if (r.low >= r.high)
        return;
    if (*count && (*list)[*count - 1].high == r.low) { /* released in order: one hole */
        (*list)[*count - 1].high = r.high;
        return;
    }
    if (*count && (*list)[*count - 1].low == r.high) {
        (*list)[*count - 1].low = r.low;
        return;
    }
    if (*count == *room) {
        uint32_t more = *room ? *room * 2 : 16;
        struct range *grown = realloc(*list, more * sizeof **list);
        if (!grown)
            return; /* these offsets are never reused: no harm but space */
        *list = grown;
        *room = more;
    }
    (*list)[(*count)++] = r;
}

/* Offsets for `size` bytes: new ones while there are any, then the oldest hole that fits. */
static uint64_t take_offsets(struct memory *m, uint64_t size)
{
    if (size <= m->span - m->bump) {
        uint64_t offset = m->bump;
        m->bump += size;
        return offset;
    }
    for (uint32_t i = 0; i < m->free_count; i++) {
        struct range *r = &m->free[i];
        if (r->high - r->low < size)
            continue;
        uint64_t offset = r->low;
        r->low += size;
        if (r->low == r->high) {
            memmove(r, r + 1, (m->free_count - i - 1) * sizeof *r);
            m->free_count--;
        }
        return offset;
    }
    return 0;
}

/* The window part begins with starter memory and has its offsets for itself. What is
 * committed is so for life: of a small limit no more than half is. */
static void window_reserve(acp_engine *e, uint64_t starter_end)
{
    struct memory *m = &e->memory;
    uint64_t most = e->config.window_committed
                        ? starter_end - STARTER_OFFSET + (m->limit - m->committed) / 2
                        : m->limit;
    uint64_t size = e->config.window_size;
    if (size > most)
        size = most;
    if (size > m->span / 4)
        size = m->span / 4;
    size &= ~(PAGE - 1);
    uint64_t end = STARTER_OFFSET + size;
    if (e->config.window_committed && end > starter_end &&
        (m->window_fault.status = memory_commit(e, starter_end, end - starter_end,
                                         &m->window_fault)) != ACP_OK) {
        m->window_fault.size = size;
        return;
    }
    m->window_size = size;
    struct region probe = {.offset = starter_end + GUARD_BYTES, .length = PROBE_SIZE,
                           .kind = SEGMENT_MEMORY};
    if (e->config.window_committed && probe.offset + PROBE_SIZE <= end &&
        directory_publish(e, &probe) == ACP_OK)
        m->probe = probe.offset - STARTER_OFFSET;
}

/* Behind starter memory, and so in the window part as far as that goes: the heap, as large as the
 * limit, but half of all offsets are for arrays. Without room for one granule there is none. */
static int heap_reserve(acp_engine *e, uint64_t position, acp_fault *fault)
{
    struct memory *m = &e->memory;
    uint64_t window_end = STARTER_OFFSET + m->window_size, span = (m->span - position) / 2;
    uint64_t pinned_end = e->config.window_committed && window_end > position ? window_end
                                                                              : position;
    if (span > m->limit)
        span = m->limit;
    span &= ~(PAGE - 1);
    uint64_t head = heap_head_size(span);
    m->bump = position > window_end ? position : window_end + GUARD_BYTES;
    if (span < head + GRANULE)
        return ACP_OK;
    uint64_t ready = pinned_end < position + head ? pinned_end : position + head;
    int rc = ready < position + head ? memory_commit(e, ready, position + head - ready, fault) : ACP_OK;
    if (rc != ACP_OK)
        return rc;
    if (position + span + GUARD_BYTES > m->bump)
        m->bump = position + span + GUARD_BYTES;
    return heap_found(e, position, span, pinned_end);
}

int acp_window_own(const acp_engine *e, acp_window_part *part, acp_fault *fault)
{
    const struct memory *m = &e->memory;
    uint64_t begin, end = STARTER_OFFSET + m->window_size;
    heap_range(e, &begin, &end);
    *part = (acp_window_part){.base = m->base + STARTER_OFFSET, .size = m->window_size,
                              .probe = m->probe, .heap_begin = begin - STARTER_OFFSET,
                              .heap_end = end - STARTER_OFFSET};
    *fault = m->window_fault;
    return fault->status;
}

int memory_create(acp_engine *e, acp_fault *fault)
{
    struct memory *m = &e->memory;
    uint64_t total = memory_total();
    m->limit = e->config.memory_limit;
    m->starter_size = page_up(e->config.starter_size);
    if (m->limit > total || m->starter_size > m->limit) {
        fault->size = m->limit > total ? m->limit : e->config.starter_size;
        fault->high = m->limit > total ? total : m->limit;
        return ACP_E_FULL;
    }
    m->span = ACP_OFFSET_SPAN;
    if (e->config.span && e->config.span < m->span)
        m->span = (e->config.span & ~(PAGE - 1));
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) {
        uint64_t share = (uint64_t)space.rlim_cur / 4 & ~(PAGE - 1);
        if (share < m->span)
            m->span = share;
    }
    m->fd = memfd_create("acp_mpi", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (m->fd < 0 || ftruncate(m->fd, (off_t)m->span) ||
        fcntl(m->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
        fault->error = errno;
        return ACP_E_SYSTEM;
    }
    m->base = mmap(NULL, m->span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, m->fd, 0);
    if (m->base == MAP_FAILED) {
        m->base = NULL;
        fault->error = errno;
        return ACP_E_SYSTEM;
    }
    e->control = (struct control *)(void *)m->base;
    e->doors = (struct doors *)(void *)(m->base + DOORS_OFFSET);
    e->order = (_Atomic uint32_t *)(void *)(m->base + ORDER_OFFSET);
    e->entries = (struct entry *)(void *)(m->base + ENTRIES_OFFSET);
    if (m->span < STARTER_OFFSET + m->starter_size + 4 * GUARD_BYTES) {
        fault->size = m->span;
        return ACP_E_FULL;
    }
    struct region post = {.offset = POST_OFFSET, .length = 64, .kind = SEGMENT_MEMORY};
    struct region starter = {.offset = STARTER_OFFSET, .length = e->config.starter_size,
                             .kind = SEGMENT_MEMORY};
    uint64_t end = STARTER_OFFSET + m->starter_size;
    int rc = memory_commit(e, POST_OFFSET, end - POST_OFFSET, fault);
    if (rc == ACP_OK)
        window_reserve(e, end);
    if (rc == ACP_OK)
        rc = directory_publish(e, &post);
    if (rc == ACP_OK && m->starter_size)
        rc = directory_publish(e, &starter);
    if (rc == ACP_OK)
        rc = heap_reserve(e, end + 2 * GUARD_BYTES, fault);
    return rc;
}

static bool is_tight(acp_engine *e, uint64_t more)
{
    return e->memory.committed + heap_committed(e) + more > e->memory.limit;
}

int acp_memory_alloc(acp_lane *lane, uint64_t size, uint32_t color, acp_ga_t *ga, void **address)
{
    acp_engine *e = lane->engine;
    struct memory *m = &e->memory;
    uint64_t whole = page_up(size ? size : 1);
    if (color >= ACP_COLORS)
        return fail(lane, ACP_E_ARGUMENT, 0, size);
    pthread_mutex_lock(&e->space);
    bool possible = size <= m->limit;
    if (possible && is_tight(e, whole)) {
        pthread_mutex_unlock(&e->space);
        heap_trim(lane);
        pthread_mutex_lock(&e->space);
    }
    lane->fault = (acp_fault){.size = size, .rank = acp_rank(e), .high = m->limit};
    if (possible && is_tight(e, whole) && m->unpunched_bytes)
        memory_punch(e);
    uint64_t offset = possible ? take_offsets(m, whole + GUARD_BYTES) : 0;
    int rc = offset ? ACP_OK : ACP_E_FULL;
    if (rc == ACP_OK)
        rc = memory_commit(e, offset, whole, &lane->fault);
    if (rc == ACP_OK) {
        struct region region = {.offset = offset, .length = size ? size : 1, .color = color,
                                .kind = SEGMENT_MEMORY};
        rc = directory_publish(e, &region);
        if (rc != ACP_OK) {
            memory_unpunched(m, offset, whole);
            lane->fault.high = ENTRIES_MAX;
        }
    } else if (offset) {
        range_push(&m->free, &m->free_count, &m->free_room,
                   (struct range){offset, offset + whole + GUARD_BYTES});
    }
    pthread_mutex_unlock(&e->space);
    if (rc == ACP_OK) {
        *ga = acp_ga(acp_rank(e), color, offset);
        *address = m->base + offset;
    }
    return lane->fault.status = rc;
}

int acp_segment_register(acp_lane *lane, void *address, uint64_t size, uint32_t color,
                         acp_ga_t *ga)
{
    acp_engine *e = lane->engine;
    struct memory *m = &e->memory;
    uint64_t virtual = (uint64_t)(uintptr_t)address, base = (uint64_t)(uintptr_t)m->base;
    uint64_t into_page = virtual & (PAGE - 1); /* so that alignment shows in the address */
    lane->fault = (acp_fault){.size = size, .rank = acp_rank(e)};
    if (color >= ACP_COLORS || !size || size > m->span)
        return lane->fault.status = ACP_E_ARGUMENT;
    bool global = virtual >= base && virtual - base < m->span;
    struct region whole;
    pthread_mutex_lock(&e->space);
    if (global && (directory_find(e->control, virtual - base, &whole) != ACP_OK ||
                   size > whole.offset + whole.length - (virtual - base))) {
        pthread_mutex_unlock(&e->space);
        return lane->fault.status = ACP_E_BOUNDS;
    }
    uint64_t offset = take_offsets(m, page_up(into_page + size) + GUARD_BYTES);
    int rc = offset ? ACP_OK : ACP_E_FULL;
    if (rc == ACP_OK) {
        struct region region = {.offset = offset + into_page, .length = size, .color = color,
                                .kind = global ? SEGMENT_ALIAS : SEGMENT_PRIVATE,
                                .target = global ? virtual - base : virtual};
        rc = directory_publish(e, &region);
    }
    if (rc == ACP_E_REGIONS) {
        lane->fault.high = ENTRIES_MAX;
        range_push(&m->free, &m->free_count, &m->free_room,
                   (struct range){offset, offset + page_up(into_page + size) + GUARD_BYTES});
    }
    pthread_mutex_unlock(&e->space);
    if (rc == ACP_OK)
        *ga = acp_ga(acp_rank(e), color, offset + into_page);
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

void acp_memory_statistics_get(acp_engine *e, acp_memory_statistics *out)
{
    struct memory *m = &e->memory;
    pthread_mutex_lock(&e->space);
    *out = (acp_memory_statistics){.limit = m->limit, .committed = m->committed + heap_committed(e),
                                   .used = m->used,
                                   .starter = e->config.starter_size,
                                   .segments = m->live_segments,
                                   .private_segments = m->live_private};
    pthread_mutex_unlock(&e->space);
}

/* Every address but the starter's dies and starter memory is zero again; nobody is inside
 * an operation (the caller has seen to that by a barrier). Arrays keep their bytes. */
void memory_reset(acp_engine *e)
{
    uint64_t first = STARTER_OFFSET + e->memory.starter_size;
    for (;;) {
        uint32_t count = e->control->directory_count, at = 0;
        uint64_t victim = 0;
        for (; at < count && !victim; at++)
            if (e->entries[e->order[at]].offset >= first &&
                e->entries[e->order[at]].kind != SEGMENT_HEAP)
                victim = e->entries[e->order[at]].offset;
        if (!victim)
            break;
        struct region region;
        pthread_mutex_lock(&e->space);
        if (directory_find(e->control, victim, &region) == ACP_OK)
            directory_replace(e, &region, NULL, NULL);
        pthread_mutex_unlock(&e->space);
    }
    memset(e->memory.base + STARTER_OFFSET, 0, e->memory.starter_size);
    heap_empty(e);
}

bool memory_enter(acp_engine *e)
{
    atomic_fetch_add(&e->memory.users, 1);
    if (!atomic_load(&e->stopping))
        return true;
    atomic_fetch_sub(&e->memory.users, 1);
    return false;
}

void memory_leave(acp_engine *e)
{
    atomic_fetch_sub(&e->memory.users, 1);
}

void memory_await(acp_engine *e)
{
    while (atomic_load(&e->memory.users))
        sched_yield();
}

void memory_close(acp_engine *e)
{
    struct memory *m = &e->memory;
    pthread_mutex_lock(&e->space);
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
    pthread_mutex_unlock(&e->space);
}

/* Threads that are in calls at the end still count what they give back. */
void memory_release(acp_engine *e)
{
    struct memory *m = &e->memory;
    retirees_close(e);
    free(m->free);
    free(m->unpunched);
    free(m->free_slots);
    if (m->base)
        munmap(m->base, m->span);
    m->base = NULL;
}
