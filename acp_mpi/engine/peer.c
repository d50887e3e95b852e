/* The other processes of the job as this one knows them: only those it has talked to have
 * a structure; memory of a process of the node is mapped when it is first used. */
#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((uint64_t)4096)
#define VIEW_GRAIN ((uint64_t)16 << 20) /* small regions share views of this size */
#define VIEW_LIMIT 64u

int peers_join(acp_engine *e, const struct row *rows, uint32_t count, uint32_t own_slot)
{
    uint32_t before = e->procs;
    if (count > ACP_RANKS_MAX - before)
        return ACP_E_ARGUMENT;
    uint32_t procs = before + count;
    pthread_mutex_lock(&e->space);
    struct row *grown = realloc(e->rows, procs * sizeof *grown);
    uint32_t pages = (procs + PEER_PAGE - 1) / PEER_PAGE;
    struct peer ***index = grown ? realloc(e->peers, pages * sizeof *index) : NULL;
    if (!index) {
        pthread_mutex_unlock(&e->space);
        return ACP_E_SYSTEM;
    }
    uint32_t had = (before + PEER_PAGE - 1) / PEER_PAGE;
    memset(index + had, 0, (pages - had) * sizeof *index);
    memcpy(grown + before, rows, count * sizeof *grown);
    e->rows = grown;
    e->peers = index;
    e->procs = procs;
    pthread_mutex_unlock(&e->space);
    if (!e->own) {
        struct peer *own = peer_of_slot(e, own_slot);
        if (!own)
            return ACP_E_SYSTEM;
        own->control = e->control;
        own->doors = e->doors;
        own->opened = OPENED_SELF;
        own->line = 0;
        own->relation = RELATION_SELF;
        e->self = own_slot;
        e->own = own;
        atomic_store(&e->joined, true); /* from now on messages are read */
        progress_kick(e);
    }
    return ACP_OK;
}

struct peer *peer_of_slot(acp_engine *e, uint32_t slot)
{
    struct peer *p = NULL;
    pthread_mutex_lock(&e->space);
    if (slot < e->procs) {
        struct peer ***page = &e->peers[slot / PEER_PAGE];
        if (!*page)
            *page = calloc(PEER_PAGE, sizeof **page);
        if (*page && !(p = (*page)[slot % PEER_PAGE]) && (p = calloc(1, sizeof *p))) {
            p->row = e->rows[slot];
            p->slot = slot;
            p->fd = p->pidfd = -1;
            p->view_limit = VIEW_LIMIT;
            (*page)[slot % PEER_PAGE] = p;
        }
    }
    pthread_mutex_unlock(&e->space);
    return p;
}

struct peer *peer_next(acp_engine *e, struct peer *after)
{
    struct peer *found = NULL;
    pthread_mutex_lock(&e->space);
    for (uint32_t slot = after ? after->slot + 1 : 0; slot < e->procs && !found; slot++) {
        struct peer **page = e->peers[slot / PEER_PAGE];
        if (page)
            found = page[slot % PEER_PAGE];
        else
            slot |= PEER_PAGE - 1;
    }
    pthread_mutex_unlock(&e->space);
    return found;
}

void peer_mark_lost(acp_engine *e, struct peer *p)
{
    if (p == e->own || atomic_exchange(&p->lost, 1))
        return;
    atomic_fetch_add(&e->losses, 1);
    atomic_fetch_add(&e->loss_news, 1);
    progress_kick(e);
}

/* Hears of the death of a process of this machine, whether or not its memory is in use. */
void peer_watch(acp_engine *e, struct peer *p)
{
    pthread_mutex_lock(&e->space);
    bool watch = !p->watched && p != e->own && p->row.node == e->config.node &&
                 e->config.path != ACP_PATH_LINK && !p->lost;
    if (watch) {
        bool dead;
        p->watched = true;
        p->pidfd = open_pidfd(p->row.pid);
        /* The number may have gone to another process since. */
        uint64_t start = process_start_time(p->row.pid, &dead);
        if (p->pidfd < 0 ? errno == ESRCH : dead || start != p->row.start_time)
            peer_mark_lost(e, p);
        else if (p->pidfd >= 0)
            poll_add(e, p->pidfd, EPOLLIN, TAG_PEER | p->slot);
    }
    pthread_mutex_unlock(&e->space);
}

/* Claims a line of flags in the doors of the peer; false: none is free. */
static bool claim_line(acp_engine *e, struct peer *p)
{
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < ATTACH_LINES; i++) {
            struct attach_line *l = &p->doors->lines[i];
            uint64_t holder = l->holder;
            if (holder && (round == 0 || !peer_line_dead(e, p->doors, i)))
                continue;
            if (!atomic_compare_exchange_strong(&l->holder, &holder, e->self + 1))
                continue;
            for (uint32_t flag = 0; flag < 2 * ATTACH_LANES; flag++)
                l->busy[flag] &= ~1u;
            l->start_time = e->row.start_time;
            l->pid = e->row.pid;
            p->line = i;
            return true;
        }
    }
    return false;
}

bool peer_line_dead(acp_engine *e, struct doors *doors, uint32_t line)
{
    struct attach_line *l = &doors->lines[line];
    uint32_t pid = l->pid;
    bool dead;
    if (!l->holder)
        return true;
    if (pid == 0 || pid == e->row.pid)
        return false;
    return process_start_time(pid, &dead) != l->start_time || dead;
}

int peer_attach(acp_engine *e, struct peer *p)
{
    uint32_t relation = atomic_load_explicit(&p->relation, memory_order_acquire);
    if (likely(relation != RELATION_UNKNOWN))
        return (int)relation;
    if (p->row.node != e->config.node || e->config.path == ACP_PATH_LINK) {
        atomic_store(&p->relation, RELATION_REMOTE);
        return RELATION_REMOTE;
    }
    peer_watch(e, p);
    pthread_mutex_lock(&e->space);
    relation = p->relation;
    if (relation == RELATION_UNKNOWN && !p->lost) {
        uint8_t opened = OPENED_NOT;
        int rc = attach_open(e, p, &opened);
        relation = RELATION_REMOTE;
        if (rc == ACP_OK && claim_line(e, p)) {
            p->opened = opened;
            p->vm_refused = opened == OPENED_SOCKET; /* its process id may mean another here */
            relation = RELATION_NODE;
        } else if (rc == ACP_E_LOST) {
            relation = RELATION_UNKNOWN;
            peer_mark_lost(e, p);
        }
        atomic_store_explicit(&p->relation, relation, memory_order_release);
    }
    pthread_mutex_unlock(&e->space);
    return (int)relation;
}

/* Views without a living region go when there are many; nobody is inside a dead region that
 * this process still uses, or the view stays for now. */
static void views_trim(acp_engine *e, struct peer *p)
{
    const _Atomic uint32_t *busy = p->doors->lines[p->line].busy;
    for (uint32_t flag = 0; flag < 2 * ATTACH_LANES; flag++)
        if (busy[flag] & 1)
            return;
    for (struct view **at = &p->views; *at;) {
        struct view *v = *at;
        bool used = v->pinned;
        uint32_t count = p->control->directory_count;
        for (uint32_t i = 0; i < count && i < ENTRIES_MAX && !used; i++) {
            const struct entry *entry =
                &directory_entries(p->control)[directory_order(p->control)[i] & (ENTRIES_MAX - 1)];
            used = entry->offset < v->high && entry->offset + entry->length > v->low;
        }
        if (used || e->config.map) {
            at = &v->next;
            continue;
        }
        *at = v->next;
        munmap(v->base, v->high - v->low);
        free(v);
        p->view_count--;
    }
    p->view_limit = p->view_count * 2 < VIEW_LIMIT ? VIEW_LIMIT : p->view_count * 2;
}

/* Maps the region [low, high) of a peer's file. Which view holds a region depends on the
 * region alone, so that two addresses of the same bytes meet in the same mapping. */
static int view_of(acp_engine *e, struct peer *p, uint64_t low, uint64_t high, bool pin,
                   unsigned char **base)
{
    if (p == e->own) {
        *base = e->memory.base + low;
        return ACP_OK;
    }
    uint64_t from = low & ~(VIEW_GRAIN - 1), to = from + VIEW_GRAIN;
    if (high > to) {
        from = low & ~(PAGE - 1);
        to = (high + PAGE - 1) & ~(PAGE - 1);
    }
    uint64_t span = p->control->span;
    if (to > span)
        to = span;
    if (high > to)
        return ACP_E_UNREGISTERED;
    for (struct view *v = p->views; v; v = v->next) {
        if (v->low == from && v->high == to) {
            v->pinned |= pin;
            *base = v->base + (low - from);
            return ACP_OK;
        }
    }
    if (p->view_count >= p->view_limit)
        views_trim(e, p);
    struct view *v = calloc(1, sizeof *v);
    if (!v)
        return ACP_E_SYSTEM;
    v->base = e->config.map ? e->config.map(e->config.map_context, &p->row, from, to - from)
                            : mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED, p->fd,
                                   (off_t)from);
    if (v->base == MAP_FAILED || !v->base) {
        free(v);
        return ACP_E_SYSTEM;
    }
    v->low = from;
    v->high = to;
    v->pinned = pin;
    v->next = p->views;
    p->views = v;
    p->view_count++;
    *base = v->base + (low - from);
    return ACP_OK;
}

/* Finds out where `ga` is and how this process reaches it. Of a rank of another node nothing
 * but the rank can be checked here. */
static int locate(acp_lane *lane, acp_ga_t ga, uint64_t size, struct translation *t,
                  enum reach *reach, bool pin)
{
    acp_engine *e = lane->engine;
    int64_t rank = acp_ga_rank(ga);
    struct region region, whole;
    if (ga == ACP_GA_NULL)
        return fail(lane, ACP_E_NULL, ga, size);
    if (rank < 0 || rank >= (int64_t)e->procs || ga >> 63)
        return fail(lane, ACP_E_RANK, ga, size);
    struct peer *p = peer_of_slot(e, slot_of_rank(e, (uint32_t)rank));
    if (!p)
        return fail(lane, ACP_E_SYSTEM, ga, size);
    int relation = p->lost ? RELATION_UNKNOWN : peer_attach(e, p);
    if (p->lost)
        return fail(lane, ACP_E_LOST, ga, size);
    *t = (struct translation){.peer = p, .low = ga, .length = size};
    if (relation == RELATION_REMOTE) {
        *reach = REACH_LINK;
        return ACP_OK;
    }
    int rc = directory_find(p->control, acp_ga_offset(ga), &region);
    if (rc == ACP_OK && region.color != acp_ga_color(ga))
        rc = ACP_E_UNREGISTERED;
    if (rc == ACP_OK) {
        lane->fault.low = region.offset;
        lane->fault.high = region.offset + region.length;
        if (size > region.offset + region.length - acp_ga_offset(ga))
            rc = ACP_E_BOUNDS;
    } else {
        lane->fault.low = lane->fault.high = 0;
    }
    whole = region;
    if (rc == ACP_OK && region.kind == SEGMENT_ALIAS)
        rc = directory_find(p->control, region.target, &whole);
    if (rc != ACP_OK) {
        uint64_t low = lane->fault.low, high = lane->fault.high;
        fail(lane, p->lost ? ACP_E_LOST : rc, ga, size);
        lane->fault.low = low;
        lane->fault.high = high;
        return lane->fault.status;
    }
    const struct entry *entry = &directory_entries(p->control)[region.slot];
    t->low = acp_ga((uint32_t)rank, region.color, region.offset);
    t->length = region.length;
    t->generation = &entry->generation;
    t->live = region.generation;
    t->kind = region.kind;
    t->position = region.kind == SEGMENT_MEMORY ? region.offset : region.target;
    t->fence = p->control->fences || !e->expedited;
    t->busy = region.offset <= STARTER_OFFSET && region.kind == SEGMENT_MEMORY ? lane->nowhere
                                            : &p->doors->lines[p->line].busy[2 * lane->index];
    *reach = REACH_LOAD;
    if (region.kind == SEGMENT_PRIVATE) {
        if (p == e->own)
            t->base = (unsigned char *)(uintptr_t)region.target;
        else
            *reach = p->vm_refused || !p->control->ptracer ? REACH_RING : REACH_VM;
        return ACP_OK;
    }
    pthread_mutex_lock(&e->space);
    rc = view_of(e, p, whole.offset, whole.offset + whole.length, pin, &t->base);
    pthread_mutex_unlock(&e->space);
    if (rc != ACP_OK)
        return fail(lane, rc, ga, size);
    t->base += t->position - whole.offset;
    return ACP_OK;
}

int translate(acp_lane *lane, acp_ga_t ga, uint64_t size, struct translation *t,
              enum reach *reach)
{
    return locate(lane, ga, size, t, reach, false);
}

const struct translation *lane_miss(acp_lane *lane, uint32_t role, acp_ga_t ga, uint64_t size)
{
    struct translation *cached =
        &lane->cache[((ga >> 16) ^ (ga >> (ACP_OFFSET_BITS + ACP_COLOR_BITS)) * 7) % LANE_CACHE];
    if (covers(cached, ga, size) && *cached->generation == cached->live && !cached->peer->lost) {
        lane->recent[role] = *cached;
        return &lane->recent[role];
    }
    struct translation t;
    enum reach reach;
    lane->fault.status = ACP_OK;
    if (translate(lane, ga, size, &t, &reach) != ACP_OK || reach != REACH_LOAD)
        return NULL;
    if (lane->engine->config.path == ACP_PATH_OWNER && t.peer != lane->engine->own &&
        lane->index != LANE_LEADER)
        return NULL;
    *cached = t;
    lane->recent[role] = t;
    return &lane->recent[role];
}

void lane_flush(acp_lane *lane)
{
    memset(lane->recent, 0, sizeof lane->recent);
    memset(lane->cache, 0, sizeof lane->cache);
}

int acp_query_address(acp_lane *lane, acp_ga_t ga, uint64_t size, void **address)
{
    struct translation t;
    enum reach reach;
    int rc = locate(lane, ga, size, &t, &reach, true);
    if (rc != ACP_OK)
        return rc;
    if (reach != REACH_LOAD)
        return fail(lane, ACP_E_PRIVATE, ga, size);
    *address = t.base + (ga - t.low);
    return ACP_OK;
}

int acp_road(acp_lane *lane, uint32_t rank, acp_road_info *out)
{
    static const char *const opened[] = {"-", "own", "proc", "socket", "given"};
    acp_engine *e = lane->engine;
    if (rank >= e->procs)
        return fail(lane, ACP_E_RANK, acp_ga(rank, 0, 0), 0);
    struct peer *p = peer_of_slot(e, slot_of_rank(e, rank));
    int relation = p->lost ? RELATION_UNKNOWN : peer_attach(e, p);
    bool forced = e->config.path == ACP_PATH_OWNER;
    out->lost = p->lost;
    out->memory = opened[p->opened];
    out->road = relation == RELATION_SELF   ? "self"
                : relation == RELATION_NODE ? (forced ? "owner" : "load/store")
                                            : "link";
    out->registered = relation == RELATION_SELF     ? "self"
                      : relation == RELATION_REMOTE ? "link"
                      : forced || p->vm_refused || !p->control->ptracer ? "owner"
                                                                        : "process_vm";
    return ACP_OK;
}

void peers_close(acp_engine *e)
{
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        if (p->doors && p->relation == RELATION_NODE)
            p->doors->lines[p->line].holder = 0;
        if (p->pidfd >= 0)
            close(p->pidfd);
        if (p->fd >= 0)
            close(p->fd);
        p->pidfd = p->fd = -1;
    }
}

void peers_free(acp_engine *e)
{
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        for (struct view *v = p->views, *next; v; v = next) {
            next = v->next;
            if (!e->config.map)
                munmap(v->base, v->high - v->low);
            free(v);
        }
        if (p->relation == RELATION_NODE && !e->config.map) {
            munmap((void *)(uintptr_t)p->control, CONTROL_SIZE);
            munmap(p->doors, sizeof *p->doors);
        }
        free(p->chain_failures);
        backlog_free(p);
    }
    for (uint32_t page = 0; page * PEER_PAGE < e->procs; page++) {
        for (uint32_t i = 0; e->peers[page] && i < PEER_PAGE; i++)
            free(e->peers[page][i]);
        free(e->peers[page]);
    }
    free(e->peers);
    free(e->rows);
    e->peers = NULL;
    e->rows = NULL;
    e->procs = 0;
}
