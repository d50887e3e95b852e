/* The heaps of the ranks of the node, as this process has them mapped. */
#include "memory/heap_calls.h"
#include "base/linux.h"
#include "memory/directory.h"
#include "memory/heap.h"
#include "memory/heap_create.h"
#include "memory/heap_pages.h"
#include "memory/size_class.h"
#include "memory/transaction.h"
#include "memory/translate.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LISTED 1024u /* blocks of one class that the statistics look at */

struct heap *heap_calls_map(acp_engine *e, struct peer *p)
{
    struct heap *h = atomic_load_explicit(&p->memory.heap, memory_order_acquire);
    const struct control *c = p->shm.control;
    uint64_t position = c->heap_position, span = c->heap_span;
    if (h || position % PAGE || span > p->shm.span || position > p->shm.span - span ||
        heap_create_bytes(span) + GRANULE > span || !(h = calloc(1, sizeof *h)))
        return h;
    h->span = span;
    h->position = position;
    h->fd = p == e->job.own ? e->memory.fd : p->shm.fd;
    h->others = &c->committed;
    h->base = p == e->job.own      ? e->memory.base + position
              : e->config.map ? e->config.map(e->config.map_context, &p->row, position, span)
                              : linux_map(p->shm.fd, position, span, PROT_READ | PROT_WRITE);
    if (h->base == MAP_FAILED || !h->base) {
        free(h);
        return NULL;
    }
    h->head = (struct heap_head *)(void *)h->base;
    heap_create_measure(h);
    atomic_store_explicit(&p->memory.heap, h, memory_order_release);
    return h;
}

void heap_calls_unmap(acp_engine *e, struct peer *p)
{
    struct heap *h = p->memory.heap;
    if (h && p != e->job.own && !e->config.map)
        munmap(h->base, h->span);
    free(h);
    p->memory.heap = NULL;
}

int heap_calls_create(acp_engine *e, uint64_t position, uint64_t span, uint64_t pinned_end)
{
    struct memory_state *m = &e->memory;
    struct heap h = {.base = m->base + position, .span = span, .fd = m->fd, .position = position};
    h.head = (struct heap_head *)(void *)h.base;
    heap_create(&h, e->row.nonce, m->limit, pinned_end - position);
    struct region region = {.offset = position + h.first + BLOCK_HEAD,
                            .length = h.end - h.first - BLOCK_HEAD,
                            .kind = SEGMENT_HEAP};
    e->control->heap_position = m->heap_position = position;
    e->control->heap_span = m->heap_span = span;
    return directory_publish(e, &region);
}

void heap_calls_range(const acp_engine *e, uint64_t *begin, uint64_t *end)
{
    uint64_t position = e->memory.heap_position;
    struct heap h = {.span = e->memory.heap_span};
    *begin = *end;
    if (!h.span)
        return;
    heap_create_measure(&h);
    if (position + h.first + BLOCK_HEAD >= *end)
        return;
    *begin = position + h.first + BLOCK_HEAD;
    if (*end > position + h.end)
        *end = position + h.end;
}

static struct heap *heap_of_engine(acp_engine *e)
{
    pthread_mutex_lock(&e->space);
    struct heap *h = heap_calls_map(e, e->job.own);
    pthread_mutex_unlock(&e->space);
    return h;
}

void heap_calls_clear(acp_engine *e)
{
    struct heap *h = heap_of_engine(e);
    if (h)
        heap_create_clear(h);
}

void heap_calls_trim(acp_lane *lane)
{
    struct heap *h = lane->engine->job.own ? heap_of_engine(lane->engine) : NULL;
    if (h)
        heap_pages_sweep(lane, h, true, HEAP_PATIENCE_NS);
}

struct heap *heap_calls_find(acp_lane *lane, acp_ga_t ga)
{
    acp_engine *e = lane->engine;
    const struct translation *t = translate_find(lane, ROLE_SRC, ga, 1);
    if (!t)
        return NULL;
    struct heap *h = atomic_load_explicit(&t->peer->memory.heap, memory_order_acquire);
    if (likely(h != NULL))
        return h;
    pthread_mutex_lock(&e->space);
    h = heap_calls_map(e, t->peer);
    pthread_mutex_unlock(&e->space);
    if (!h)
        lane_fail(lane, ACP_E_FULL, ga, 0);
    return h;
}

int heap_calls_look(acp_lane *lane, struct heap *h, acp_heap_statistics *out, int64_t patience_ns)
{
    struct hold hold;
    const struct heap_head *head = h->head;
    int rc = transaction_enter(&hold, lane, &h->head->section, h, patience_ns);
    if (rc != ACP_OK)
        return rc;
    uint64_t room = h->end - h->first, largest = 0;
    if (head->level_map) {
        uint32_t level = 63 - (uint32_t)__builtin_clzll(head->level_map);
        level = level < HEAP_LEVELS ? level : HEAP_LEVELS - 1;
        uint32_t width = 63 - (uint32_t)__builtin_clzll(head->class_map[level] | 1);
        width %= HEAP_WIDTH;
        uint64_t at = head->lists[level][width];
        for (uint32_t i = 0; at && i < LISTED && size_class_whole(h, at, true); i++) {
            largest = heap_block_size(h, at) > largest ? heap_block_size(h, at) : largest;
            at = heap_block(h, at)->mark;
        }
    }
    *out = (acp_heap_statistics){
        .size = room, .used = head->used, .free = room - head->used, .blocks = head->blocks,
        .largest = largest ? largest - BLOCK_HEAD : 0, .fragments = head->fragments,
        .committed = head->committed + head->pinned * GRANULE, .limit = head->limit};
    transaction_leave(&hold);
    return ACP_OK;
}
