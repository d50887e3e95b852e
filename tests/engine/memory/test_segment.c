/* The memory of one rank: offsets, release, limits, and what a dead peer leaves behind. */
#include "cluster/cluster.h"
#include "base/linux.h"
#include "memory/translate.h"
#include "progress/progress.h"
#include "transport/shm_ring.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t committed(acp_engine *e)
{
    acp_memory_statistics s;
    acp_memory_statistics_get(e, &s);
    return s.committed;
}

static uint64_t blocks(acp_engine *e)
{
    struct stat st;
    CHECK(fstat(e->memory.fd, &st) == 0);
    return (uint64_t)st.st_blocks * 512;
}

static void memory_goes_back(acp_engine *e, acp_lane *lane)
{
    uint64_t before = committed(e), file = blocks(e);
    for (int i = 0; i < 1000; i++) {
        acp_ga_t ga;
        void *data;
        CHECK(acp_memory_alloc(lane, 20000, 0, &ga, &data) == ACP_OK);
        memset(data, i, 20000);
        acp_memory_drop(lane, data, 20000);
    }
    /* at most a mebibyte waits to be punched */
    CHECK(committed(e) - before <= 1 << 20);
    CHECK(blocks(e) < file + (2 << 20));
}

/* With 1 GiB of offsets they come round again: oldest first, never twice at once, and zero. */
static void offsets_come_round(acp_lane *lane)
{
    acp_ga_t first = 0, last = 0, ga;
    void *data, *kept;
    CHECK(acp_memory_alloc(lane, 4096, 0, &ga, &kept) == ACP_OK);
    acp_ga_t kept_ga = ga;
    memset(kept, 0x5a, 4096);
    for (int i = 0; i < 200; i++) {
        CHECK(acp_memory_alloc(lane, 16 << 20, 0, &ga, &data) == ACP_OK);
        CHECK(*(unsigned char *)data == 0);
        CHECK(ga + (16 << 20) <= kept_ga || ga >= kept_ga + 4096);
        memset(data, 1, 64);
        first = first ? first : ga;
        if (i < 30)
            CHECK(i == 0 || ga > last);
        last = ga;
        acp_memory_drop(lane, data, 16 << 20);
    }
    CHECK(last < first + (1ull << 30));
    CHECK(*(unsigned char *)kept == 0x5a);
    acp_memory_drop(lane, kept, 4096);
}

static void pieces_end_alone(acp_lane *lane)
{
    static unsigned char data[3000];
    acp_ga_t ga;
    uint64_t word = 0;
    acp_handle_t pending;
    CHECK(acp_segment_register(lane, data, sizeof data, 2, &ga) == ACP_OK);
    CHECK((ga & 4095) == ((uintptr_t)data & 4095));
    CHECK(acp_segment_retire(lane, ga + 1000, 1000, NULL) == ACP_OK);
    data[10] = 1;
    data[2500] = 2;
    CHECK(acp_get(lane, &word, ga + 10, 1, &pending) == ACP_OK && word == 1);
    CHECK(acp_get(lane, &word, ga + 2500, 1, &pending) == ACP_OK && word == 2);
    CHECK(acp_get(lane, &word, ga + 1500, 1, &pending) == ACP_E_UNREGISTERED);
    CHECK(acp_get(lane, &word, ga + 996, 8, &pending) == ACP_E_BOUNDS);
    CHECK(acp_segment_retire(lane, ga, 1000, NULL) == ACP_OK);
    CHECK(acp_segment_retire(lane, ga + 2000, 1000, NULL) == ACP_OK);
    CHECK(acp_get(lane, &word, ga + 2500, 1, &pending) == ACP_E_UNREGISTERED);
}

/* A piece may not end when the directory has no room for what remains beside it: all of that stays. */
static void pieces_are_not_lost(acp_lane *lane)
{
    enum { PIECES = ENTRIES_MAX + 8, FAR = 2 };
    uint64_t *words = calloc(FAR * PIECES, sizeof *words), word, refused;
    acp_ga_t ga, other;
    acp_handle_t pending;
    void *data;
    CHECK(acp_segment_register(lane, words, FAR * PIECES * 8, 0, &ga) == ACP_OK);
    int rc = ACP_OK;
    for (refused = 0; rc == ACP_OK; refused++) /* each leaves the word before it alone */
        rc = acp_segment_retire(lane, ga + 8 * (FAR * refused + 1), 8, NULL);
    refused--;
    CHECK(rc == ACP_E_REGIONS && acp_lane_fault(lane)->high == ENTRIES_MAX);
    CHECK(refused > ENTRIES_MAX / 2 && refused < ENTRIES_MAX);
    for (uint64_t i = 0; i < FAR * PIECES; i++) {
        bool dead = i % FAR == 1 && i / FAR < refused;
        words[i] = i + 1;
        rc = acp_get(lane, &word, ga + 8 * i, 8, &pending);
        CHECK(dead ? rc == ACP_E_UNREGISTERED : rc == ACP_OK && word == i + 1);
    }
    CHECK(acp_segment_register(lane, words + 1, 8, 0, &other) == ACP_OK); /* one is left, */
    CHECK(acp_segment_register(lane, words + 1, 8, 0, &other) == ACP_E_REGIONS);
    CHECK(acp_memory_alloc(lane, 8, 0, &other, &data) == ACP_E_REGIONS);
    CHECK(acp_segment_retire(lane, ga, 8, NULL) == ACP_OK); /* and now another */
    CHECK(acp_memory_alloc(lane, 8, 0, &other, &data) == ACP_OK);
    acp_memory_drop(lane, data, 8);
    for (uint64_t i = refused; i > 0; i--) /* the last of the directory first */
        CHECK(acp_segment_retire(lane, ga + 8 * FAR * i, 0, NULL) == ACP_OK);
    free(words);
}

static void limits_hold(acp_engine *e, acp_lane *lane)
{
    acp_ga_t ga;
    void *data = &ga;
    uint64_t before = committed(e);
    CHECK(acp_memory_alloc(lane, 257 << 20, 0, &ga, &data) == ACP_E_FULL);
    CHECK(acp_memory_alloc(lane, UINT64_MAX - 4096, 0, &ga, &data) == ACP_E_FULL);
    CHECK(acp_memory_alloc(lane, 8, ACP_COLORS, &ga, &data) == ACP_E_ARGUMENT);
    CHECK(acp_segment_register(lane, data, 8, ACP_COLORS, &ga) == ACP_E_ARGUMENT);
    CHECK(committed(e) == before);
}

/* Whoever is inside keeps the memory: a peer, or a thread of the owner that serves one. */
static void release_waits(acp_engine *owner, acp_lane *insider)
{
    acp_lane *lane = acp_engine_lane(owner);
    acp_ga_t ga;
    void *data;
    uint64_t ticket;
    CHECK(acp_memory_alloc(lane, 4096, 0, &ga, &data) == ACP_OK);
    const struct translation *t = translate_find(insider, ROLE_DST, ga, 8);
    CHECK(t && translate_enter(t, ROLE_DST));
    CHECK(acp_segment_retire(lane, ga, 0, &ticket) == ACP_OK);
    CHECK(acp_segment_quiet(owner, ticket, 20000000) == ACP_E_TIMEOUT);
    CHECK(!translate_enter(t, ROLE_SRC));
    translate_leave(t, ROLE_DST);
    CHECK(acp_segment_quiet(owner, ticket, ACP_FOREVER) == ACP_OK);
}

static void release_forgets_the_dead(acp_engine *owner)
{
    acp_lane *lane = acp_engine_lane(owner);
    acp_ga_t ga;
    void *data;
    uint64_t ticket;
    CHECK(acp_memory_alloc(lane, 4096, 0, &ga, &data) == ACP_OK);
    pid_t dead = fork();
    if (dead == 0)
        _exit(0);
    CHECK(waitpid(dead, NULL, 0) == dead);
    struct attach_line *line = &owner->doors->lines[100];
    line->pid = (uint32_t)dead;
    line->start_time = 1;
    line->busy[0] = 1;
    line->holder = 99;
    CHECK(acp_segment_retire(lane, ga, 0, &ticket) == ACP_OK);
    CHECK(acp_segment_quiet(owner, ticket, ACP_FOREVER) == ACP_OK);
}

/* A writer that died between claiming a cell and filling it does not block the ring. */
static void dead_writer_is_skipped(acp_engine *owner, acp_engine *peer)
{
    acp_lane *lane = acp_engine_lane(peer);
    uint64_t tail = owner->doors->tail;
    owner->doors->cells[tail % INBOX_CELLS].state =
        (tail / INBOX_CELLS) << 32 | (uint64_t)CELL_CLAIMED << 30 | 100;
    owner->doors->tail = tail + 1;
    static uint64_t words[1];
    acp_ga_t ga;
    CHECK(acp_segment_register(acp_engine_lane(owner), words, 8, 0, &ga) == ACP_OK);
    for (int i = 0; i < 600; i++) {
        acp_handle_t h = acp_atomic(lane, ACP_ADD8, 0, ga, 1, 0, ACP_HANDLE_NULL);
        CHECK(h || acp_lane_fault(lane)->status == ACP_E_BUSY);
        if (!h) {
            CHECK(acp_wait_room(peer, ACP_FOREVER) == ACP_OK);
            i--;
        }
    }
    CHECK(acp_complete(peer, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    CHECK(words[0] == 600);
}

#define VISITS 30000u
#define GUEST_LINE 100u

static _Atomic uint32_t visits;

/* A process that says one thing and ends in order, again and again. */
static void *come_and_go(void *engine)
{
    acp_engine *owner = engine;
    struct attach_line *line = &owner->doors->lines[GUEST_LINE];
    for (uint32_t i = 0; i < VISITS; i++) {
        uint64_t tail = owner->doors->tail, turn = tail / INBOX_CELLS << 32;
        struct cell *cell = &owner->doors->cells[tail % INBOX_CELLS];
        line->holder = CLAIMING | owner->row.pid;
        while (cell->state != turn)
            sched_yield();
        cell->state = turn | (uint64_t)CELL_CLAIMED << 30 | GUEST_LINE;
        owner->doors->tail = tail + 1;
        cell->message = (struct message){.kind = ACP_ADD8, .from = 1, .id = 1, .a = 1,
                                         .src = acp_starter(owner, 0)};
        cell->state = turn | (uint64_t)CELL_FULL << 30 | GUEST_LINE;
        line->holder = 0;
        atomic_fetch_add(&visits, 1);
    }
    return NULL;
}

/* What it has said before is heard, even by who saw it about to write and then saw that it has ended. */
static void writer_that_ended_is_heard(acp_engine *owner, acp_lane *lane)
{
    pthread_t guest;
    uint64_t word = 0;
    acp_handle_t pending;
    CHECK(acp_put(lane, acp_starter(owner, 0), &word, 8, &pending) == ACP_OK && !pending);
    CHECK(pthread_create(&guest, NULL, come_and_go, owner) == 0);
    while (!progress_leader_try(owner))
        sched_yield();
    while (visits < VISITS || shm_ring_due(owner) == DUE_NOW)
        progress_poll(owner);
    progress_leader_release(owner);
    pthread_join(guest, NULL);
    CHECK(acp_get(lane, &word, acp_starter(owner, 0), 8, &pending) == ACP_OK && !pending);
    CHECK(word == VISITS);
}

static void *go_on(void *context)
{
    (void)context;
    for (;;)
        pause();
    return NULL;
}

/* Its first thread has ended, and another may be in the middle of a copy. */
static void who_still_has_a_thread_lives(void)
{
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nobody */
        if (pthread_create(&thread, NULL, go_on, NULL))
            _exit(1);
        pthread_exit(NULL);
    }
    CHECK(child > 0);
    char path[64], text[512] = "";
    bool dead = true;
    snprintf(path, sizeof path, "/proc/%d/stat", child);
    while (!strstr(text, ") Z ")) {
        FILE *f = fopen(path, "r");
        CHECK(f && fgets(text, sizeof text, f));
        fclose(f);
    }
    uint64_t start = linux_start_time((uint32_t)child, &dead);
    CHECK(!dead && linux_process_lives((uint32_t)child, start));
    CHECK(kill(child, SIGKILL) == 0);
    siginfo_t how;
    CHECK(waitid(P_PID, (id_t)child, &how, WEXITED | WNOWAIT) == 0);
    CHECK(!linux_process_lives((uint32_t)child, start));
    CHECK(waitpid(child, NULL, 0) == child);
}

int main(void)
{
    struct cluster c;
    who_still_has_a_thread_lives();
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_lane *lane = acp_engine_lane(c.engines[0]);
    memory_goes_back(c.engines[0], lane);
    offsets_come_round(lane);
    pieces_end_alone(lane);
    pieces_are_not_lost(lane);
    limits_hold(c.engines[0], lane);
    release_waits(c.engines[0], acp_engine_lane(c.engines[1]));
    release_waits(c.engines[0], lane);
    release_forgets_the_dead(c.engines[0]);
    dead_writer_is_skipped(c.engines[0], c.engines[1]);
    writer_that_ended_is_heard(c.engines[0], lane);
    cluster_stop(&c);
    return 0;
}
