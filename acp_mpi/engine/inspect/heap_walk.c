/* The blocks of another process's heap, one after the other, and their sums. */
#include "inspect/heap_walk.h"
#include "containers/container.h"
#include "core/layout.h"
#include "inspect/heap_containers.h"
#include "inspect/heap_messages.h"
#include "memory/heap.h"
#include "memory/heap_create.h"
#include "memory/heap_pages.h"
#include "memory/size_class.h"
#include "memory/transaction.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 5u /* to see a heap that does not change */
#define LOOKS 1000u

static bool read_at(int fd, uint64_t at, void *to, uint64_t size)
{
    ssize_t n;
    do
        n = pread(fd, to, size, (off_t)at);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)size;
}

bool heap_walk_read(struct survey_tiles *t, uint64_t at, void *to, uint64_t size)
{
    uint64_t span = t->heap.span;
    if (size > span || at > span - size)
        return false;
    if (size > sizeof t->bytes)
        return read_at(t->fd, t->heap.position + at, to, size);
    if (!t->there || at < t->window || at + size > t->window + sizeof t->bytes) {
        t->window = at;
        if (span - at < sizeof t->bytes)
            t->window = span - sizeof t->bytes;
        t->there = read_at(t->fd, t->heap.position + t->window, t->bytes, sizeof t->bytes);
    }
    if (t->there)
        memcpy(to, t->bytes + (at - t->window), size);
    return t->there;
}

static bool add_tile(struct survey_tiles *t, uint64_t at, uint32_t owner)
{
    if (t->count == t->room) {
        uint64_t room = t->room ? 2 * t->room : 1024;
        uint64_t *place = realloc(t->at, room * sizeof *place);
        t->at = place ? place : t->at;
        uint32_t *whose = place ? realloc(t->owner, room * sizeof *whose) : NULL;
        t->owner = whose ? whose : t->owner;
        if (!whose)
            return false;
        t->room = room;
    }
    t->at[t->count] = at;
    t->owner[t->count++] = owner;
    return true;
}

static bool add_container(struct survey_tiles *t, uint64_t at, const struct container *head)
{
    if (t->owners == t->owners_room) {
        uint32_t room = t->owners_room ? 2 * t->owners_room : 64;
        struct survey_container *all = realloc(t->containers, room * sizeof *all);
        if (!all)
            return false;
        t->containers = all;
        t->owners_room = room;
    }
    t->containers[t->owners++] = (struct survey_container){
        .kind = head->kind, .offset = t->heap.position + at + BLOCK_HEAD};
    return true;
}

void heap_walk_use(struct survey_tiles *t, uint64_t block, uint32_t use)
{
    uint64_t low = 0, high = t->count;
    while (block > BLOCK_HEAD && low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (t->at[middle] < block - BLOCK_HEAD)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < t->count && t->at[low] == block - BLOCK_HEAD && t->owner[low] == USE_MALLOC)
        t->owner[low] = use;
}

/* Up to the end, or a place without a begin of a block: the heap has just changed. */
static int tile(struct survey_tiles *t)
{
    const struct heap *h = &t->heap;
    uint64_t at = h->first, end = h->end;
    t->count = t->owners = 0;
    t->end = end;
    t->there = false;
    while (at < end) {
        struct block b;
        struct container k;
        uint64_t size = heap_walk_read(t, at, &b, sizeof b) ? b.size & ~BLOCK_FLAGS : 0;
        bool is_free = size && b.size & BLOCK_FREE;
        bool good = size >= BLOCK_LEAST && size <= end - at &&
                    (is_free || b.mark == size_class_mark(h, at));
        bool is_head = good && !is_free && heap_containers_head(t, at, size, &k);
        if (!add_tile(t, at, !good                   ? USE_UNKNOWN
                             : is_free               ? USE_FREE
                             : is_head && !k.serial ? USE_SPARE
                             : heap_messages_held(t, at, size) ? USE_MESSAGES
                                                               : USE_MALLOC) ||
            (is_head && k.serial && !add_container(t, at, &k)))
            return ACP_E_FULL;
        t->whole &= good;
        at = good ? at + size : end;
    }
    return ACP_OK;
}

static int tile_and_own(struct survey_tiles *t)
{
    int rc = ACP_OK;
    for (uint32_t try = 0; try < TRIES; try++) {
        uint64_t looked = transaction_version(&t->heap.head->section), nonce = t->heap.head->nonce;
        t->whole = true;
        rc = tile(t);
        for (uint32_t i = 0; rc == ACP_OK && i < t->owners; i++)
            heap_containers_owned(t, i);
        if (rc == ACP_OK)
            heap_messages_all(t);
        t->whole &= transaction_unchanged(&t->heap.head->section, looked) && nonce == t->heap.head->nonce;
        if (rc != ACP_OK || t->whole)
            break;
    }
    return rc;
}

static uint64_t tile_end(const struct survey_tiles *t, uint64_t i)
{
    return i + 1 < t->count ? t->at[i + 1] : t->end;
}

/* The heap's own statistics. */
static void add_up(const struct survey_tiles *t, struct survey *out)
{
    const struct heap_head *head = t->heap.head;
    acp_heap_statistics *s = &out->heap;
    uint64_t looked;
    uint32_t looks = 0;
    do {
        looked = transaction_version(&head->section);
        s->used = __atomic_load_n(&head->used, __ATOMIC_RELAXED);
        s->blocks = __atomic_load_n(&head->blocks, __ATOMIC_RELAXED);
        s->fragments = __atomic_load_n(&head->fragments, __ATOMIC_RELAXED);
        s->committed = __atomic_load_n(&head->committed, __ATOMIC_RELAXED);
        out->top = __atomic_load_n(&head->published, __ATOMIC_RELAXED);
    } while (!transaction_unchanged(&head->section, looked) && ++looks < LOOKS);
    s->size = t->heap.end - t->heap.first;
    s->free = s->size > s->used ? s->size - s->used : 0;
    s->committed += head->pinned * GRANULE;
    s->limit = head->limit;
    out->first = t->heap.first;
    out->top = out->top < t->heap.end ? out->top : t->heap.end;
    out->whole &= looks < LOOKS;
    for (uint64_t i = 0; i < t->count; i++) {
        uint64_t size = tile_end(t, i) - t->at[i];
        if (t->owner[i] == USE_FREE && size - BLOCK_HEAD > s->largest)
            s->largest = size - BLOCK_HEAD;
        if (t->owner[i] >= USE_CONTAINER) {
            t->containers[t->owner[i] - USE_CONTAINER].bytes += size;
            t->containers[t->owner[i] - USE_CONTAINER].blocks++;
        }
    }
}

static void cells_fill(struct survey *out, uint32_t cells, uint64_t low, uint64_t high, uint32_t use)
{
    uint64_t all = out->top - out->first;
    while (low < high) {
        uint64_t cell = (low - out->first) * cells / all;
        uint64_t end = out->first + ((cell + 1) * all + cells - 1) / cells;
        end = end < high ? end : high;
        out->cells[cell * SURVEY_USES + use] += end - low;
        low = end;
    }
}

/* Granule by granule: some of them may have no memory. */
static void fill_free(struct survey *out, uint32_t cells, const struct heap *h, uint64_t low,
                      uint64_t high)
{
    uint64_t grid = h->grid;
    while (low < high) {
        uint64_t end = low < grid ? grid : grid + ((low - grid) / GRANULE + 1) * GRANULE;
        end = end < high ? end : high;
        cells_fill(out, cells, low, end, heap_pages_committed(h, low) ? USE_FREE : USE_VACANT);
        low = end;
    }
}

static int draw(const struct survey_tiles *t, uint32_t cells, struct survey *out)
{
    out->cells = calloc((uint64_t)cells * SURVEY_USES, sizeof *out->cells);
    if (!out->cells)
        return ACP_E_FULL;
    for (uint64_t i = 0; i < t->count && t->at[i] < out->top; i++) {
        uint64_t low = t->at[i], high = tile_end(t, i);
        uint32_t owner = t->owner[i];
        if (low < out->first) /* a reset meanwhile */
            continue;
        high = high < out->top ? high : out->top;
        if (owner == USE_FREE)
            fill_free(out, cells, &t->heap, low, high);
        else if (owner < USE_CONTAINER)
            cells_fill(out, cells, low, high, owner);
        else
            cells_fill(out, cells, low, high,
                       USE_CONTAINER + (uint32_t)t->containers[owner - USE_CONTAINER].kind);
    }
    return ACP_OK;
}

static int survey_tiles(struct survey_tiles *t, uint32_t cells, struct survey *out)
{
    int rc = tile_and_own(t);
    out->containers = t->containers;
    out->count = t->owners;
    out->whole = t->whole;
    if (rc == ACP_OK) {
        add_up(t, out);
        rc = draw(t, cells, out);
        out->first += t->heap.position;
        out->top += t->heap.position;
    }
    free(t->at);
    free(t->owner);
    return rc;
}

static int read_control(int fd, uint64_t nonce, struct control *c)
{
    struct stat st;
    if (fstat(fd, &st) || !read_at(fd, 0, c, sizeof *c) || c->magic != LAYOUT_MAGIC ||
        c->version != LAYOUT_VERSION || c->nonce != nonce || c->span > (uint64_t)st.st_size)
        return ACP_E_ARGUMENT;
    return c->phase == PHASE_CLOSED ? ACP_E_CLOSED : ACP_OK;
}

int heap_walk_doing(int fd, uint64_t nonce, struct survey_doing *out)
{
    struct control c;
    uint64_t notice;
    int rc = read_control(fd, nonce, &c);
    if (rc)
        return rc;
    if (!read_at(fd, NOTICE_OFFSET, &notice, sizeof notice))
        return ACP_E_ARGUMENT;
    *out = (struct survey_doing){.doing = layout_doing(&c), .awaited = c.awaited, .notice = notice};
    return ACP_OK;
}

int heap_walk_rank(int fd, uint64_t nonce, uint32_t cells, struct survey *out)
{
    struct control c;
    *out = (struct survey){.whole = true};
    int wrong = read_control(fd, nonce, &c);
    if (wrong)
        return wrong;
    if (!cells || c.heap_span > c.span || c.heap_position > c.span - c.heap_span ||
        c.heap_position % PAGE || heap_create_bytes(c.heap_span) > c.heap_span)
        return ACP_E_ARGUMENT;
    out->others = c.committed;
    uint64_t size = heap_create_bytes(c.heap_span);
    struct survey_tiles *t = calloc(1, sizeof *t);
    void *head = t ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, (off_t)c.heap_position)
                   : MAP_FAILED;
    int rc = ACP_E_SYSTEM;
    if (head != MAP_FAILED) {
        t->heap = (struct heap){.head = head, .base = head, .span = c.heap_span, .fd = fd,
                                .position = c.heap_position};
        heap_create_measure(&t->heap);
        t->fd = fd;
        rc = survey_tiles(t, cells, out);
        munmap(head, size);
    }
    free(t);
    return rc;
}

void heap_walk_free(struct survey *s)
{
    free(s->containers);
    free(s->cells);
    s->containers = NULL;
    s->cells = NULL;
}
