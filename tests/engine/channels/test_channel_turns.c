/* Several threads at one end of a channel, by every road: one has its turn until it gives it back, also while others run
 * out of time or close the end; what was begun meanwhile goes on then. A wait for one of several. */
#include "cluster/channel_end.h"
#include "channels/channel.h"
#include "core/messages.h"

enum { SIZE = 100, PIECES = 3 };

static const acp_channel_shape shapes[] = {{.size = SIZE, .type = 1, .slots = 2}, {.size = SIZE, .type = 1, .slots = 8}};
static const uint32_t both[] = {0, 1};

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
}

static void send_one(acp_channel *end, uint64_t n)
{
    CHECK(acp_channel_open(end, ACP_FOREVER) == ACP_OK);
    CHECK(acp_channel_commit(end, &n, sizeof n, sizeof n, true, ACP_FOREVER) == ACP_OK);
    acp_channel_give_turn(end);
}

static void take_one(acp_channel *end, uint64_t n)
{
    acp_piece p;
    CHECK(acp_channel_take(end, ACP_FOREVER, &p) == ACP_OK);
    CHECK(p.first && p.size == sizeof n && memcmp(p.data, &n, sizeof n) == 0);
    acp_channel_release(end, p.number);
    acp_channel_give_turn(end);
}

/* A call of another thread. */
struct call {
    acp_channel *end;
    int64_t timeout_ns;
    pthread_t thread;
    int rc;
    _Atomic bool over;
};

static void *opens(void *context)
{
    struct call *c = context;
    c->rc = acp_channel_open(c->end, c->timeout_ns);
    if (c->rc == ACP_OK)
        acp_channel_give_turn(c->end);
    return NULL;
}

static void *closes(void *context)
{
    struct call *c = context;
    acp_channel_close(c->end);
    c->over = true;
    return NULL;
}

static void begin(struct call *c, acp_channel *end, void *(*run)(void *), int64_t timeout_ns)
{
    *c = (struct call){.end = end, .timeout_ns = timeout_ns};
    CHECK(pthread_create(&c->thread, NULL, run, c) == 0);
}

static int finish(struct call *c)
{
    CHECK(pthread_join(c->thread, NULL) == 0);
    return c->rc;
}

static int another_opens(acp_channel *end, int64_t timeout_ns)
{
    struct call c;
    begin(&c, end, opens, timeout_ns);
    return finish(&c);
}

/* The caller has the turn: another thread gets it neither now nor later, nor takes it away when its time is over. */
static void check_turn(acp_channel *end)
{
    CHECK(acp_channel_open(end, 0) == ACP_E_HANDLE);
    CHECK(another_opens(end, 0) == ACP_E_TIMEOUT);
    CHECK(another_opens(end, 1000000) == ACP_E_TIMEOUT);
    CHECK(another_opens(end, 0) == ACP_E_TIMEOUT);
}

static void turns(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_piece p;
    struct call waits;
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[1], rank == 0);
        CHECK(rank ? acp_channel_memory(end) > acp_channel_bytes(SIZE, shapes[1].slots)
                   : acp_channel_memory(end) < acp_channel_bytes(SIZE, shapes[1].slots));
        for (int i = 0; i < 3; i++) {
            CHECK((rank ? acp_channel_take(end, ACP_FOREVER, &p) : acp_channel_open(end, ACP_FOREVER)) == ACP_OK);
            check_turn(end);
            begin(&waits, end, opens, ACP_FOREVER);
            while (atomic_load(&end->turn_waiters) == 0)
                sched_yield();
            if (rank)
                acp_channel_release(end, p.number);
            else
                CHECK(acp_channel_commit(end, &i, sizeof i, sizeof i, true, ACP_FOREVER) == ACP_OK);
            acp_channel_give_turn(end);
            if (rank == 0 && i == 2)
                send_one(end, 3); /* the last of the receiver's threads that wait */
            CHECK(finish(&waits) == ACP_OK);
        }
        meet(e);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Pieces of a message are taken in one turn. */
static void pieces(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    unsigned char bytes[SIZE];
    acp_piece p;
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[0], rank == 0);
        for (uint32_t i = 0; i < PIECES; i++) {
            uint64_t rest = (PIECES - i) * SIZE;
            if (rank == 0) {
                memset(bytes, (int)i, SIZE);
                CHECK((i ? acp_channel_await(end, ACP_CHANNEL_READY, ACP_FOREVER)
                         : acp_channel_open(end, ACP_FOREVER)) == ACP_OK);
                CHECK(acp_channel_commit(end, bytes, SIZE, rest, i == 0, ACP_FOREVER) == ACP_OK);
            } else {
                CHECK((i ? acp_channel_take_next : acp_channel_take)(end, ACP_FOREVER, &p) == ACP_OK);
                CHECK(p.first == (i == 0) && p.rest == rest && p.size == SIZE && *(const unsigned char *)p.data == i);
                acp_channel_release(end, p.number);
            }
            check_turn(end);
        }
        CHECK(rank == 0 || acp_channel_take_next(end, 0, &p) == ACP_E_TIMEOUT);
        acp_channel_give_turn(end);
        meet(e);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Sends that are begun while a thread has the turn go when it gives that back: no other event may come. */
static void begun_inside(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[1], rank == 0);
        uint64_t numbers[] = {1, 2}, size;
        acp_channel_op *ops[2];
        if (rank == 0)
            send_one(end, 0);
        else
            take_one(end, 0);
        meet(e);
        if (rank == 0) {
            CHECK(acp_channel_open(end, ACP_FOREVER) == ACP_OK);
            for (int i = 0; i < 2; i++)
                CHECK((ops[i] = acp_channel_begin(end, &numbers[i], sizeof *numbers)));
            CHECK(!acp_flag_is_set(acp_channel_op_done(ops[0])));
            acp_channel_give_turn(end);
            for (int i = 0; i < 2; i++) {
                while (!acp_flag_is_set(acp_channel_op_done(ops[i])))
                    sched_yield();
                CHECK(acp_channel_op_end(ops[i], &size) == ACP_OK && size == sizeof *numbers);
            }
        }
        meet(e);
        for (uint64_t n = 1; n < 3 && rank == 1; n++)
            take_one(end, n);
        meet(e);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* A short send that finds no slot sends nothing. */
static void full(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[0], rank == 0);
        CHECK(acp_channel_await(end, ACP_CHANNEL_MET, ACP_FOREVER) == ACP_OK);
        for (uint64_t n = 0; n < 4 && rank == 0; n++)
            CHECK(acp_channel_send_short(end, &n, sizeof n) == (n < shapes[0].slots ? ACP_OK : ACP_E_TIMEOUT));
        meet(e);
        for (uint64_t n = 0; n < 4; n++) {
            if (rank == 1)
                take_one(end, n);
            else if (n >= shapes[0].slots)
                send_one(end, n);
        }
        meet(e);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Another thread closes an end: at once while the program fills a reserved slot, which is not sent; where a call is in the
 * ring, when that has left it; and the thread with the turn does not wait for itself. */
static void closed_inside(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    for (int i = 0; i < 3 && rank < 2; i++) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[0], rank == 0);
        struct call close;
        acp_piece p;
        if (rank == 0) {
            send_one(end, 0);
            CHECK(acp_channel_open(end, ACP_FOREVER) == ACP_OK);
            if (i == 0) {
                CHECK(acp_channel_reserve(end, true) == ACP_OK);
                unsigned char *slot = acp_channel_slot(end);
                CHECK(slot);
                memset(slot, 1, SIZE);
                begin(&close, end, closes, 0);
                finish(&close);
                CHECK(acp_channel_commit(end, slot, SIZE, SIZE, true, ACP_FOREVER) == ACP_E_DESTROYED);
                acp_channel_reserve(end, false);
            } else if (i == 1) {
                CHECK(atomic_load(&end->turn) & CHANNEL_BUSY);
                begin(&close, end, closes, 0);
                while (!atomic_load(&end->closed))
                    sched_yield();
                for (int looks = 0; looks < 1000; looks++) {
                    CHECK(!close.over);
                    sched_yield();
                }
            } else {
                acp_channel_close(end);
            }
            acp_channel_give_turn(end);
            if (i == 1)
                finish(&close);
        } else {
            take_one(end, 0);
            CHECK(acp_channel_take(end, ACP_FOREVER, &p) == ACP_E_LEFT);
        }
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Of several ends that have something the one is chosen at which the look begins; a message, not its request, ends it. */
static void chosen(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    if (rank < 2) {
        acp_channel *ends[2];
        acp_request *request = NULL;
        acp_envelope envelope = {.source = 0, .tag = 1, .size = 8};
        uint64_t value = 7, got = 0;
        uint32_t which;
        for (uint64_t i = 0; i < 2; i++)
            ends[i] = channel_end_open(lane, 1 - rank, shapes[0], rank == 0);
        int rc = ACP_OK;
        while (rank == 1 && (rc = acp_receive(lane, &envelope, &got, &request)) == ACP_E_BUSY)
            sched_yield();
        CHECK(rc == ACP_OK);
        CHECK(rank == 0 || acp_channel_select(ends, 2, 0, request, 0, &which) == ACP_E_TIMEOUT);
        CHECK(rank == 0 || acp_channel_select(ends, 2, 0, request, 1000000, &which) == ACP_E_TIMEOUT);
        meet(e);
        while (rank == 0 && (rc = acp_send(lane, 1, &envelope, &value, &request)) == ACP_E_BUSY)
            sched_yield();
        CHECK(rc == ACP_OK);
        CHECK(rank == 0 || (acp_channel_select(ends, 2, 0, request, ACP_FOREVER, &which) == ACP_OK && which == 2));
        if (request) {
            CHECK(acp_request_wait(e, request, ACP_FOREVER) == ACP_OK && acp_request_end(lane, request, NULL) == ACP_OK);
            CHECK(rank == 0 || got == value);
        }
        meet(e);
        if (rank == 0)
            send_one(ends[1], 1);
        CHECK(rank == 0 || (acp_channel_select(ends, 2, 0, NULL, ACP_FOREVER, &which) == ACP_OK && which == 1));
        meet(e);
        if (rank == 0)
            send_one(ends[0], 0);
        CHECK(rank == 0 || acp_channel_await(ends[0], ACP_CHANNEL_READY, ACP_FOREVER) == ACP_OK);
        for (uint32_t i = 0; i < 3 && rank == 1; i++)
            CHECK(acp_channel_select(ends, 2, i, NULL, 0, &which) == ACP_OK && which == i % 2);
        for (uint64_t i = 0; i < 2 && rank == 1; i++)
            take_one(ends[i], i);
        meet(e);
        for (uint32_t i = 0; i < 2; i++)
            acp_channel_free(ends[i]);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Who waits until the ends have met hears that they differ. */
static void unequal(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[rank], rank == 0);
        CHECK(acp_channel_await(end, ACP_CHANNEL_MET, ACP_FOREVER) == ACP_E_MISMATCH);
        meet(e);
        CHECK(acp_channel_await(end, ACP_CHANNEL_MET, 0) == ACP_E_MISMATCH);
        meet(e);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

int main(void)
{
    static const cluster_body bodies[] = {turns, pieces, begun_inside, full, closed_inside, chosen, unequal};
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    printf("turns at channels by %u ways\n", (unsigned)CLUSTER_WAYS);
    return 0;
}
