/* The window as a road: which bytes take it, how the target is kept driving MPI, and what
 * becomes of a guest or a target that dies. MPI is a fake whose flush waits for the target. */
#include "cluster/fake_mpi.h"
#include "core/engine_state.h"
#include "core/mpi_window.h"
#include "core/state/peer.h"
#include "mpi_window/window.h"
#include "mpi_window/window_arrays.h"
#include "peers/peer.h"
#include "progress/progress.h"

#include <unistd.h>

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void done(acp_engine *e, acp_handle_t handle, int status)
{
    acp_failure failure;
    uint64_t more;
    CHECK(acp_wait(e, handle, ACP_FOREVER) == ACP_OK);
    uint32_t n = acp_failures_take(e, handle, true, &failure, 1, &more);
    CHECK(status == ACP_OK ? n == 0 : n == 1 && failure.fault.status == status);
}

static void put(acp_engine *e, acp_lane *lane, acp_ga_t ga, const void *data, uint64_t size,
                int status)
{
    acp_handle_t pending;
    CHECK(acp_put(lane, ga, data, size, &pending) == ACP_OK);
    CHECK(pending);
    done(e, pending, status);
}

static void get(acp_engine *e, acp_lane *lane, void *data, acp_ga_t ga, uint64_t size)
{
    acp_handle_t pending;
    CHECK(acp_get(lane, data, ga, size, &pending) == ACP_OK);
    CHECK(pending);
    done(e, pending, ACP_OK);
}

/* Past the end of starter memory the owner is asked, and refuses. */
static void bounds(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t right = (rank + 1) % c->count;
    acp_ga_t there = acp_starter(e, right), end = there + 10240;
    uint64_t word = 4711 + rank, back = 0;
    acp_road_info road;
    CHECK(acp_road(lane, right, &road) == ACP_OK && !strcmp(road.road, "window"));
    put(e, lane, end - 8, &word, 8, ACP_OK);
    get(e, lane, &back, end - 8, 8);
    CHECK(back == word);
    put(e, lane, end - 4, &word, 8, ACP_E_BOUNDS);
    put(e, lane, end, &word, 8, ACP_E_UNREGISTERED);
    put(e, lane, there | (acp_ga_t)1 << ACP_OFFSET_BITS, &word, 8, ACP_E_UNREGISTERED);
    meet(e);
}

/* Only addresses of global memory say how far the heap of their owner goes. */
static void other_colours_say_nothing(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const struct window *w = atomic_load(&e->mpi.window);
    struct peer *p = peer_of_slot(e, (rank + 1) % c->count);
    acp_ga_t heap = acp_starter(e, (rank + 1) % c->count) + w->config.heap_begin;
    uint64_t known = p->mpi.heap_known;
    window_learn(lane, p, heap | (acp_ga_t)1 << ACP_OFFSET_BITS, 64);
    CHECK(p->mpi.heap_known == known);
    window_learn(lane, p, heap, 64);
    CHECK(p->mpi.heap_known == w->config.heap_begin + 64);
    window_forget(e);
    meet(e);
}

/* Of a block of the heap the first put goes by link, and those behind the window part. */
static void heap_blocks(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static acp_ga_t inside[CLUSTER_MOST], behind[CLUSTER_MOST];
    struct acp_call call = {0};
    acp_handle_t pending;
    uint32_t right = (rank + 1) % c->count;
    uint64_t word = 815 + rank, back = 0;
    CHECK(acp_malloc(lane, rank, 4096, &call, &pending) == ACP_OK && !pending);
    inside[rank] = call.result[0];
    CHECK(acp_malloc(lane, rank, 8 << 20, &call, &pending) == ACP_OK && !pending);
    behind[rank] = call.result[0] + (8 << 20) - 8;
    meet(e);
    uint64_t before = fake.puts;
    meet(e);
    for (int turn = 0; turn < 2; turn++, word++) {
        put(e, lane, inside[right], &word, 8, ACP_OK);
        get(e, lane, &back, inside[right], 8);
        CHECK(back == word);
    }
    meet(e);
    CHECK(fake.puts == before + c->count);
    meet(e);
    put(e, lane, behind[right], &word, 8, ACP_OK);
    get(e, lane, &back, behind[right], 8);
    CHECK(back == word && fake.puts == before + c->count);
    meet(e);
}

/* Of an array in the window part the first put goes by link, those behind it only within its bounds by the window. */
static void window_arrays(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static acp_ga_t arrays[CLUSTER_MOST];
    enum { SIZE = 20000 };
    void *address, *other;
    acp_ga_t behind;
    uint32_t right = (rank + 1) % c->count;
    struct peer *p = peer_of_slot(e, right);
    uint64_t word = 1234 + rank, back = 0;
    CHECK(acp_window_alloc(lane, SIZE, 0, &arrays[rank], &address) == ACP_OK);
    CHECK(acp_window_alloc(lane, SIZE, 0, &behind, &other) == ACP_OK && behind > arrays[rank] + SIZE);
    meet(e);
    acp_ga_t there = arrays[right];
    uint64_t at = acp_ga_offset(there) - STARTER_OFFSET, before = fake.puts;
    CHECK(!window_arrays_reach(p, at, 8));
    meet(e);
    put(e, lane, there, &word, 8, ACP_OK);
    meet(e);
    CHECK(fake.puts == before);
    while (!window_arrays_reach(p, at, SIZE))
        get(e, lane, &back, there, 8);
    CHECK(!window_arrays_reach(p, at, SIZE + 1) && !window_arrays_reach(p, at + SIZE, 1));
    meet(e);
    put(e, lane, there + SIZE - 8, &word, 8, ACP_OK);
    get(e, lane, &back, there + SIZE - 8, 8);
    CHECK(back == word);
    put(e, lane, there + SIZE - 4, &word, 8, ACP_E_BOUNDS);
    put(e, lane, there + SIZE, &word, 8, ACP_E_UNREGISTERED);
    meet(e);
    CHECK(fake.puts == before + c->count);
    meet(e);
    acp_memory_drop(lane, other, SIZE);
    acp_memory_drop(lane, address, SIZE);
    window_forget(e);
    CHECK(!window_arrays_reach(p, at, 8));
    meet(e);
    put(e, lane, there, &word, 8, ACP_E_UNREGISTERED);
    meet(e);
}

/* Longer than the staging memory, from memory that others reach too, and third parties. */
static void array_to_starter(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t right = (rank + 1) % c->count;
    acp_ga_t array;
    void *address;
    CHECK(acp_memory_alloc(lane, 8192, 0, &array, &address) == ACP_OK);
    for (uint32_t i = 0; i < 8192; i++)
        ((unsigned char *)address)[i] = (unsigned char)(i * 7 + rank);
    for (uint32_t i = 0; i < 64; i++) /* several in one flush */
        CHECK(acp_copy(lane, acp_starter(e, right) + 128 * i, array + 128 * i, 128,
                       ACP_HANDLE_NULL));
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    memset(address, 0, 8192);
    CHECK(acp_copy(lane, array, acp_starter(e, right), 8192, ACP_HANDLE_NULL));
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    for (uint32_t i = 0; i < 8192; i++)
        CHECK(((unsigned char *)address)[i] == (unsigned char)(i * 7 + rank));
    meet(e);
    acp_memory_drop(lane, address, 8192);
}

/* Nobody rings for a word that a window writes. */
static void unseen_word(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_word word;
    uint64_t one = 1, zero = 0;
    CHECK(acp_word_find(lane, acp_starter(e, rank), 8, &word) == ACP_OK);
    memcpy((void *)(uintptr_t)word.address, &zero, 8);
    meet(e);
    if (rank)
        CHECK(acp_word_wait(e, &word, ACP_EQ, 1, false, NULL, -1, ACP_FOREVER) == ACP_OK);
    put(e, lane, acp_starter(e, (rank + 1) % c->count), &one, 8, ACP_OK);
    if (!rank)
        CHECK(acp_word_wait(e, &word, ACP_EQ, 1, false, NULL, -1, ACP_FOREVER) == ACP_OK);
    meet(e);
}

static void nobody_left(struct cluster *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        while (atomic_load(&c->engines[i]->mpi.guests))
            sched_yield(); /* the last word is on its way */
}

/* Who waits does its own put, and rings for another that waits for it, too, and leads. */
static void put_awaited_by_two(void)
{
    struct cluster c;
    acp_handle_t pending;
    uint64_t word = 1, rings;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, false);
    cluster_open_window(&c, true);
    acp_engine *e = c.engines[0];
    while (!progress_leader_try(e))
        sched_yield();
    CHECK(acp_put(acp_engine_lane(e), acp_starter(e, 1), &word, 8, &pending) == ACP_OK && pending);
    for (uint32_t others = 0; others < 2; others++) {
        while (read(e->progress.door_fd, &rings, sizeof rings) > 0)
            continue;
        atomic_fetch_add(&e->progress.callers, others);
        done(e, pending, ACP_OK);
        atomic_fetch_sub(&e->progress.callers, others);
        CHECK((read(e->progress.door_fd, &rings, sizeof rings) > 0) == others);
        CHECK(acp_put(acp_engine_lane(e), acp_starter(e, 1), &word, 8, &pending) == ACP_OK);
    }
    progress_leader_release(e);
    done(e, pending, ACP_OK);
    cluster_close_window(&c);
    cluster_stop(&c);
}

/* Its code of the error is told, and the next operation is as any. */
static void what_mpi_refuses_fails(void)
{
    struct cluster c;
    acp_handle_t pending;
    acp_failure failure;
    uint64_t word = 1, back = 0, more;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, false);
    cluster_open_window(&c, true);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e);
    for (uint32_t i = 0; i < 4; i++) {
        (i / 2 ? &fake.error_of_flush : &fake.error_of_move)[0] = 13;
        CHECK((i % 2 ? acp_put(lane, acp_starter(e, 1), &word, 8, &pending)
                     : acp_get(lane, &back, acp_starter(e, 1), 8, &pending)) == ACP_OK && pending);
        CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
        CHECK(acp_failures_take(e, pending, true, &failure, 1, &more) == 1);
        CHECK(failure.fault.status == ACP_E_MPI && failure.fault.error == 13);
        fake.error_of_move = fake.error_of_flush = 0;
    }
    put(e, lane, acp_starter(e, 1), &word, 8, ACP_OK);
    get(e, lane, &back, acp_starter(e, 1), 8);
    CHECK(back == 1);
    cluster_close_window(&c);
    cluster_stop(&c);
}

/* Those that live know of the death. */
static void stop_after_death(struct cluster *c)
{
    cluster_close_window(c);
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_close(c->engines[i]);
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_free(c->engines[i]);
}

static void dead_guest(void)
{
    struct cluster c;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, false);
    cluster_open_window(&c, false);
    CHECK(acp_window_visit(c.engines[0], 1, true) == ACP_OK);
    CHECK(acp_window_visit(c.engines[0], 1, true) == ACP_OK);
    while (atomic_load(&c.engines[1]->mpi.guests) != 1)
        sched_yield();
    peer_mark_lost(c.engines[1], peer_of_slot(c.engines[1], 0));
    nobody_left(&c);
    acp_refresh(c.engines[1]);
    stop_after_death(&c);
}

static void target_dies(void)
{
    acp_engine *e = fake.cluster->engines[0];
    peer_mark_lost(e, peer_of_slot(e, 1));
}

/* Its death is heard of between two flushes: what has not been put yet fails, and all is over. */
static void dead_target(void)
{
    struct cluster c;
    acp_ga_t array;
    void *address;
    acp_failure failure;
    uint64_t bad, more, eight = 8;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, false);
    cluster_open_window(&c, true);
    acp_lane *lane = acp_engine_lane(c.engines[0]);
    CHECK(acp_memory_alloc(lane, 8, 0, &array, &address) == ACP_OK);
    acp_ga_t there = acp_starter(c.engines[0], 1);
    fake.at_flush = target_dies;
    CHECK(acp_copy_many(lane, (acp_column){(char *)&there, 0}, (acp_column){(char *)&array, 0},
                        (acp_column){(char *)&eight, 0}, 100, ACP_HANDLE_NULL, &bad));
    CHECK(acp_complete(c.engines[0], ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    CHECK(acp_failures_take(c.engines[0], ACP_HANDLE_ALL, false, &failure, 1, &more) == 1);
    CHECK(failure.fault.status == ACP_E_LOST && failure.fault.rank == 1 && !more);
    fake.at_flush = NULL;
    acp_refresh(c.engines[0]);
    stop_after_death(&c);
}

int main(void)
{
    static const cluster_body bodies[] = {
        bounds, other_colours_say_nothing, heap_blocks, window_arrays, array_to_starter, unseen_word};
    for (int by_itself = 0; by_itself < 2; by_itself++) {
        for (uint32_t count = 2; count <= 3; count++) {
            struct cluster c;
            cluster_start(&c, count, by_itself ? count : 1,
                          by_itself ? ACP_PATH_ANY : ACP_PATH_WINDOW, false);
            cluster_open_window(&c, by_itself);
            for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
                cluster_run(&c, bodies[b]);
            nobody_left(&c);
            cluster_close_window(&c);
            cluster_stop(&c);
        }
    }
    put_awaited_by_two();
    what_mpi_refuses_fails();
    dead_guest();
    dead_target();
    return 0;
}
