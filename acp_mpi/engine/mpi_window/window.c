/* The window: a road for put and get. Its far end is memory that is never released, inside the window part of a rank
 * of the own MPI group on another node. MPI is called without the engine's lock, by the leader, which takes such
 * operations from its list of work.
 *
 * ACP_PATH=window takes this road even where nothing happens at the target unless it calls MPI; then the target is
 * requested to drive MPI (target_assist.c). */
#include "mpi_window/window.h"
#include "base/linux.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "mpi_window/symbols.h"
#include "mpi_window/target_assist.h"
#include "mpi_window/window_arrays.h"
#include "peers/peer.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define GUEST_LOOKS 8 /* at MPI in a row: other work between them makes answers late */
#define GUEST_PAUSE_NS 50000 /* between two polls of MPI when guests have been silent for long */

bool window_enter(struct window *w)
{
    atomic_fetch_add(&w->inside, 1);
    if (!atomic_load(&w->closed))
        return true;
    atomic_fetch_sub(&w->inside, 1);
    return false;
}

void window_leave(struct window *w)
{
    atomic_fetch_sub(&w->inside, 1);
}

bool window_forced(const acp_engine *e)
{
    return e->config.path == ACP_PATH_WINDOW;
}

int acp_window_attach(acp_engine *e, const acp_window_config *config, const char **missing)
{
    struct window *w = calloc(1, sizeof *w);
    *missing = NULL;
    if (!w || !(w->staging = malloc(SLICE_BYTES))) {
        free(w);
        return ACP_E_SYSTEM;
    }
    w->config = *config;
    *missing = symbols_find(&w->mpi, config->user);
    w->config.user = NULL;
    if (*missing) {
        free(w->staging);
        free(w);
        return ACP_E_ARGUMENT;
    }
    atomic_store(&e->mpi.window, w);
    return ACP_OK;
}

void acp_window_open(acp_engine *e, bool reads_back)
{
    struct window *w = atomic_load(&e->mpi.window);
    if (!w)
        return;
    atomic_store(&w->reads_back, reads_back);
    atomic_store(&w->open, true);
}

void acp_window_close(acp_engine *e)
{
    struct window *w = atomic_load(&e->mpi.window);
    if (!w)
        return;
    atomic_store(&w->open, false);
    atomic_store(&w->closed, true);
    while (atomic_load(&w->inside))
        sched_yield();
    pthread_mutex_lock(&e->lock);
    target_assist_end_all(&e->lanes[LANE_LOCKED]);
    pthread_mutex_unlock(&e->lock);
}

void window_free(acp_engine *e)
{
    struct window *w = atomic_load(&e->mpi.window);
    if (w)
        free(w->staging);
    free(w);
}

static bool in_heap(const struct window *w, uint64_t at)
{
    return at >= w->config.heap_begin && at < w->config.heap_end;
}

static bool in_arrays(const struct window *w, uint64_t at)
{
    return at >= w->config.arrays_begin && at < w->config.arrays_end;
}

/* Does the window lead to these bytes of a rank that is reached by link otherwise? All of starter memory is there, but
 * only its owner knows how far the heap goes by now, and where arrays are. */
bool window_reaches(acp_engine *e, const struct peer *p, acp_ga_t ga, uint64_t size)
{
    const struct window *w = atomic_load_explicit(&e->mpi.window, memory_order_acquire);
    if (!w || !atomic_load_explicit(&w->open, memory_order_relaxed) || acp_ga_color(ga) != 0 ||
        p->slot - w->config.first_slot >= w->config.count ||
        (p->row.node == e->config.node && !window_forced(e)))
        return false;
    uint64_t at = acp_ga_offset(ga) - STARTER_OFFSET, end = w->config.starter_end;
    if (in_arrays(w, at))
        return window_arrays_reach(p, at, size);
    if (in_heap(w, at))
        end = atomic_load_explicit(&p->mpi.heap_known, memory_order_relaxed);
    return at < end && size <= end - at;
}

/* The owner has served these bytes: its heap reaches so far, until a reset, or an array is there. */
void window_learn(acp_lane *lane, struct peer *p, acp_ga_t ga, uint64_t size)
{
    const struct window *w = atomic_load_explicit(&lane->engine->mpi.window, memory_order_acquire);
    uint64_t at = acp_ga_offset(ga) - STARTER_OFFSET, end = at + size;
    if (w && acp_ga_color(ga) == 0 && in_arrays(w, at))
        window_arrays_request(lane, w, p, ga);
    else if (w && acp_ga_color(ga) == 0 && in_heap(w, at) && end <= w->config.heap_end &&
        end > atomic_load_explicit(&p->mpi.heap_known, memory_order_relaxed))
        atomic_store_explicit(&p->mpi.heap_known, end, memory_order_relaxed);
}

static void peer_forget(struct peer *p)
{
    atomic_store_explicit(&p->mpi.heap_known, 0, memory_order_relaxed);
    window_arrays_forget(p);
}

void window_forget(acp_engine *e)
{
    for (struct peer *p = NULL; (p = peer_next(e, p));)
        peer_forget(p);
}

/* May peers write this word of the own memory by the window, unseen by this process? */
bool window_writes(acp_engine *e, uint64_t position)
{
    const struct window *w = atomic_load_explicit(&e->mpi.window, memory_order_acquire);
    uint64_t at = position - STARTER_OFFSET;
    return w && atomic_load_explicit(&w->open, memory_order_relaxed) &&
           (at < w->config.starter_end || in_arrays(w, at) || in_heap(w, at));
}

/* An aligned word goes as a word, so that it is seen whole. */
int window_issue(const struct window *w, bool put, unsigned char *memory, int target,
                 uint64_t at, uint64_t size)
{
    uint64_t both = (uint64_t)(uintptr_t)memory | at;
    uintptr_t type = w->config.byte, window = w->config.window;
    int count = (int)size;
    if (size == 8 && !(both & 7)) {
        type = w->config.word8;
        count = 1;
    } else if (size == 4 && !(both & 3)) {
        type = w->config.word4;
        count = 1;
    }
    return put ? w->mpi.put(memory, count, type, target, (intptr_t)at, count, type, window)
               : w->mpi.get(memory, count, type, target, (intptr_t)at, count, type, window);
}

int acp_window_put(acp_engine *e, uint32_t rank, uint64_t at, const void *data, uint64_t size)
{
    struct window *w = atomic_load(&e->mpi.window);
    if (!w || !window_enter(w))
        return ACP_E_CLOSED;
    int target = (int)(rank_slot_of(e, rank) - w->config.first_slot);
    int rc = window_issue(w, true, (unsigned char *)(uintptr_t)data, target, at, size);
    if (rc == 0)
        rc = w->mpi.flush(target, w->config.window);
    window_leave(w);
    return rc == 0 ? ACP_OK : ACP_E_MPI;
}

enum due window_due(const acp_engine *e)
{
    return e->mpi.guests ? DUE_SOON : DUE_NOT;
}

/* Polls MPI for the guests; the leader calls again while there are any. */
bool window_drive(acp_lane *lane)
{
    struct window *w = atomic_load(&lane->engine->mpi.window);
    _Alignas(16) char status[256]; /* of any MPI */
    int flag;
    if (!w || !window_enter(w))
        return false;
    for (int look = 0; look < GUEST_LOOKS; look++)
        w->mpi.iprobe(w->config.any_source, w->config.any_tag, w->config.comm, &flag, status);
    window_leave(w);
    return false;
}

/* Between two polls. */
void window_pause(acp_engine *e)
{
    const struct timespec pause = {.tv_nsec = GUEST_PAUSE_NS};
    if (linux_now_ns() < e->mpi.lively)
        sched_yield();
    else
        nanosleep(&pause, NULL);
}
