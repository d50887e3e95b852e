/* The memory of this rank: one sparse sealed file. Offsets in the file are the offsets of the rank's addresses. The
 * file begins with the control area (layout.h), then come starter memory, the part that an MPI window covers, and the
 * heap. */
#include "memory/arena.h"
#include "base/linux.h"
#include "base/placement.h"
#include "core/engine_state.h"
#include "core/mpi_window.h"
#include "memory/commit.h"
#include "memory/directory.h"
#include "memory/heap.h"
#include "memory/heap_calls.h"
#include "memory/heap_create.h"
#include "memory/retire.h"
#include "memory/window_blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* The window part begins with starter memory and has its offsets for itself. Committed memory stays so for life: of a
 * small limit no more than half is. */
static void window_reserve(acp_engine *e, uint64_t starter_end)
{
    struct memory_state *m = &e->memory;
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
        (m->window.fault.status = commit_memory(e, starter_end, end - starter_end,
                                         &m->window.fault)) != ACP_OK) {
        m->window.fault.size = size;
        return;
    }
    m->window.size = size;
    struct region probe = {.offset = starter_end + GUARD_BYTES, .length = PROBE_SIZE,
                           .kind = SEGMENT_MEMORY};
    if (e->config.window_committed && probe.offset + PROBE_SIZE <= end &&
        directory_publish(e, &probe) == ACP_OK)
        m->window.probe = probe.offset - STARTER_OFFSET;
}

/* Half of what the window part has behind starter memory is for arrays. Returns where the heap can begin. */
static uint64_t arrays_reserve(acp_engine *e, uint64_t position)
{
    struct memory_state *m = &e->memory;
    uint64_t end = STARTER_OFFSET + m->window.size;
    uint64_t bytes = end > position ? (end - position) / 2 & ~(PAGE - 1) : 0;
    if (bytes < ACP_WINDOW_ARRAY + GUARD_BYTES)
        return position;
    window_blocks_create(m, position, bytes);
    return position + bytes;
}

/* Behind starter memory, and so in the window part as far as that goes: the heap, as large as the
 * limit, but half of all offsets are for arrays. Without room for one granule there is none. */
static int heap_reserve(acp_engine *e, uint64_t position, acp_fault *fault)
{
    struct memory_state *m = &e->memory;
    uint64_t window_end = STARTER_OFFSET + m->window.size, span = (m->span - position) / 2;
    uint64_t pinned_end = e->config.window_committed && window_end > position ? window_end
                                                                              : position;
    if (span > m->limit)
        span = m->limit;
    span &= ~(PAGE - 1);
    uint64_t head = heap_create_bytes(span);
    m->bump = position > window_end ? position : window_end + GUARD_BYTES;
    if (span < head + GRANULE)
        return ACP_OK;
    uint64_t ready = pinned_end < position + head ? pinned_end : position + head;
    int rc = ready < position + head ? commit_memory(e, ready, position + head - ready, fault) : ACP_OK;
    if (rc != ACP_OK)
        return rc;
    if (position + span + GUARD_BYTES > m->bump)
        m->bump = position + span + GUARD_BYTES;
    return heap_calls_create(e, position, span, pinned_end);
}

int acp_window_own(const acp_engine *e, acp_window_part *part, acp_fault *fault)
{
    const struct memory_state *m = &e->memory;
    const struct range *arrays = &m->window.arrays;
    uint64_t begin, end = STARTER_OFFSET + m->window.size, none = arrays->high ? STARTER_OFFSET : 0;
    heap_calls_range(e, &begin, &end);
    *part = (acp_window_part){.base = m->base + STARTER_OFFSET, .size = m->window.size,
                              .probe = m->window.probe,
                              .arrays_begin = arrays->low - none,
                              .arrays_end = arrays->high - none,
                              .heap_begin = begin - STARTER_OFFSET,
                              .heap_end = end - STARTER_OFFSET};
    *fault = m->window.fault;
    return fault->status;
}

/* How many offsets this rank has: all that addresses can tell apart, unless limits of the process leave it less
 * room for a file, or for its mapping. The system's error if that is not enough. */
static int span_of(const acp_config *config, uint64_t least, uint64_t *span)
{
    struct rlimit space, file;
    *span = config->span && config->span < ACP_OFFSET_SPAN ? config->span : ACP_OFFSET_SPAN;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY && space.rlim_cur / 4 < *span)
        *span = space.rlim_cur / 4;
    bool file_is_least = getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_max < *span;
    if (file_is_least)
        *span = file.rlim_max;
    *span &= ~(PAGE - 1);
    return *span >= least ? 0 : file_is_least ? EFBIG : ENOMEM;
}

/* The file, sealed with as many offsets as this process has addresses for: kernels with addresses of 39 bits, as small
 * boards have, leave it half a tebibyte in all. 0 or the system's error. */
static int file_map(struct memory_state *m, uint64_t least)
{
    m->fd = memfd_create("acp_mpi", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (m->fd < 0)
        return errno;
    for (;; m->span /= 2) {
        void *base = linux_map(m->fd, 0, m->span, PROT_READ | PROT_WRITE);
        if (base != MAP_FAILED) {
            m->base = base;
            break;
        }
        if (errno != ENOMEM || m->span / 2 < least)
            return errno;
    }
    if (linux_file_resize(m->fd, m->span) ||
        fcntl(m->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return errno;
    placement_prefer_here(m->base, m->span);
    return 0;
}

int arena_create(acp_engine *e, acp_fault *fault)
{
    struct memory_state *m = &e->memory;
    uint64_t total = acp_memory_total();
    m->limit = e->config.memory_limit;
    m->starter_size = layout_page_up(e->config.starter_size);
    if (m->limit > total || m->starter_size > m->limit) {
        fault->size = m->limit > total ? m->limit : e->config.starter_size;
        fault->high = m->limit > total ? total : m->limit;
        return ACP_E_FULL;
    }
    uint64_t least = STARTER_OFFSET + m->starter_size + 4 * GUARD_BYTES;
    fault->error = span_of(&e->config, least, &m->span);
    if (!fault->error)
        fault->error = file_map(m, least);
    if (fault->error) {
        fault->size = least;
        return ACP_E_SYSTEM;
    }
    e->control = (struct control *)(void *)m->base;
    e->doors = (struct doors *)(void *)(m->base + DOORS_OFFSET);
    e->memory.order = (_Atomic uint32_t *)(void *)(m->base + ORDER_OFFSET);
    e->memory.entries = (struct entry *)(void *)(m->base + ENTRIES_OFFSET);
    struct region post = {.offset = POST_OFFSET, .length = POST_SIZE, .kind = SEGMENT_MEMORY};
    struct region starter = {.offset = STARTER_OFFSET, .length = e->config.starter_size,
                             .kind = SEGMENT_MEMORY};
    uint64_t end = STARTER_OFFSET + m->starter_size;
    fault->size = e->config.starter_size;
    int rc = commit_memory(e, POST_OFFSET, end - POST_OFFSET, fault);
    if (rc == ACP_OK)
        window_reserve(e, end);
    if (rc == ACP_OK)
        rc = directory_publish(e, &post);
    if (rc == ACP_OK && m->starter_size)
        rc = directory_publish(e, &starter);
    fault->size = rc == ACP_OK ? 0 : fault->size;
    if (rc == ACP_OK)
        rc = heap_reserve(e, arrays_reserve(e, end + 2 * GUARD_BYTES), fault);
    return rc;
}

void acp_memory_statistics_get(acp_engine *e, acp_memory_statistics *out)
{
    struct memory_state *m = &e->memory;
    pthread_mutex_lock(&e->space);
    *out = (acp_memory_statistics){.limit = m->limit, .committed = m->committed + commit_heap_size(e),
                                   .used = m->used,
                                   .starter = e->config.starter_size,
                                   .segments = m->live_segments,
                                   .private_segments = m->live_private};
    pthread_mutex_unlock(&e->space);
}

/* Every address but the starter's dies and starter memory is zero again. The caller has made sure by a barrier that no
 * operation is under way. Arrays keep their bytes. */
void arena_reset(acp_engine *e)
{
    uint64_t first = STARTER_OFFSET + e->memory.starter_size;
    for (;;) {
        uint32_t count = e->control->directory_count, at = 0;
        uint64_t victim = 0;
        for (; at < count && !victim; at++)
            if (e->memory.entries[e->memory.order[at]].offset >= first &&
                e->memory.entries[e->memory.order[at]].kind != SEGMENT_HEAP)
                victim = e->memory.entries[e->memory.order[at]].offset;
        if (!victim)
            break;
        struct region region;
        pthread_mutex_lock(&e->space);
        if (directory_find(e->control, victim, &region) == ACP_OK)
            directory_replace(e, &region, NULL, NULL);
        pthread_mutex_unlock(&e->space);
    }
    memset(e->memory.base + STARTER_OFFSET, 0, e->memory.starter_size);
    heap_calls_clear(e);
}

void arena_await(acp_engine *e)
{
    while (atomic_load(&e->memory.users))
        sched_yield();
}

void arena_close(acp_engine *e)
{
    struct memory_state *m = &e->memory;
    pthread_mutex_lock(&e->space);
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
    pthread_mutex_unlock(&e->space);
}

/* Threads that are in calls at the end still count memory that they give back. */
void arena_free(acp_engine *e)
{
    struct memory_state *m = &e->memory;
    retirees_close(e);
    free(m->free.at);
    free(m->unpunched.at);
    free(m->window.free.at);
    free(m->free_slots);
    free(m->registered);
    if (m->base)
        munmap(m->base, m->span);
    m->base = NULL;
    m->registered = NULL;
}
