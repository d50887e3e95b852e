/* Sends and receives that go on beside the program, by every road: messages come once, whole and in the order in which
 * they were begun, also among calls that wait and where some are taken back; an end that closes ends its queue. */
#include "cluster/channel_end.h"
#include "core/messages.h"

enum { MESSAGES = 1500, OPEN = 12, MOST = 700 };

static const acp_channel_shape shapes[] = {{.size = 16, .type = 1, .slots = 1},
                                            {.size = 200, .type = 1, .slots = 4},
                                            {.size = 50000, .type = 1, .slots = 2}};

static uint64_t length(uint64_t n, uint64_t most)
{
    return n * 7919 % (most + 1);
}

/* A message or a receive that is under way. */
struct move {
    acp_channel_op *op;
    unsigned char *data;
    uint64_t n;
};

static void fill(unsigned char *data, uint64_t n, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        data[i] = (unsigned char)(n * 31 + i);
}

static void check(const unsigned char *data, uint64_t n, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++)
        CHECK(data[i] == (unsigned char)(n * 31 + i));
}

static void finish(struct move *m, bool sends, uint64_t most)
{
    uint64_t size;
    CHECK(acp_channel_op_wait(m->op, ACP_FOREVER) == ACP_OK);
    CHECK(acp_flag_is_set(acp_channel_op_done(m->op)));
    CHECK(acp_channel_op_end(m->op, &size) == ACP_OK);
    CHECK(size == length(m->n, most));
    if (!sends)
        check(m->data, m->n, size);
    m->op = NULL;
}

/* A message of one slot, by calls that wait. */
static void move_now(acp_channel *end, bool sends, unsigned char *data, uint64_t n, uint64_t size)
{
    if (sends) {
        fill(data, n, size);
        CHECK(acp_channel_open(end, ACP_FOREVER) == ACP_OK);
        CHECK(acp_channel_commit(end, data, size, size, true, ACP_FOREVER) == ACP_OK);
    } else {
        acp_piece p;
        CHECK(acp_channel_take(end, ACP_FOREVER, &p) == ACP_OK);
        CHECK(p.first && p.size == size && p.rest == size);
        check(p.data, n, size);
        acp_channel_release(end, p.number);
    }
    acp_channel_give_turn(end);
}

static void stream(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static unsigned char space[2][OPEN][150000];
    (void)c;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes && rank < 2; s++) {
        bool sends = rank == 0;
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[s], sends);
        struct move moves[OPEN] = {0};
        uint64_t count = shapes[s].size > MOST ? MESSAGES / 20 : MESSAGES, most = 3 * shapes[s].size;
        for (uint64_t n = 0; n < count; n++) {
            struct move *m = &moves[n % OPEN];
            if (m->op)
                finish(m, sends, most);
            *m = (struct move){.data = space[rank][n % OPEN], .n = n};
            uint64_t size = length(n, most);
            if (size <= shapes[s].size && n % 5 == rank) {
                move_now(end, sends, m->data, n, size);
                continue;
            }
            fill(m->data, n, sends ? size : 0);
            m->op = acp_channel_begin(end, m->data, sends ? size : most);
            CHECK(m->op);
            if (n % 61 == 30 * rank)
                sched_yield();
        }
        for (uint64_t n = count; n < count + OPEN; n++)
            if (moves[n % OPEN].op)
                finish(&moves[n % OPEN], sends, most);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* What has met nothing is taken back; those around it stay in order. */
static void taken_back(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const uint32_t both[] = {0, 1};
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[0], rank == 0);
        acp_channel_op *ops[4];
        uint32_t values[4] = {0, 1, 2, 3};
        uint64_t size;
        int rc;
        if (rank == 1)
            for (int i = 0; i < 4; i++)
                CHECK((ops[i] = acp_channel_begin(end, memset(&values[i], 0xff, 4), 4)));
        for (int i = 0; rank == 1 && i < 3; i += 2) {
            while ((rc = acp_channel_op_cancel(ops[i])) == ACP_E_BUSY)
                sched_yield();
            CHECK(rc == ACP_OK && acp_flag_is_set(acp_channel_op_done(ops[i])));
            acp_channel_op_end(ops[i], &size);
        }
        CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
        if (rank == 0) {
            for (int i = 0; i < 4; i++)
                CHECK((ops[i] = acp_channel_begin(end, &values[i], 4)));
            CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
            for (int i = 0; i < 4; i++) {
                rc = i < 3 ? acp_channel_op_wait(ops[i], ACP_FOREVER) : ACP_OK;
                while (i == 3 && (rc = acp_channel_op_cancel(ops[i])) == ACP_E_BUSY)
                    sched_yield();
                CHECK(rc == ACP_OK && acp_channel_op_end(ops[i], &size) == ACP_OK);
            }
        } else {
            for (int i = 1; i < 4; i += 2) {
                CHECK(acp_channel_op_wait(ops[i], ACP_FOREVER) == ACP_OK);
                CHECK(acp_channel_op_end(ops[i], &size) == ACP_OK && size == 4 && values[i] == (uint32_t)i / 2);
            }
            CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
        }
        CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Rank 0 closes with a queue, and rank 1 has one when it learns of that; a wait for several sees the end of one. */
static void closed(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    if (rank < 2) {
        acp_channel *ends[2];
        acp_channel_op *ops[2][3];
        uint32_t values[2][3] = {{7, 8, 9}, {7, 8, 9}}, value;
        uint64_t size;
        for (uint32_t i = 0; i < 2; i++)
            ends[i] = channel_end_open(lane, 1 - rank, shapes[0], rank == i);
        for (uint32_t i = 0; i < 2; i++)
            for (int k = 0; k < 3; k++)
                CHECK((ops[i][k] = acp_channel_begin(ends[i], &values[i][k], 4)));
        CHECK(acp_channel_op_wait(ops[0][0], ACP_FOREVER) == ACP_OK && acp_channel_op_wait(ops[1][0], ACP_FOREVER) == ACP_OK);
        if (rank == 0) {
            CHECK(acp_barrier(e, (const uint32_t[]){0, 1}, 2, 0, ACP_FOREVER) == ACP_OK);
            acp_channel_close(ends[0]);
            acp_channel_close(ends[1]);
        } else {
            CHECK(acp_barrier(e, (const uint32_t[]){0, 1}, 2, 0, ACP_FOREVER) == ACP_OK);
            acp_channel_op *more = acp_channel_begin(ends[0], &value, 4);
            const acp_flag *last = acp_channel_op_done(more);
            CHECK(acp_wait_any(e, NULL, 0, NULL, 0, &last, 1, ACP_FOREVER) == ACP_OK);
            CHECK(acp_channel_op_end(more, &size) == ACP_E_LEFT);
        }
        for (uint32_t i = 0; i < 2; i++)
            for (int k = 0; k < 3; k++) {
                CHECK(acp_channel_op_wait(ops[i][k], ACP_FOREVER) == ACP_OK);
                int rc = acp_channel_op_end(ops[i][k], &size);
                CHECK(rc == ACP_OK || (k && rc == (rank == 0 ? ACP_E_DESTROYED : ACP_E_LEFT)));
            }
        for (uint32_t i = 0; i < 2; i++)
            acp_channel_free(ends[i]);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

int main(void)
{
    static const cluster_body bodies[] = {stream, taken_back, closed};
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    printf("queues of channels by %u ways\n", (unsigned)CLUSTER_WAYS);
    return 0;
}
