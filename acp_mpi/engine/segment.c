/* The memory of this rank: one sparse sealed file whose offsets are the offsets of its
 * addresses, and the directory that says what is where.
 *
 * Offsets are given out once and reused last, oldest first, so that a stale address is an
 * error until the whole span has been handed out. Memory behind released offsets goes back
 * to the system as soon as a mebibyte of it has gathered. */
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define PAGE ((uint64_t)4096)
#define PUNCH_BYTES ((uint64_t)1 << 20)
#define CHECK_BYTES ((uint64_t)4 << 20) /* growth after which the machine is asked again */

static uint64_t round_up(uint64_t n)
{
    return (n + PAGE - 1) & ~(PAGE - 1);
}

/* A segment that died while other processes may still be inside an operation on it. */
struct retiree {
    struct retiree *next;
    uint64_t ticket;
    struct range range; /* of offsets to give back; empty: none */
    bool committed;
    uint32_t count;
    struct {
        uint32_t line, flag, seen;
    } inside[];
};

static void push_range(struct range **list, uint32_t *count, uint32_t *room, struct range r)
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

static int commit(acp_engine *e, uint64_t offset, uint64_t size, acp_fault *fault)
{
    struct memory *m = &e->memory;
    if (size > m->limit || m->committed > m->limit - size) {
        fault->high = m->limit;
        return ACP_E_FULL;
    }
    if (m->committed + size >= m->next_check || size >= CHECK_BYTES) {
        uint64_t left = memory_available();
        /* A sixteenth stays free: the machine's killer does not ask before it kills. */
        if (size > left - left / 16) {
            fault->high = left;
            return ACP_E_FULL;
        }
        m->next_check = m->committed + size + CHECK_BYTES;
    }
    int rc;
    do
        rc = fallocate(m->fd, 0, (off_t)offset, (off_t)size);
    while (rc && errno == EINTR);
    if (rc) {
        fault->error = errno;
        return errno == ENOSPC || errno == ENOMEM ? ACP_E_FULL : ACP_E_SYSTEM;
    }
    m->committed += size;
    return ACP_OK;
}

static void punch(acp_engine *e)
{
    struct memory *m = &e->memory;
    struct range *list = m->unpunched;
    uint32_t count = m->unpunched_count;
    uint64_t bytes = m->unpunched_bytes;
    m->unpunched = NULL;
    m->unpunched_count = m->unpunched_room = 0;
    m->unpunched_bytes = 0;
    pthread_mutex_unlock(&e->space); /* 0.2 ms a mebibyte */
    for (uint32_t i = 0; i < count; i++)
        fallocate(m->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)list[i].low,
                  (off_t)(list[i].high - list[i].low));
    pthread_mutex_lock(&e->space);
    m->committed -= bytes;
    m->next_check = m->committed;
    for (uint32_t i = 0; i < count; i++)
        push_range(&m->free, &m->free_count, &m->free_room, list[i]);
    free(list);
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

static uint32_t order_lower_bound(acp_engine *e, uint64_t offset)
{
    uint32_t low = 0, high = atomic_load_explicit(&e->control->directory_count,
                                                  memory_order_relaxed);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (e->entries[e->order[middle]].offset < offset)
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

static int publish(acp_engine *e, const struct region *region)
{
    struct memory *m = &e->memory;
    uint32_t slot;
    if (m->free_slot_count)
        slot = m->free_slots[--m->free_slot_count];
    else if (m->slots_touched < ENTRIES_MAX)
        slot = m->slots_touched++;
    else
        return ACP_E_FULL;
    struct entry *entry = &e->entries[slot];
    entry->kind = (uint16_t)region->kind;
    entry->color = (uint16_t)region->color;
    entry->offset = region->offset;
    entry->length = region->length;
    entry->target = region->target;
    uint32_t at = order_lower_bound(e, region->offset), count = e->control->directory_count;
    order_begin(e);
    for (uint32_t i = count; i > at; i--)
        e->order[i] = e->order[i - 1];
    e->order[at] = slot;
    e->control->directory_count = count + 1;
    atomic_fetch_add_explicit(&entry->generation, 1, memory_order_release);
    order_end(e);
    m->live_segments++;
    m->live_private += region->kind != SEGMENT_MEMORY;
    m->used += region->kind == SEGMENT_MEMORY ? round_up(region->length) : 0;
    return ACP_OK;
}

/* Kills the entry; whoever is inside an operation on it is inside still. */
static void unpublish(acp_engine *e, const struct region *region)
{
    struct memory *m = &e->memory;
    uint32_t at = order_lower_bound(e, region->offset), count = e->control->directory_count;
    atomic_fetch_add(&e->entries[region->slot].generation, 1);
    order_begin(e);
    for (uint32_t i = at; i + 1 < count; i++)
        e->order[i] = e->order[i + 1];
    e->control->directory_count = count - 1;
    order_end(e);
    m->live_segments--;
    m->live_private -= region->kind != SEGMENT_MEMORY;
    m->used -= region->kind == SEGMENT_MEMORY ? round_up(region->length) : 0;
    if (m->free_slot_count == m->free_slot_room) {
        uint32_t room = m->free_slot_room ? m->free_slot_room * 2 : 16;
        uint32_t *grown = realloc(m->free_slots, room * sizeof *grown);
        if (!grown)
            return; /* the slot stays unused */
        m->free_slots = grown;
        m->free_slot_room = room;
    }
    m->free_slots[m->free_slot_count++] = region->slot;
}

/* Reads the entry that holds `offset`, from any process's directory. */
int directory_find(const struct control *c, uint64_t offset, struct region *out)
{
    const _Atomic uint32_t *order = directory_order(c);
    const struct entry *entries = directory_entries(c);
    for (uint32_t attempt = 0; attempt < 1u << 20; attempt++) {
        uint64_t version = atomic_load_explicit(&c->directory_version, memory_order_acquire);
        if (version & 1) {
            cpu_relax();
            continue;
        }
        uint32_t count = c->directory_count, low = 0, high = count;
        if (count > ENTRIES_MAX)
            return ACP_E_UNREGISTERED;
        while (low < high) { /* the last entry at or below offset */
            uint32_t middle = (low + high) / 2, slot = order[middle] & (ENTRIES_MAX - 1);
            if (entries[slot].offset <= offset)
                low = middle + 1;
            else
                high = middle;
        }
        bool found = false;
        if (low > 0) {
            const struct entry *entry = &entries[order[low - 1] & (ENTRIES_MAX - 1)];
            out->slot = (uint32_t)(entry - entries);
            out->generation = atomic_load_explicit(&entry->generation, memory_order_acquire);
            out->offset = entry->offset;
            out->length = entry->length;
            out->target = entry->target;
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

int memory_create(acp_engine *e, acp_fault *fault)
{
    struct memory *m = &e->memory;
    uint64_t total = memory_total();
    m->limit = e->config.memory_limit;
    m->starter_size = round_up(e->config.starter_size);
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
    if (m->span < STARTER_OFFSET + m->starter_size + PAGE) {
        fault->size = m->span;
        return ACP_E_FULL;
    }
    struct region post = {.offset = POST_OFFSET, .length = 64, .kind = SEGMENT_MEMORY};
    struct region starter = {.offset = STARTER_OFFSET, .length = e->config.starter_size,
                             .kind = SEGMENT_MEMORY};
    m->bump = STARTER_OFFSET + m->starter_size;
    int rc = commit(e, POST_OFFSET, m->bump - POST_OFFSET, fault);
    if (rc == ACP_OK)
        rc = publish(e, &post);
    if (rc == ACP_OK && m->starter_size)
        rc = publish(e, &starter);
    return rc;
}

int acp_memory_alloc(acp_lane *lane, uint64_t size, uint32_t color, acp_ga_t *ga, void **address)
{
    acp_engine *e = lane->engine;
    struct memory *m = &e->memory;
    uint64_t whole = round_up(size ? size : 1);
    lane->fault = (acp_fault){.size = size, .rank = acp_rank(e), .high = m->limit};
    if (color >= ACP_COLORS)
        return lane->fault.status = ACP_E_ARGUMENT;
    if (size > m->limit)
        return lane->fault.status = ACP_E_FULL;
    pthread_mutex_lock(&e->space);
    int rc = ACP_OK;
    if (m->committed + whole > m->limit && m->unpunched_bytes)
        punch(e);
    uint64_t offset = take_offsets(m, whole);
    if (!offset)
        rc = ACP_E_FULL;
    if (rc == ACP_OK)
        rc = commit(e, offset, whole, &lane->fault);
    if (rc == ACP_OK) {
        struct region region = {.offset = offset, .length = size ? size : 1, .color = color,
                                .kind = SEGMENT_MEMORY};
        rc = publish(e, &region);
        if (rc != ACP_OK) {
            push_range(&m->unpunched, &m->unpunched_count, &m->unpunched_room,
                       (struct range){offset, offset + whole});
            m->unpunched_bytes += whole;
        }
    } else if (offset) {
        push_range(&m->free, &m->free_count, &m->free_room,
                   (struct range){offset, offset + whole});
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
    pthread_mutex_lock(&e->space);
    uint64_t offset = take_offsets(m, round_up(into_page + size));
    int rc = offset ? ACP_OK : ACP_E_FULL;
    if (rc == ACP_OK) {
        struct region region = {.offset = offset + into_page, .length = size, .color = color,
                                .kind = global ? SEGMENT_ALIAS : SEGMENT_PRIVATE,
                                .target = global ? virtual - base : virtual};
        rc = publish(e, &region);
    }
    pthread_mutex_unlock(&e->space);
    if (rc == ACP_OK)
        *ga = acp_ga(acp_rank(e), color, offset + into_page);
    return lane->fault.status = rc;
}

/* Who is inside an operation now: their flags are odd. */
static struct retiree *retiree_new(acp_engine *e)
{
    uint32_t room = 0;
    for (uint32_t line = 0; line < ATTACH_LINES; line++)
        if (e->doors->lines[line].holder)
            room += 2 * ATTACH_LANES;
    struct retiree *r = calloc(1, sizeof *r + room * sizeof r->inside[0]);
    if (!r)
        return NULL;
    for (uint32_t line = 0; line < ATTACH_LINES; line++) {
        struct attach_line *l = &e->doors->lines[line];
        for (uint32_t flag = 0; l->holder && flag < 2 * ATTACH_LANES; flag++) {
            uint32_t seen = atomic_load(&l->busy[flag]);
            if ((seen & 1) && r->count < room) {
                r->inside[r->count].line = line;
                r->inside[r->count].flag = flag;
                r->inside[r->count++].seen = seen;
            }
        }
    }
    return r;
}

static bool retiree_quiet(acp_engine *e, struct retiree *r)
{
    while (r->count) {
        uint32_t line = r->inside[r->count - 1].line, flag = r->inside[r->count - 1].flag;
        if (atomic_load(&e->doors->lines[line].busy[flag]) == r->inside[r->count - 1].seen &&
            !peer_line_dead(e, e->doors, line))
            return false;
        r->count--;
    }
    return true;
}

/* With the space lock: gives the offsets of quiet retirees back. */
bool segment_retirees_step(acp_engine *e)
{
    struct memory *m = &e->memory;
    if (!atomic_load_explicit(&m->retiring, memory_order_acquire))
        return false;
    pthread_mutex_lock(&e->space);
    for (struct retiree **at = &m->retirees; *at;) {
        struct retiree *r = *at;
        if (!retiree_quiet(e, r)) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        atomic_fetch_sub(&m->retiring, 1);
        if (r->committed) {
            push_range(&m->unpunched, &m->unpunched_count, &m->unpunched_room, r->range);
            m->unpunched_bytes += r->range.high - r->range.low;
        } else {
            push_range(&m->free, &m->free_count, &m->free_room, r->range);
        }
        free(r);
    }
    if (m->unpunched_bytes >= PUNCH_BYTES)
        punch(e);
    bool some = m->retirees != NULL;
    pthread_mutex_unlock(&e->space);
    return some;
}

int acp_segment_retire(acp_lane *lane, acp_ga_t ga, uint64_t size, uint64_t *ticket)
{
    acp_engine *e = lane->engine;
    struct memory *m = &e->memory;
    struct region region;
    uint64_t offset = acp_ga_offset(ga);
    pthread_mutex_lock(&e->space);
    int rc = directory_find(e->control, offset, &region);
    if (rc == ACP_OK && region.offset < STARTER_OFFSET + m->starter_size)
        rc = ACP_E_UNREGISTERED; /* starter memory is not the caller's to release */
    if (rc == ACP_OK && size > region.offset + region.length - offset)
        rc = ACP_E_BOUNDS;
    if (rc != ACP_OK) {
        pthread_mutex_unlock(&e->space);
        return fail(lane, rc, ga, size);
    }
    struct range dead = {region.offset, region.offset + region.length};
    unpublish(e, &region);
    if (size && size < region.length) { /* what its neighbours hold lives on */
        struct region left = region, right = region;
        left.length = offset - region.offset;
        right.offset = offset + size;
        right.length = region.offset + region.length - right.offset;
        right.target = region.target + (right.offset - region.offset);
        if (left.length)
            publish(e, &left);
        if (right.length)
            publish(e, &right);
        dead = (struct range){offset, offset + size};
    }
    if (e->expedited)
        membarrier_all();
    else
        atomic_thread_fence(memory_order_seq_cst);
    struct retiree *r = retiree_new(e);
    uint64_t number = ++m->tickets;
    if (r) {
        r->ticket = number;
        r->committed = region.kind == SEGMENT_MEMORY;
        if (r->committed) {
            r->range = (struct range){dead.low, round_up(dead.high)};
        } else if (dead.low == region.offset && dead.high == region.offset + region.length) {
            r->range = (struct range){dead.low & ~(PAGE - 1), round_up(dead.high)};
        } else { /* only whole pages of a piece: its neighbours share the others */
            r->range = (struct range){round_up(dead.low), dead.high & ~(PAGE - 1)};
        }
        r->next = m->retirees;
        m->retirees = r;
        atomic_fetch_add(&m->retiring, 1);
    }
    pthread_mutex_unlock(&e->space);
    if (ticket)
        *ticket = number;
    if (segment_retirees_step(e))
        progress_kick(e);
    return ACP_OK;
}

void acp_memory_drop(acp_lane *lane, void *address, uint64_t size)
{
    acp_engine *e = lane->engine;
    struct memory *m = &e->memory;
    acp_ga_t ga = acp_query_ga(e, address, size);
    if (ga != ACP_GA_NULL) {
        acp_segment_retire(lane, ga, 0, NULL);
        return;
    }
    uint64_t offset = (uint64_t)((unsigned char *)address - m->base);
    uint64_t whole = round_up(size ? size : 1);
    pthread_mutex_lock(&e->space); /* its address died in a reset */
    push_range(&m->unpunched, &m->unpunched_count, &m->unpunched_room,
               (struct range){offset, offset + whole});
    m->unpunched_bytes += whole;
    if (m->unpunched_bytes >= PUNCH_BYTES)
        punch(e);
    pthread_mutex_unlock(&e->space);
}

struct quiet_wait {
    acp_engine *engine;
    uint64_t ticket;
};

static bool ticket_gone(void *context)
{
    struct quiet_wait *w = context;
    bool gone = true;
    segment_retirees_step(w->engine);
    pthread_mutex_lock(&w->engine->space);
    for (struct retiree *r = w->engine->memory.retirees; r; r = r->next)
        gone = gone && r->ticket != w->ticket;
    pthread_mutex_unlock(&w->engine->space);
    return gone;
}

int acp_segment_quiet(acp_engine *e, uint64_t ticket, int64_t timeout_ns)
{
    struct quiet_wait w = {e, ticket};
    if (!atomic_load(&e->memory.retiring))
        return ACP_OK;
    return progress_wait(e, ticket_gone, &w, timeout_ns, ACP_DOING_UNREGISTER);
}

acp_ga_t acp_query_ga(acp_engine *e, const void *address, uint64_t size)
{
    uint64_t offset = (uint64_t)((uintptr_t)address - (uintptr_t)e->memory.base);
    struct region region;
    if ((uintptr_t)address < (uintptr_t)e->memory.base || offset >= e->memory.span)
        return ACP_GA_NULL;
    if (directory_find(e->control, offset, &region) != ACP_OK || region.kind != SEGMENT_MEMORY ||
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
    *out = (acp_memory_statistics){.limit = m->limit, .committed = m->committed, .used = m->used,
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
            if (e->entries[e->order[at]].offset >= first)
                victim = e->entries[e->order[at]].offset;
        if (!victim)
            break;
        struct region region;
        pthread_mutex_lock(&e->space);
        if (directory_find(e->control, victim, &region) == ACP_OK)
            unpublish(e, &region);
        pthread_mutex_unlock(&e->space);
    }
    memset(e->memory.base + STARTER_OFFSET, 0, e->memory.starter_size);
}

void memory_close(acp_engine *e)
{
    struct memory *m = &e->memory;
    for (struct retiree *r = m->retirees, *next; r; r = next) {
        next = r->next;
        free(r);
    }
    free(m->free);
    free(m->unpunched);
    free(m->free_slots);
    m->retirees = NULL;
    m->free = m->unpunched = NULL;
    m->free_slots = NULL;
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
}

void memory_release(acp_engine *e)
{
    if (e->memory.base)
        munmap(e->memory.base, e->memory.span);
    e->memory.base = NULL;
}
