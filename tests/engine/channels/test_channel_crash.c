/* A process dies at each store into a ring and before each note of an end, from its creation to its close: what it had
 * published is received, the other one learns of the loss, and nothing of the channel is left there. */
#include "cluster/channel_end.h"
#include "cluster/half_of_two.h"
#include "support/crash.h"

#include <sys/socket.h>

enum { MESSAGES = 7, SLOTS = 2, SIZE = 100 };

static const acp_channel_shape shape = {.size = SIZE, .type = 1, .slots = SLOTS};

static uint64_t size_of(uint64_t n)
{
    return n * 37 % (SIZE + 1);
}

/* Every third by a queue, the others into the receiver's buffer, if it waits with one; every other one in the slot. */
static int send_one(acp_channel *end, uint64_t n)
{
    unsigned char data[SIZE];
    uint64_t size = size_of(n), whole;
    memset(data, (int)n, size);
    if (n % 3 == 0) {
        acp_channel_op *op = acp_channel_begin(end, data, size);
        CHECK(op && acp_channel_op_wait(op, ACP_FOREVER) == ACP_OK);
        return acp_channel_op_end(op, &whole);
    }
    int rc = acp_channel_open(end, ACP_FOREVER);
    if (rc != ACP_OK)
        return rc;
    void *slot = NULL;
    if ((rc = acp_channel_send_into(end, data, size)) != ACP_E_HANDLE) {
        acp_channel_give_turn(end);
        return rc;
    }
    rc = ACP_OK;
    if (n % 2 && (rc = acp_channel_reserve(end, true)) == ACP_OK) {
        CHECK((slot = acp_channel_slot(end)));
        memcpy(slot, data, size);
    }
    if (rc == ACP_OK)
        rc = acp_channel_commit(end, slot ? slot : data, size, size, true, ACP_FOREVER);
    if (slot)
        acp_channel_reserve(end, false);
    acp_channel_give_turn(end);
    return rc;
}

static int take_one(acp_channel *end, uint64_t n)
{
    unsigned char buffer[SIZE];
    acp_piece p;
    int rc = acp_channel_take_into(end, buffer, sizeof buffer, ACP_FOREVER, &p);
    if (rc != ACP_OK)
        return rc;
    CHECK(p.first && p.size == size_of(n) && p.rest == p.size);
    for (uint64_t i = 0; i < p.size; i++)
        CHECK(((const unsigned char *)p.data)[i] == n);
    acp_channel_release(end, p.number);
    acp_channel_give_turn(end);
    return ACP_OK;
}

/* Until all are sent or received, or the other one is gone. */
static int move(acp_channel *end, bool sends, struct record *moved)
{
    int rc = ACP_OK;
    for (uint64_t n = 1; n <= MESSAGES && rc == ACP_OK; n++) {
        moved->begun = n;
        rc = sends ? send_one(end, n) : take_one(end, n);
        moved->ended += rc == ACP_OK;
    }
    return rc;
}

static bool anything_left(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool any = e->channels.offers || e->channels.unmet;
    for (uint64_t i = 0; i < e->channels.room; i++)
        any |= e->channels.ends[i] != NULL;
    pthread_mutex_unlock(&e->lock);
    return any;
}

static uint64_t blocks_of(acp_engine *e)
{
    acp_heap_statistics s;
    struct acp_call call;
    acp_handle_t pending;
    int rc;
    while ((rc = acp_heap_look(acp_engine_lane(e), acp_rank(e), &s, &call, &pending)) == ACP_E_BUSY)
        sched_yield();
    CHECK(rc == ACP_OK && !pending);
    return s.blocks;
}

struct victim {
    struct record moved;
    _Atomic bool finished;
};

/* The other process has died at its store number `fault`. False: it had finished before. */
static bool survives(bool sends, acp_path path, uint64_t fault, struct victim *victim)
{
    struct record *theirs = &victim->moved;
    struct record mine = {.begun = 0};
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    theirs->begun = theirs->ended = 0;
    victim->finished = false;
    pid_t child = child_start();
    if (!child) {
        acp_engine *e = half_of_two(fds[1], 1, path, NULL);
        fault_left = fault;
        acp_channel *end = channel_end_open(acp_engine_lane(e), 0, shape, !sends);
        move(end, !sends, theirs);
        acp_channel_free(end);
        victim->finished = true;
        kill(getpid(), SIGKILL);
    }
    acp_engine *e = half_of_two(fds[0], 0, path, NULL);
    uint64_t before = blocks_of(e);
    acp_channel *end = channel_end_open(acp_engine_lane(e), 1, shape, sends);
    int rc = move(end, sends, &mine);
    CHECK(was_killed(child));
    while (rc == ACP_OK)
        rc = acp_channel_await(end, ACP_CHANNEL_READY, ACP_FOREVER);
    CHECK(rc == ACP_E_LEFT || rc == ACP_E_LOST);
    if (!sends)
        CHECK(mine.ended <= theirs->begun && (mine.ended >= theirs->ended || path == ACP_PATH_LINK));
    else
        CHECK(theirs->ended <= mine.begun && mine.ended <= theirs->begun + SLOTS);
    acp_channel_free(end);
    while (anything_left(e) || blocks_of(e) != before)
        sched_yield();
    acp_engine_close(e);
    acp_engine_free(e);
    close(fds[0]);
    close(fds[1]);
    return !victim->finished;
}

int main(void)
{
    static const acp_path paths[] = {ACP_PATH_ANY, ACP_PATH_LINK};
    struct victim *victim = shared_memory(sizeof *victim);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t fault = 1;
        while (survives(i % 2, paths[i / 2], fault, victim))
            fault++;
        printf("channels%s: %lu %s killed\n", i / 2 ? " by link" : "", (unsigned long)fault - 1,
               i % 2 ? "receivers" : "senders");
        CHECK(fault > 8);
    }
    return 0;
}
