/* Counters, vectors and deques by every road: several ranks change and read one, and one of them
 * destroys it while the others use it. */
#include "cluster/cluster.h"
#include "support/calling.h"
#include "containers/container.h"
#include "core/lane.h"
#include "core/method.h"

#define ROUNDS 400u
#define MOST 50u

struct name {
    uint64_t ga, serial;
};
static struct name counter, vector, deque;

static struct name create(acp_lane *lane, uint32_t rank, uint64_t kind, uint64_t width)
{
    struct {
        struct container_plan plan;
        char note[4];
    } in = {{{width}}, "note"};
    struct acp_call c = {.method = METHOD_CREATE, .object = acp_post(lane->engine, rank),
                         .a = kind, .in = &in, .in_size = sizeof in};
    CHECK(run(lane, &c) == ACP_OK && acp_ga_rank(c.result[0]) == rank);
    return (struct name){c.result[0], c.result[1]};
}

static int destroy(acp_lane *lane, struct name n)
{
    struct acp_call c = {.method = METHOD_DESTROY, .object = n.ga, .a = n.serial};
    return run(lane, &c);
}

static int count(acp_lane *lane, struct name n, uint64_t step, uint64_t *before)
{
    struct acp_call c = {.method = METHOD_COUNTER_ADD, .object = n.ga, .a = n.serial, .b = step};
    int rc = run(lane, &c);
    *before = c.result[0];
    return rc;
}

/* Elements of three equal words. */
static int change(acp_lane *lane, struct name n, int64_t at, uint64_t erase, uint64_t insert,
                  uint64_t value)
{
    struct {
        struct splice plan;
        uint64_t words[3 * MOST];
    } in = {.plan = {.at = at, .erase = erase, .insert = insert, .flags = SPLICE_CLIPS}};
    for (uint32_t i = 0; i < 3 * insert; i++)
        in.words[i] = value;
    struct acp_call c = {.method = METHOD_SEQUENCE_SPLICE, .object = n.ga, .a = n.serial,
                         .in = &in, .in_size = sizeof in.plan + 24 * insert};
    return run(lane, &c);
}

/* Then there is no room but for those that are there. */
static int resize(acp_lane *lane, struct name n, uint64_t size, uint64_t value)
{
    const struct {
        struct splice plan;
        uint64_t words[3];
    } in = {{.insert = size, .flags = SPLICE_RESIZES | SPLICE_REPEATS}, {value, value, value}};
    struct acp_call c = {.method = METHOD_SEQUENCE_SPLICE, .object = n.ga, .a = n.serial,
                         .in = &in, .in_size = sizeof in};
    int rc = run(lane, &c);
    if (rc != ACP_OK)
        return rc;
    c = (struct acp_call){.method = METHOD_SEQUENCE_RESERVE, .object = n.ga, .a = n.serial,
                          .b = RESERVE_FITS};
    return run(lane, &c);
}

static int look(acp_lane *lane, struct name n)
{
    uint64_t words[3 * 4 * MOST];
    const struct stretch all = {.count = 4 * MOST, .flags = SPLICE_CLIPS};
    struct acp_call c = {.method = METHOD_SEQUENCE_READ, .object = n.ga, .a = n.serial, .in = &all,
                         .in_size = sizeof all, .out = words, .out_room = sizeof words};
    int rc = run(lane, &c);
    if (rc == ACP_OK)
        CHECK(c.out_size == 24 * c.result[0] && c.result[0] <= 4 * MOST);
    for (uint64_t i = 0; rc == ACP_OK && i < c.result[0]; i++)
        CHECK(words[3 * i] == words[3 * i + 1] && words[3 * i] == words[3 * i + 2]);
    return rc;
}

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 1, ACP_FOREVER) == ACP_OK);
}

static void work(acp_lane *lane, uint32_t rank, struct name n, uint64_t *state)
{
    for (uint32_t i = 0; i < ROUNDS / 4; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        uint64_t random = *state >> 33, value = (uint64_t)rank << 32 | i;
        int64_t at = random % 4 == 0 ? INT64_MAX : (int64_t)(random % MOST);
        CHECK(change(lane, n, at, random % 7, random % 5, value) == ACP_OK);
        if (random % 16 == 0)
            CHECK(change(lane, n, 0, MOST, MOST, value) == ACP_OK);
        if (random % 32 == 0)
            CHECK(change(lane, n, MOST, INT64_MAX, 0, 0) == ACP_OK);
        if (random % 32 == 1)
            CHECK(resize(lane, n, random % MOST, value) == ACP_OK);
        CHECK(look(lane, n) == ACP_OK);
    }
}

/* Elements from `at` on, whose words begin with these. */
static void has(acp_lane *lane, struct name n, int64_t at, const uint64_t *values, uint64_t size)
{
    uint64_t words[3 * MOST];
    const struct stretch some = {.count = size};
    struct acp_call c = {.method = METHOD_SEQUENCE_READ, .object = n.ga, .a = n.serial, .b = (uint64_t)at, .in = &some,
                         .in_size = sizeof some, .out = words, .out_room = sizeof words};
    CHECK(run(lane, &c) == ACP_OK && c.result[0] == size && c.out_size == 24 * size);
    for (uint64_t i = 0; i < size; i++)
        CHECK(words[3 * i] == values[i]);
}

static acp_ga_t data_of(acp_lane *lane, struct name n)
{
    struct sequence_look seen;
    struct acp_call c = {.method = METHOD_SEQUENCE_LOOK, .object = n.ga, .a = n.serial, .out = &seen, .out_room = sizeof seen};
    CHECK(run(lane, &c) == ACP_OK && c.out_size == sizeof seen);
    return seen.data;
}

/* As many as there were take their places. */
static void assigned_elements_stay_where_they_are(acp_lane *lane, struct name n)
{
    static const uint64_t before[] = {0, 1, 2, 3, 4, 5}, after[] = {0, 9, 9, 3, 4, 5};
    for (uint64_t i = 0; i < 6; i++)
        CHECK(change(lane, n, INT64_MAX, 0, 1, i) == ACP_OK);
    acp_ga_t data = data_of(lane, n);
    has(lane, n, 0, before, 6);
    has(lane, n, -5, before + 1, 3);
    CHECK(data && change(lane, n, 1, 2, 2, 9) == ACP_OK && change(lane, n, 3, 0, 0, 0) == ACP_OK);
    CHECK(data_of(lane, n) == data);
    has(lane, n, 0, after, 6);
    CHECK(change(lane, n, 0, INT64_MAX, 0, 0) == ACP_OK);
}

static void use(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t state = rank + 1, before;
    if (rank == 0) {
        counter = create(lane, c->count - 1, KIND_COUNTER, 0);
        vector = create(lane, c->count - 1, KIND_VECTOR, 24);
        deque = create(lane, 0, KIND_DEQUE, 24);
        assigned_elements_stay_where_they_are(lane, vector);
        assigned_elements_stay_where_they_are(lane, deque);
    }
    meet(e);
    for (uint32_t i = 0; i < ROUNDS; i++)
        CHECK(count(lane, counter, 1, &before) == ACP_OK && before < ROUNDS * c->count);
    work(lane, rank, vector, &state);
    work(lane, rank, deque, &state);
    meet(e);
    CHECK(count(lane, counter, 0, &before) == ACP_OK && before == ROUNDS * c->count);
    struct name other = counter;
    other.serial ^= 2;
    CHECK(count(lane, other, 1, &before) == ACP_E_DESTROYED);
    CHECK(look(lane, counter) == ACP_E_DESTROYED);
    meet(e);
}

/* Whoever comes late sees that it is gone, also when the head has become another's. */
static void end(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t before;
    int rc = ACP_OK;
    for (uint32_t i = 0; rank && rc == ACP_OK; i++)
        rc = i % 2 ? look(lane, vector) : change(lane, vector, 0, 1, 1, rank);
    if (rank == 0) {
        CHECK(destroy(lane, vector) == ACP_OK);
        struct name next = create(lane, c->count - 1, KIND_VECTOR, 24);
        CHECK(next.serial != vector.serial && look(lane, next) == ACP_OK);
        CHECK(destroy(lane, next) == ACP_OK);
        CHECK(destroy(lane, counter) == ACP_OK && destroy(lane, deque) == ACP_OK);
    }
    CHECK(rank == 0 || rc == ACP_E_DESTROYED);
    meet(e);
    CHECK(count(lane, counter, 1, &before) == ACP_E_DESTROYED);
    CHECK(look(lane, deque) == ACP_E_DESTROYED && destroy(lane, deque) == ACP_E_DESTROYED);
    meet(e);
}

int main(void)
{
    static const cluster_body bodies[] = {use, end};
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    return 0;
}
