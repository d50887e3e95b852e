/* The order of operations: what one brings is there before the next begins, and none begins whose order
 * has failed. */
#include "cluster/bell.h"
#include "operations/op_table.h"

#define ROUNDS 50u

static acp_handle_t must(acp_lane *lane, acp_handle_t handle)
{
    CHECK(handle != 0);
    acp_lane_previous(lane, handle);
    return handle;
}

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void complete_all(acp_engine *e)
{
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK && acp_quiet(e));
}

static uint64_t *words_of(acp_engine *e, uint32_t rank)
{
    void *address;
    CHECK(acp_query_address(acp_engine_lane(e), acp_starter(e, rank), 8, &address) == ACP_OK);
    return address;
}

/* The old value of an atomic comes by way of its caller; what is sent behind it may be there first. */
static void old_values_are_there(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t *mine = words_of(e, rank), registered[2] = {20, 0}, ticket;
    uint64_t key[2] = {1, 1}, value[2] = {0, 0};
    acp_ga_t here = acp_starter(e, 0), there = acp_starter(e, 1), private;
    (void)c;
    mine[0] = 10;
    if (rank == 1) {
        CHECK(acp_segment_register(lane, registered, sizeof registered, 0, &value[0]) == ACP_OK);
        CHECK(acp_publish(e, key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    }
    CHECK(acp_lookup(e, key, value, ACP_FOREVER) == ACP_OK);
    private = value[0];
    meet(e);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        if (rank == 0) {
            must(lane, acp_atomic(lane, ACP_ADD8, here + 8, there, 1, 0, ACP_HANDLE_NULL));
            must(lane, acp_copy(lane, there + 8, here + 8, 8, ACP_HANDLE_CONT));
            must(lane, acp_atomic(lane, ACP_ADD8, private + 8, private, 1, 0, ACP_HANDLE_NULL));
            must(lane, acp_atomic(lane, ACP_ADD8, ACP_GA_NULL, private + 8, 7, 0, ACP_HANDLE_CONT));
            complete_all(e);
        }
        meet(e);
        CHECK(rank != 1 || mine[1] == 10 + i);
        CHECK(rank != 1 || registered[1] == 20 + i + 7);
        meet(e);
    }
    if (rank == 1) {
        CHECK(acp_segment_retire(lane, private, 0, &ticket) == ACP_OK);
        CHECK(acp_segment_quiet(e, ticket, ACP_FOREVER) == ACP_OK);
    }
    meet(e);
}

/* A put reads what was brought to its source, not what was there before: to memory of the caller by the
 * owner of the data, to memory of that owner, which the caller sees, by a put. */
static void a_put_reads_what_was_brought(struct cluster *c, uint32_t rank, acp_engine *e,
                                         acp_lane *lane)
{
    uint64_t *mine = words_of(e, rank), seen;
    acp_ga_t here = acp_starter(e, 0), there = acp_starter(e, 1);
    void *view = &seen;
    bool sees = acp_query_address(lane, there + 48, 8, &view) == ACP_OK;
    (void)c;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        mine[4] = rank * i;
        meet(e);
        if (rank == 0) {
            must(lane, acp_copy(lane, here + 32, there + 32, 8, ACP_HANDLE_NULL));
            must(lane, acp_iput(lane, there + 40, &mine[4], 8, ACP_HANDLE_CONT));
            seen = i;
            must(lane, acp_iput(lane, there + 48, &i, 8, ACP_HANDLE_NULL));
            must(lane, acp_iput(lane, there + 56, view, 8, ACP_HANDLE_CONT));
            complete_all(e);
        }
        meet(e);
        CHECK(rank != 1 || mine[5] == i);
        CHECK(rank != 1 || mine[7] == i);
    }
    if (sees)
        acp_forget_address(e, there + 48);
}

/* An address that only its owner knows to be none. */
static acp_ga_t nowhere_at(acp_engine *e, uint32_t rank)
{
    return acp_starter(e, rank) + (1 << 20);
}

static void expect_failure(acp_engine *e, acp_handle_t handle, bool alone)
{
    acp_failure failure;
    uint64_t more;
    CHECK(acp_failures_take(e, handle, alone, &failure, 1, &more) == 1 && !more);
    CHECK(failure.handle == handle && failure.fault.status == ACP_E_UNREGISTERED);
}

/* Another thread may be told of the error before what waits for both of two operations can begin. */
static void an_error_told_meanwhile_counts(bool earlier)
{
    struct cluster c;
    cluster_start(&c, 3, 3, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e);
    uint64_t word = 7, back = 0;
    acp_handle_t bad = 0, slow, last;
    pthread_mutex_lock(&c.engines[2]->lock); /* it answers later */
    if (earlier) {
        bad = must(lane, acp_iput(lane, nowhere_at(e, 1), &word, 8, ACP_HANDLE_NULL));
        CHECK(acp_wait(e, bad, ACP_FOREVER) == ACP_OK);
    }
    slow = must(lane, acp_iput(lane, acp_starter(e, 2), &word, 8, ACP_HANDLE_NULL));
    if (!earlier)
        bad = must(lane, acp_iput(lane, nowhere_at(e, 1), &word, 8, ACP_HANDLE_NULL));
    last = must(lane, acp_iput(lane, acp_starter(e, 1), &word, 8, earlier ? slow : bad));
    CHECK(acp_wait(e, bad, ACP_FOREVER) == ACP_OK);
    expect_failure(e, bad, true);
    pthread_mutex_unlock(&c.engines[2]->lock);
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    expect_failure(e, last, false);
    must(lane, acp_iget(lane, &back, acp_starter(e, 1), 8, ACP_HANDLE_NULL));
    complete_all(e);
    CHECK(back == 0);
    cluster_stop(&c);
}

/* Whoever asks while an operation ends finds that it runs or that it has failed, not that it is done. */
static void what_fails_is_never_done(void)
{
    struct cluster c;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e);
    uint64_t word = 7;
    for (uint32_t i = 0; i < 2000; i++) {
        acp_handle_t bad = must(lane, acp_iput(lane, nowhere_at(e, 1), &word, 8, ACP_HANDLE_NULL));
        while (!atomic_load(&e->ops.failure_count))
            CHECK(!op_table_order_met(e, lane, ACP_HANDLE_CONT));
        CHECK(acp_complete(e, bad, ACP_FOREVER) == ACP_OK);
        expect_failure(e, bad, false);
    }
    cluster_stop(&c);
}

/* Who asks for old values waits for them: nobody else is told that there are none. */
static void old_values_of_many_fail_alone(void)
{
    struct cluster c;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e);
    uint64_t one = 1, old[10], bad, more;
    acp_ga_t ga = nowhere_at(e, 1);
    acp_failure failure;
    acp_handle_t handle = must(lane, acp_atomic_many(lane, ACP_ADD8, (acp_column){(char *)&ga, 0},
                                                     (acp_column){(char *)&one, 0},
                                                     (acp_column){NULL, 0}, old, 10,
                                                     ACP_HANDLE_NULL, &bad));
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    CHECK(acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more) == 0);
    expect_failure(e, handle, true);
    cluster_stop(&c);
}

/* Who waits for one operation alone takes its error, and leaves it to all others when it waits no longer. */
static void what_is_left_to_others_wakes_them(void)
{
    struct cluster c;
    cluster_start(&c, 1, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), before = change_bell(e, bell);
    acp_await_alone(e, 2, false);
    CHECK(was_rung(e, bell, before));
    cluster_stop(&c);
}

/* The watermark is at 4 or at 6, which is the last; 5 and 7 were complete at once. */
static void an_order_is_met(void)
{
    static const struct {
        acp_handle_t order, previous;
        bool at_4, done, at_6;
    } cases[] = {
        {ACP_HANDLE_CONT, 0, true, true, true},  {ACP_HANDLE_CONT, 4, true, true, true},
        {ACP_HANDLE_CONT, 6, false, true, true}, {ACP_HANDLE_CONT, 7, true, true, true},
        {ACP_HANDLE_ALL, 0, false, false, true}, {ACP_HANDLE_NULL, 6, true, true, true},
        {4, 6, true, true, true},                {5, 6, true, true, true},
        {6, 4, false, false, true},              {7, 4, false, false, true},
        {100, 4, false, false, true},
    };
    static struct op table[OPS];
    acp_engine *e = calloc(1, sizeof *e);
    acp_lane lane = {.engine = e};
    CHECK(e);
    e->ops.table = table;
    e->ops.last = 6;
    table[3].handle = 6;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lane.previous = cases[i].previous;
        e->ops.watermark = 4;
        table[3].state = OP_RUNNING;
        CHECK(op_table_order_met_slow(e, &lane, cases[i].order) == cases[i].at_4);
        table[3].state = OP_DONE;
        CHECK(op_table_order_met_slow(e, &lane, cases[i].order) == cases[i].done);
        e->ops.watermark = 6;
        CHECK(op_table_order_met_slow(e, &lane, cases[i].order) == cases[i].at_6);
        e->ops.failure_count = 1; /* it may concern this one */
        CHECK(!op_table_order_met_slow(e, &lane, cases[i].order));
        e->ops.failure_count = 0;
    }
    free(e);
}

int main(void)
{
    static const cluster_body bodies[] = {old_values_are_there, a_put_reads_what_was_brought};
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    an_order_is_met();
    an_error_told_meanwhile_counts(false);
    an_error_told_meanwhile_counts(true);
    what_fails_is_never_done();
    old_values_of_many_fail_alone();
    what_is_left_to_others_wakes_them();
    return 0;
}
