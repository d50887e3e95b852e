/* The calls of MPI that the engine makes, on the memory of a cluster: what MPI does when
 * nothing moves unless its target calls it too, or when the network does all by itself. */
#ifndef ACP_TESTS_FAKE_MPI_H
#define ACP_TESTS_FAKE_MPI_H

#include "cluster/cluster.h"
#include "core/engine_state.h"
#include "core/mpi_window.h"

#include <sched.h>

static struct fake {
    pthread_mutex_t lock;
    bool by_itself; /* no target need call MPI */
    struct cluster *cluster;
    _Atomic uint64_t puts;
    void (*at_flush)(void); /* before it waits; NULL: nothing */
    _Atomic int error_of_move, error_of_flush; /* 0: none */
    struct moved {
        unsigned char *to;
        const unsigned char *from;
        size_t size;
        struct moved *next;
    } *waiting[CLUSTER_MOST]; /* by target */
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum { BYTE = 1, WORD4 = 4, WORD8 = 8 }; /* handles of types, and their sizes */

int MPI_Put(const void *origin, int count, uintptr_t type, int target, intptr_t displacement,
            int target_count, uintptr_t target_type, uintptr_t window);
int MPI_Get(void *origin, int count, uintptr_t type, int target, intptr_t displacement,
            int target_count, uintptr_t target_type, uintptr_t window);
int MPI_Win_flush(int target, uintptr_t window);
int MPI_Iprobe(int source, int tag, uintptr_t comm, int *flag, void *status);
int MPI_Finalize(void);

static void move_later(int target, void *to, const void *from, size_t size)
{
    struct moved *m = malloc(sizeof *m);
    *m = (struct moved){to, from, size, NULL};
    pthread_mutex_lock(&fake.lock);
    struct moved **at = &fake.waiting[target];
    while (*at)
        at = &(*at)->next;
    *at = m;
    pthread_mutex_unlock(&fake.lock);
}

static bool move_now(int target)
{
    pthread_mutex_lock(&fake.lock);
    bool any = fake.waiting[target];
    while (fake.waiting[target]) {
        struct moved *m = fake.waiting[target];
        fake.waiting[target] = m->next;
        if (m->size == 8 && !(((uintptr_t)m->to | (uintptr_t)m->from) & 7)) /* seen whole */
            __atomic_store_n((uint64_t *)(void *)m->to,
                             __atomic_load_n((const uint64_t *)(const void *)m->from,
                                             __ATOMIC_ACQUIRE),
                             __ATOMIC_RELEASE);
        else
            memcpy(m->to, m->from, m->size);
        free(m);
    }
    pthread_mutex_unlock(&fake.lock);
    return any;
}

static unsigned char *place(int target, intptr_t displacement)
{
    return fake.cluster->engines[target]->memory.base + STARTER_OFFSET + displacement;
}

int MPI_Put(const void *origin, int count, uintptr_t type, int target, intptr_t displacement,
            int target_count, uintptr_t target_type, uintptr_t window)
{
    CHECK(count == target_count && type == target_type && window);
    if (fake.error_of_move)
        return fake.error_of_move;
    fake.puts++;
    move_later(target, place(target, displacement), origin, (size_t)count * type);
    return 0;
}

int MPI_Get(void *origin, int count, uintptr_t type, int target, intptr_t displacement,
            int target_count, uintptr_t target_type, uintptr_t window)
{
    CHECK(count == target_count && type == target_type && window);
    if (fake.error_of_move)
        return fake.error_of_move;
    move_later(target, origin, place(target, displacement), (size_t)count * type);
    return 0;
}

/* `window` and `comm` are the own rank + 1. */
int MPI_Win_flush(int target, uintptr_t window)
{
    bool done = false;
    if (fake.at_flush)
        fake.at_flush();
    while (!done) {
        move_now(fake.by_itself ? target : (int)window - 1);
        pthread_mutex_lock(&fake.lock);
        done = !fake.waiting[target];
        pthread_mutex_unlock(&fake.lock);
        if (!done)
            sched_yield();
    }
    return fake.error_of_flush;
}

int MPI_Finalize(void)
{
    return 0;
}

int MPI_Iprobe(int source, int tag, uintptr_t comm, int *flag, void *status)
{
    CHECK(source == -1 && tag == -2 && status);
    *flag = 0;
    move_now((int)comm - 1);
    return 0;
}

/* Makes the window a road between all engines of the cluster. */
static inline void cluster_open_window(struct cluster *c, bool by_itself)
{
    fake.cluster = c;
    fake.by_itself = by_itself;
    for (uint32_t i = 0; i < c->count; i++) {
        const char *missing;
        acp_window_part part;
        acp_fault fault;
        CHECK(acp_window_own(c->engines[i], &part, &fault) == ACP_OK);
        acp_window_config config = {.window = i + 1, .comm = i + 1, .byte = BYTE, .word4 = WORD4,
                                    .word8 = WORD8, .any_source = -1, .any_tag = -2,
                                    .count = c->count, .starter_end = 10240,
                                    .arrays_begin = part.arrays_begin,
                                    .arrays_end = part.arrays_end,
                                    .heap_begin = part.heap_begin,
                                    .heap_end = part.heap_end};
        CHECK(acp_window_attach(c->engines[i], &config, &missing) == ACP_OK);
        acp_window_open(c->engines[i], false);
    }
}

static inline void cluster_close_window(struct cluster *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        acp_window_close(c->engines[i]);
}

#endif
