/* Long messages into the buffer of a receiver that waits: whole and in order among those that go by slots, whichever of
 * both ends is late, gives up, or closes. */
#include "cluster/channel_end.h"
#include "channels/channel.h"
#include "channels/channel_direct.h"

enum { MESSAGES = 3000, SIZE = 300 };

static const acp_channel_shape shape = {SIZE, 1, 2, 0, false};

static uint64_t size_of(uint64_t n)
{
    return n < 2 ? SIZE : n * 7919 % (SIZE + 1);
}

/* By the buffer, if it can: `directly`. */
static int send_one(acp_channel *end, uint64_t n, bool *directly)
{
    unsigned char data[SIZE];
    memset(data, (int)(n % 251), sizeof data);
    int rc = acp_channel_open(end, ACP_FOREVER);
    if (rc != ACP_OK)
        return rc;
    rc = acp_channel_send_into(end, data, size_of(n));
    *directly = rc == ACP_OK;
    if (rc == ACP_E_HANDLE)
        rc = acp_channel_commit(end, data, size_of(n), size_of(n), true, ACP_FOREVER);
    acp_channel_give_turn(end);
    return rc;
}

static int take_one(acp_channel *end, uint64_t n, uint64_t room, int64_t timeout_ns, bool *directly)
{
    unsigned char buffer[SIZE];
    acp_piece p;
    memset(buffer, 255, sizeof buffer);
    int rc = acp_channel_take_into(end, buffer, room, timeout_ns, &p);
    if (rc != ACP_OK) {
        CHECK(buffer[0] == 255);
        return rc;
    }
    *directly = p.data == buffer;
    CHECK(p.first && p.size == size_of(n) && p.rest == p.size);
    CHECK(!*directly || p.size <= room);
    for (uint64_t i = 0; i < p.size; i++)
        CHECK(((const unsigned char *)p.data)[i] == n % 251);
    CHECK(!*directly || room == p.size || buffer[p.size] == 255);
    acp_channel_release(end, p.number);
    acp_channel_give_turn(end);
    return ACP_OK;
}

static void until_asked(acp_channel *end)
{
    while (atomic_load(&atomic_load(&end->ring)->asked) != end->next + 1)
        sched_yield();
}

/* The sender looks at what the receiver does: each case happens. */
static void cases(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const uint32_t both[] = {0, 1};
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shape, rank == 0);
        bool directly = false;
        for (uint64_t n = 0; n < 6; n++) {
            bool asks = n > 0, given_up = n == 3, small = n == 4;
            uint64_t room = small ? CHANNEL_LONG : SIZE;
            if (rank == 0) {
                if (given_up)
                    CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
                else if (asks)
                    until_asked(end);
                CHECK(send_one(end, n, &directly) == ACP_OK);
                CHECK(directly == (asks && !given_up && size_of(n) >= CHANNEL_LONG && size_of(n) <= room));
            } else {
                if (given_up) {
                    CHECK(take_one(end, n, room, 1000000, &directly) == ACP_E_TIMEOUT);
                    CHECK(!atomic_load(&end->ring->asked));
                    CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
                    CHECK(acp_channel_await(end, ACP_CHANNEL_READY, ACP_FOREVER) == ACP_OK);
                }
                CHECK(take_one(end, n, room, ACP_FOREVER, &directly) == ACP_OK);
            }
        }
        if (rank == 0) {
            until_asked(end);
            acp_channel_close(end);
        } else {
            end->directly = true;
            CHECK(take_one(end, 6, SIZE, ACP_FOREVER, &directly) == ACP_E_LEFT);
        }
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* At any speed of both; the receiver gives up now and then. */
static void mixed(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shape, rank == 0);
        bool directly;
        for (uint64_t n = 0; n < MESSAGES; n++) {
            if (n % 97 == rank * 40 || n % 7 == rank)
                sched_yield();
            int rc = ACP_E_TIMEOUT;
            while (rank == 1 && rc == ACP_E_TIMEOUT)
                rc = take_one(end, n, n % 3 ? SIZE : CHANNEL_LONG, n % 5 ? ACP_FOREVER : (int64_t)(n % 11) * 1000, &directly);
            CHECK((rank ? rc : send_one(end, n, &directly)) == ACP_OK);
        }
        acp_channel_look l;
        acp_channel_look_at(end, &l);
        CHECK(l.messages == MESSAGES);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* A wild pointer makes the buffer look larger: the receiver hears of the message that was cut, and gets the next. */
static void damaged(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shape, rank == 0);
        bool directly = false;
        for (uint64_t n = 0; n < 3; n++) {
            if (rank == 0) {
                if (n == 1) {
                    until_asked(end);
                    atomic_store(&end->ring->room, SIZE);
                }
                CHECK(send_one(end, n, &directly) == ACP_OK);
                CHECK(n != 1 || directly);
            } else if (n == 1) {
                unsigned char buffer[CHANNEL_LONG];
                acp_piece p;
                CHECK(acp_channel_take_into(end, buffer, sizeof buffer, ACP_FOREVER, &p) == ACP_E_DAMAGED);
            } else {
                CHECK(take_one(end, n, SIZE, ACP_FOREVER, &directly) == ACP_OK);
            }
        }
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void *closes(void *end)
{
    until_asked(end);
    acp_channel_close(end);
    return NULL;
}

/* Another thread closes the receiver's end while it waits with a buffer. */
static void closed(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const uint32_t both[] = {0, 1};
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shape, rank == 0);
        bool directly;
        if (rank == 0) {
            CHECK(send_one(end, 0, &directly) == ACP_OK);
        } else {
            pthread_t thread;
            CHECK(take_one(end, 0, SIZE, ACP_FOREVER, &directly) == ACP_OK);
            CHECK(pthread_create(&thread, NULL, closes, end) == 0);
            CHECK(take_one(end, 1, SIZE, ACP_FOREVER, &directly) == ACP_E_DESTROYED);
            CHECK(pthread_join(thread, NULL) == 0);
        }
        CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

int main(void)
{
    static const cluster_body bodies[] = {cases, mixed, damaged, closed};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct cluster c;
        cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
        cluster_run(&c, bodies[i]);
        cluster_stop(&c);
    }
    return 0;
}
