/* Memory behind offsets: committed before they are given out, within the limit and within the machine's memory. */
#include "memory/commit.h"
#include "base/cgroup.h"
#include "base/placement.h"
#include "core/engine_state.h"
#include "memory/heap.h"

#include <errno.h>
#include <fcntl.h>

#define CHECK_BYTES ((uint64_t)4 << 20) /* growth after which the free memory is measured again */
#define LARGE_BYTES ((uint64_t)4 << 20) /* least memory for which large pages are looked for */

/* The limit allows it: the machine has no more than `left`. */
static int machine_full(acp_fault *fault, uint64_t left)
{
    fault->error = ENOMEM;
    fault->high = left;
    return ACP_E_FULL;
}

uint64_t commit_large_page(acp_engine *e, uint64_t size)
{
    struct memory_state *m = &e->memory;
    if (size < LARGE_BYTES)
        return 0;
    if (!m->large_known)
        m->large_page = placement_large_page();
    m->large_known = true;
    /* else no large page of the file can be mapped as one */
    bool aligned = !((uint64_t)(uintptr_t)m->base & (m->large_page - 1));
    return m->large_page && aligned && size >= 2 * m->large_page ? m->large_page : 0;
}

static int commit_pages(acp_engine *e, uint64_t offset, uint64_t size, acp_fault *fault)
{
    struct memory_state *m = &e->memory;
    if (m->committed >= m->next_check || size >= CHECK_BYTES) {
        uint64_t left = cgroup_available();
        if (size > left)
            return machine_full(fault, left);
        m->next_check = m->committed + CHECK_BYTES;
    }
    uint64_t large = commit_large_page(e, size);
    if (large)
        placement_fill_large(m->base + offset, size, large);
    int rc;
    do
        rc = fallocate(m->fd, 0, (off_t)offset, (off_t)size);
    while (rc && errno == EINTR);
    int error = errno;
    if (rc && large) /* what was filled before */
        fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
    errno = error;
    if (rc && (errno == ENOSPC || errno == ENOMEM))
        return machine_full(fault, cgroup_available());
    fault->error = rc ? errno : fault->error;
    return rc ? ACP_E_SYSTEM : ACP_OK;
}

static struct heap_head *own_heap(const acp_engine *e)
{
    return e->memory.heap_span
               ? (struct heap_head *)(void *)(e->memory.base + e->memory.heap_position)
               : NULL;
}

uint64_t commit_heap_size(const acp_engine *e)
{
    const struct heap_head *head = own_heap(e);
    return head ? __atomic_load_n(&head->committed, __ATOMIC_SEQ_CST) : 0;
}

void commit_count(acp_engine *e, int64_t bytes)
{
    e->memory.committed += (uint64_t)bytes;
    atomic_store(&e->control->committed, e->memory.committed);
}

int commit_memory(acp_engine *e, uint64_t offset, uint64_t size, acp_fault *fault)
{
    struct memory_state *m = &e->memory;
    int rc = ACP_E_FULL;
    if (!fault->size) /* unless the caller has another number for its user */
        fault->size = size;
    fault->high = m->limit;
    if (size > m->limit)
        return rc;
    commit_count(e, (int64_t)size); /* counts before it measures, as a growing heap does */
    if (m->committed <= m->limit && commit_heap_size(e) <= m->limit - m->committed)
        rc = commit_pages(e, offset, size, fault);
    if (rc != ACP_OK)
        commit_count(e, -(int64_t)size);
    return rc;
}

void acp_memory_lower(acp_engine *e, uint64_t limit)
{
    struct memory_state *m = &e->memory;
    struct heap_head *heap = own_heap(e);
    pthread_mutex_lock(&e->space);
    uint64_t least = m->committed + commit_heap_size(e);
    if (limit < least)
        limit = least;
    if (limit < m->limit) {
        m->limit = limit;
        if (heap)
            __atomic_store_n(&heap->limit, limit, __ATOMIC_SEQ_CST);
    }
    pthread_mutex_unlock(&e->space);
}
