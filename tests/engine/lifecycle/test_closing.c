/* An engine is closed while other threads are in calls of it, which the mappings outlive: they open
 * nothing any more, and use no descriptor whose number another file may have by then. */
#include "cluster/mailing.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"
#include "peers/peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST ((uint64_t)12 << 20)

static uint32_t descriptors(void)
{
    uint32_t count = 0;
    DIR *all = opendir("/proc/self/fd");
    CHECK(all != NULL);
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

/* To a rank that the process has never talked to. */
static void nothing_is_opened_after_the_end(void)
{
    struct cluster c;
    uint64_t word = 7;
    acp_handle_t pending;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_lane_take(e);
    acp_engine_close(e);
    uint32_t before = descriptors();
    acp_put(lane, acp_starter(e, 1), &word, sizeof word, &pending);
    peer_watch(e, peer_of_slot(e, 1));
    CHECK(descriptors() == before && !c.engines[1]->doors->lines[1].holder);
    acp_lane_give(lane);
    acp_engine_free(e);
    acp_engine_close(c.engines[1]);
    acp_engine_free(c.engines[1]);
}

/* A file with the number of the engine's memory. */
static int file_in_place_of(int number)
{
    int fd;
    while ((fd = memfd_create("another file", MFD_CLOEXEC)) < number)
        CHECK(fd >= 0);
    CHECK(fd == number && fallocate(fd, 0, 0, (off_t)(4 * MOST)) == 0);
    return fd;
}

static blkcnt_t blocks_of(int fd)
{
    struct stat st;
    CHECK(fstat(fd, &st) == 0);
    return st.st_blocks;
}

/* The heap grows, and gives memory back, in the file that it was and in no other. */
static void no_other_file_is_taken_for_the_heap(void)
{
    struct cluster c;
    struct acp_call call;
    acp_handle_t pending;
    cluster_start(&c, 1, 1, ACP_PATH_ANY, false);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_lane_take(e);
    int number = e->memory.fd;
    CHECK(acp_malloc(lane, 0, MOST, &call, &pending) == ACP_OK);
    CHECK(acp_free(lane, call.result[0], &call, &pending) == ACP_OK && call.result[0]);
    acp_engine_close(e);
    int other = file_in_place_of(number);
    blkcnt_t before = blocks_of(other);
    CHECK(acp_heap_tidy(lane, 0, &call, &pending) == ACP_E_CLOSED);
    CHECK(acp_lane_fault(lane)->status == ACP_E_CLOSED);
    CHECK(acp_malloc(lane, 0, 8 * MOST, &call, &pending) == ACP_E_CLOSED);
    CHECK(acp_lane_fault(lane)->status == ACP_E_CLOSED);
    CHECK(blocks_of(other) == before);
    while (--number > 2) /* what file_in_place_of has opened on its way */
        if (fcntl(number, F_GET_SEALS) == F_SEAL_SEAL)
            close(number);
    close(other);
    acp_lane_give(lane);
    acp_engine_free(e);
}

/* Who finds that a process is dead rings while it has the space lock: the end takes both in that order,
 * as the thread sanitizer sees. */
static void a_death_is_found_before_the_end(void)
{
    struct cluster c;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    struct peer *p = peer_of_slot(c.engines[0], 1);
    p->row.start_time++; /* another process has its number */
    peer_watch(c.engines[0], p);
    CHECK(p->lost);
    for (uint32_t i = 0; i < 2; i++) {
        acp_engine_close(c.engines[i]);
        acp_engine_free(c.engines[i]);
    }
}

static struct {
    struct heap *heap;
    acp_lane *lane;
    _Atomic bool inside, over;
} intruder;

static void *keep_busy(void *unused)
{
    struct hold hold;
    acp_lane lane = *intruder.lane;
    (void)unused;
    CHECK(transaction_enter(&hold, &lane, &intruder.heap->head->section, intruder.heap, 0) == ACP_OK);
    atomic_store(&intruder.inside, true);
    UNTIL(atomic_load(&intruder.over));
    transaction_leave(&hold);
    return NULL;
}

static int close_and_raise(void *engine, int reason)
{
    (void)reason;
    acp_engine_close(engine);
    return 1;
}

/* Its caller is to see what it has raised, not that the engine is closed. */
static void a_handler_closes_it_and_raises(void)
{
    struct cluster c;
    struct acp_call call;
    acp_handle_t pending;
    pthread_t thread;
    cluster_start(&c, 1, 1, ACP_PATH_ANY, false);
    acp_engine *e = c.engines[0];
    e->config.tick = close_and_raise;
    e->config.tick_context = e;
    intruder.heap = mailbox_heap(e, e->job.own);
    intruder.lane = acp_lane_take(e);
    acp_lane *lane = acp_lane_take(e);
    CHECK(pthread_create(&thread, NULL, keep_busy, NULL) == 0);
    UNTIL(atomic_load(&intruder.inside));
    CHECK(acp_malloc(lane, 0, 100, &call, &pending) == ACP_E_INTERRUPTED);
    CHECK(acp_malloc(lane, 0, 100, &call, &pending) == ACP_E_CLOSED);
    atomic_store(&intruder.over, true);
    CHECK(pthread_join(thread, NULL) == 0);
    acp_lane_give(lane);
    acp_lane_give(intruder.lane);
    acp_engine_free(e);
}

/* Another thread waited in a receive, and its caller has the memory again. */
static void a_message_after_the_end(void)
{
    struct cluster c;
    struct pages p = pages_take();
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_request *r = ireceive(acp_engine_lane(c.engines[1]), 0, 5, p.theirs, LARGE);
    paint(p.mine, LARGE, 1);
    paint(p.theirs, LARGE, 2);
    CHECK(mailbox_heap(c.engines[0], peer_of_slot(c.engines[0], 1)));
    acp_engine_hold(c.engines[1]);
    acp_engine_close(c.engines[1]);
    post_message(acp_engine_lane(c.engines[0]), 1, 5, p.mine, LARGE);
    CHECK(painted(p.theirs, LARGE, 2));
    acp_request_end(acp_engine_lane(c.engines[1]), r, NULL);
    acp_engine_close(c.engines[0]);
    acp_engine_free(c.engines[0]);
    acp_engine_free(c.engines[1]);
    acp_engine_free(c.engines[1]);
    pages_give(p);
}

/* Nor is memory written that was registered. */
static void a_transfer_after_the_end(void)
{
    struct cluster c;
    char theirs[16] = "before";
    acp_ga_t ga;
    acp_handle_t pending;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_lane *lane = acp_engine_lane(c.engines[0]);
    CHECK(acp_segment_register(acp_engine_lane(c.engines[1]), theirs, sizeof theirs, 0, &ga) == ACP_OK);
    CHECK(acp_put(lane, ga, "mine", 5, &pending) == ACP_OK && !strcmp(theirs, "mine"));
    acp_engine_hold(c.engines[1]);
    acp_engine_close(c.engines[1]);
    CHECK(acp_put(lane, ga, "after", 6, &pending) == ACP_E_LOST && !strcmp(theirs, "mine"));
    acp_engine_close(c.engines[0]);
    acp_engine_free(c.engines[0]);
    acp_engine_free(c.engines[1]);
    acp_engine_free(c.engines[1]);
}

static _Atomic uint32_t calls;
static _Atomic bool over;

/* Whatever comes of it: it ends, and uses nothing that is gone. What a wait leaves under way at the end may
 * still write to `call` and `bytes`. */
static void call_something(acp_engine *e, acp_lane *lane, uint32_t turn, struct acp_call *call,
                           unsigned char *bytes)
{
    acp_envelope envelope = {.tag = 1, .source = 1, .size = turn % 8 == 2 ? 8 : MOST / 16};
    acp_handle_t pending = 0;
    acp_doing doing;
    acp_request *r = NULL;
    acp_ga_t ga;
    void *address;
    switch (turn % 8) {
    case 0:
        acp_put(lane, acp_starter(e, 1) + 9000, bytes, 8, &pending);
        break;
    case 1:
        acp_get(lane, bytes + MOST / 4, acp_starter(e, 1), 8192, &pending);
        break;
    case 2:
    case 3:
        if (acp_send(lane, 1, &envelope, bytes + MOST / 2, &r) == ACP_OK && r)
            acp_request_end(lane, r, NULL);
        if (acp_receive(lane, &envelope, bytes + 3 * MOST / 4, &r) == ACP_OK)
            acp_request_end(lane, r, NULL);
        break;
    case 4:
    case 5:
        if (acp_malloc(lane, turn % 2, MOST / 4, call, &pending) == ACP_OK && !pending)
            acp_free(lane, call->result[0], call, &pending);
        break;
    case 6:
        if (acp_memory_alloc(lane, MOST / 4, 0, &ga, &address) == ACP_OK)
            acp_memory_drop(lane, address, MOST / 4);
        break;
    default:
        acp_peer_doing(e, 1, &doing);
    }
    if (pending)
        acp_wait(e, pending, ACP_FOREVER);
}

static void *call_all_the_time(void *engine)
{
    unsigned char *bytes = calloc(1, MOST);
    struct acp_call *call = calloc(1, sizeof *call);
    for (uint32_t turn = 0; !atomic_load(&over); turn++) {
        acp_lane *lane = acp_lane_take(engine);
        if (lane) {
            call_something(engine, lane, turn, call, bytes);
            acp_lane_give(lane);
        }
        atomic_fetch_add(&calls, 1);
    }
    free(call);
    free(bytes);
    return NULL;
}

static void calls_of_all_kinds_at_the_end(uint32_t nodes)
{
    enum { CALLERS = 4 };
    for (uint32_t round = 0; round < 8; round++) {
        struct cluster c;
        pthread_t threads[CALLERS];
        cluster_start(&c, 2, nodes, ACP_PATH_ANY, CLUSTER_SHARED);
        acp_engine_hold(c.engines[0]);
        atomic_store(&over, false);
        atomic_store(&calls, 0);
        for (uint32_t i = 0; i < CALLERS; i++)
            CHECK(pthread_create(&threads[i], NULL, call_all_the_time, c.engines[0]) == 0);
        UNTIL(atomic_load(&calls) > 20 * round);
        acp_engine_close(c.engines[0]);
        uint32_t now = atomic_load(&calls);
        UNTIL(atomic_load(&calls) > now + 40);
        atomic_store(&over, true);
        for (uint32_t i = 0; i < CALLERS; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        acp_engine_free(c.engines[0]);
        acp_engine_free(c.engines[0]);
        acp_engine_close(c.engines[1]);
        acp_engine_free(c.engines[1]);
    }
}

int main(void)
{
    calls_of_all_kinds_at_the_end(1);
    calls_of_all_kinds_at_the_end(2);
    a_transfer_after_the_end();
    a_message_after_the_end();
    nothing_is_opened_after_the_end();
    no_other_file_is_taken_for_the_heap();
    a_death_is_found_before_the_end();
    a_handler_closes_it_and_raises();
    return 0;
}
