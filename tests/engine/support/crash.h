/* Processes that change one shared memory and are killed in the middle of it. Each maps the memory
 * anew, at another place; `fault_after` kills the caller at that store of a change. */
#ifndef ACP_TESTS_CRASH_H
#define ACP_TESTS_CRASH_H

#include "support/check.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "memory/heap.h"
#include "memory/heap_create.h"
#include "memory/size_class.h"
#include "memory/transaction.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CRASH_SPAN ((uint64_t)64 << 20)

/* What a process needs of an engine to enter sections. */
struct actor {
    acp_engine *engine;
    acp_lane *lane;
    struct heap heap;
};

static _Atomic uint64_t crash_others;
static _Atomic uint64_t fault_left; /* 0: never */
static void (*at_each_store)(void);

void transaction_fault_point(void)
{
    if (at_each_store)
        at_each_store();
    if (fault_left && --fault_left == 0)
        kill(getpid(), SIGKILL);
}

static inline void actor_start(struct actor *a, int fd)
{
    acp_engine *e = calloc(1, sizeof *e);
    struct control *control = aligned_alloc(_Alignof(struct control), sizeof *control);
    unsigned char *base = mmap(NULL, CRASH_SPAN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(e && control && base != MAP_FAILED);
    memset(control, 0, sizeof *control);
    e->control = control;
    e->row.pid = (uint32_t)getpid();
    bool dead;
    e->row.start_time = linux_start_time(e->row.pid, &dead);
    for (uint32_t i = 0; i < ATTACH_LANES; i++)
        e->lanes[i] = (acp_lane){.engine = e, .index = i};
    *a = (struct actor){e, &e->lanes[LANE_CALLER],
                        {.head = (struct heap_head *)(void *)base, .base = base,
                         .span = CRASH_SPAN, .fd = fd, .others = &crash_others}};
    heap_create_measure(&a->heap);
}

static inline void actor_end(struct actor *a)
{
    munmap(a->heap.base, CRASH_SPAN);
    free(a->engine->control);
    free(a->engine);
}

/* A memory file with an empty heap. */
static inline int crash_memory(uint64_t limit)
{
    struct actor a;
    int fd = memfd_create("heap", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)CRASH_SPAN) == 0);
    CHECK(fallocate(fd, 0, 0, (off_t)heap_create_bytes(CRASH_SPAN)) == 0);
    actor_start(&a, fd);
    heap_create(&a.heap, 0x1234567, limit, 0);
    actor_end(&a);
    return fd;
}

/* Enters and leaves: what a dead process left half-way is whole again. */
static inline void mend(struct actor *a, struct section *s)
{
    struct hold hold;
    CHECK(transaction_enter(&hold, a->lane, s, &a->heap, ACP_FOREVER) == ACP_OK);
    transaction_leave(&hold);
}

static inline void check_section(const struct section *s)
{
    CHECK(s->version % 2 == 0 && s->state == SECTION_IDLE && s->moving.kind == MOVING_NOTHING);
    for (uint32_t i = 0; i < SECTION_BLOCKS; i++)
        CHECK(!s->fresh[i] && !s->stale[i]);
}

static inline bool committed(const struct heap *h, uint64_t at)
{
    if (at < h->grid)
        return true;
    uint64_t granule = (at - h->grid) / GRANULE;
    return h->head->granules[granule / 64] >> granule % 64 & 1;
}

static inline uint64_t check_lists(const struct heap *h)
{
    const struct heap_head *head = h->head;
    uint64_t listed = 0;
    for (uint32_t level = 0; level < HEAP_LEVELS; level++) {
        CHECK((head->level_map >> level & 1) == (head->class_map[level] != 0));
        for (uint32_t width = 0; width < HEAP_WIDTH; width++) {
            uint64_t before = 0;
            CHECK((head->class_map[level] >> width & 1) == (head->lists[level][width] != 0));
            for (uint64_t at = head->lists[level][width]; at; at = heap_block(h, at)->mark) {
                uint32_t l, w;
                size_class_of(heap_block_size(h, at), &l, &w);
                CHECK(l == level && w == width && heap_block(h, at)->size & BLOCK_FREE);
                CHECK(heap_block(h, at)->previous == before);
                before = at;
                listed++;
            }
        }
    }
    return listed;
}

/* Everything that must hold of a heap in which nobody is; returns how many blocks are given out. */
static inline uint64_t check_heap(struct actor *a)
{
    const struct heap *h = &a->heap;
    const struct heap_head *head = h->head;
    uint64_t used = 0, blocks = 0, fragments = 0, bits = 0, at = h->first;
    bool behind_free = false;
    mend(a, &h->head->sweeper);
    mend(a, &h->head->section);
    check_section(&head->section);
    check_section(&head->sweeper);
    while (at < h->end) {
        const struct block *b = heap_block(h, at);
        uint64_t size = b->size & ~BLOCK_FLAGS;
        bool is_free = b->size & BLOCK_FREE;
        CHECK(size >= BLOCK_LEAST && size % 16 == 0 && size <= h->end - at);
        CHECK(!(b->size & BLOCK_BEHIND_FREE) == !behind_free);
        CHECK(committed(h, at) && committed(h, at + sizeof *b - 1));
        if (is_free) {
            CHECK(!behind_free);
            CHECK(at + size == h->end || *(uint64_t *)(void *)(h->base + at + size - 8) == size);
            fragments++;
        } else {
            CHECK(b->mark == size_class_mark(h, at));
            for (uint64_t granule = at; granule < at + size; granule += GRANULE)
                CHECK(committed(h, granule));
            CHECK(committed(h, at + size - 1) && at + size <= head->published);
            blocks++;
            used += size;
        }
        behind_free = is_free;
        at += size;
    }
    CHECK(at == h->end);
    CHECK(head->used == used && head->blocks == blocks && head->fragments == fragments);
    CHECK(check_lists(h) == fragments);
    for (uint64_t i = 0; i <= (h->end - h->grid) / GRANULE / 64; i++)
        bits += (uint64_t)__builtin_popcountll(head->granules[i]);
    CHECK(head->committed == (bits - head->pinned) * GRANULE && head->committed <= head->limit);
    return blocks;
}

static inline uint64_t crash_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * 0x2545f4914f6cdd1dull >> 16;
}

/* 1 B to 256 KiB, small ones as often as large ones. */
static inline uint64_t crash_size(uint64_t *state)
{
    uint64_t log = crash_random(state) % 18;
    return crash_random(state) % (2ull << log);
}

/* Waits for the end of a child that may only be killed or leave with 0; true: it was killed. */
static inline bool was_killed(pid_t child)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

/* How many operations a worker has begun, and ended: the head of what a test notes of it, which
 * processes share. */
struct record {
    _Atomic uint64_t begun, ended;
};

/* What the processes of a test do: operation `k`, counted from 1; and the next one that comes. */
struct roles {
    void (*perform)(struct actor *, struct record *, uint64_t k);
    void (*mend)(struct actor *, struct record *);
    uint64_t steps;    /* operations in which a worker that dies at a store does so, or ends */
    uint64_t pause_ns; /* after which one dies at some instant, at most */
};

/* A child of the test, which outlives it in no case; 0: this is the child. */
static inline pid_t child_start(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child)
        CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    return child;
}

/* A child that works until it dies, or has done that many operations. */
static inline pid_t worker_start(int fd, const struct roles *roles, struct record *record,
                                 uint64_t fault, uint64_t operations)
{
    pid_t child = child_start();
    if (child)
        return child;
    struct actor a;
    actor_start(&a, fd);
    fault_left = fault;
    for (uint64_t k = record->ended + 1; operations--; k++) {
        record->begun = k;
        roles->perform(&a, record, k);
        record->ended = k;
    }
    _exit(0);
}

/* The next process to come, which may die as well. */
static inline void mender(int fd, const struct roles *roles, struct record *record, uint64_t fault)
{
    pid_t child = child_start();
    if (child) {
        was_killed(child);
        return;
    }
    struct actor a;
    actor_start(&a, fd);
    fault_left = fault;
    roles->mend(&a, record);
    _exit(0);
}

static inline void random_pause(uint64_t *state, uint64_t most_ns)
{
    struct timespec t = {.tv_nsec = (long)(crash_random(state) % most_ns)};
    nanosleep(&t, NULL);
}

/* The i-th death of a worker: at a store, each in its turn up to the last one, or every `instants`-th
 * at some instant. False: it had ended before. */
static inline bool worker_dies(int fd, const struct roles *roles, struct record *record, uint64_t i,
                               uint64_t last, uint64_t instants, uint64_t *state)
{
    bool at_store = i % instants != 0;
    pid_t child = worker_start(fd, roles, record, at_store ? 1 + i % last : 0,
                               at_store ? roles->steps : UINT64_MAX);
    if (!at_store) {
        random_pause(state, roles->pause_ns);
        kill(child, SIGKILL);
    }
    return was_killed(child);
}

/* How many are to die: CRASHES, or few enough for every day. */
static inline uint64_t crashes_wanted(uint64_t few)
{
    const char *text = getenv("CRASHES");
    return text ? strtoull(text, NULL, 10) : few;
}

/* Memory that forked processes share. */
static inline void *shared_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

#endif
