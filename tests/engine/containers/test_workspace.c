/* Workspaces by every road: sums of all ranks are complete, a reader sees whole writes, calls that
 * name other bytes than there are change nothing, and one rank destroys it while others use it. */
#include "cluster/cluster.h"
#include "support/calling.h"
#include "containers/container.h"
#include "core/lane.h"
#include "core/method.h"

#define ROUNDS 100u
#define NUMBERS 512u
#define BYTES (8 * NUMBERS)

static uint64_t ga, serial;

static int ask(acp_lane *lane, uint8_t method, uint64_t b, const void *in, void *out,
               uint64_t size)
{
    struct acp_call c = {.method = method, .object = ga, .a = serial, .b = b,
                         .in = in, .in_size = in ? size : 0,
                         .out = out, .out_room = out ? size : 0};
    int rc = run(lane, &c);
    if (method == METHOD_CREATE) {
        ga = c.result[0];
        serial = c.result[1];
    }
    return rc;
}

static void create(acp_lane *lane, uint32_t rank)
{
    const struct container_plan plan = {{2 * BYTES}};
    ga = acp_post(lane->engine, rank);
    serial = KIND_WORKSPACE;
    CHECK(ask(lane, METHOD_CREATE, 0, &plan, NULL, sizeof plan) == ACP_OK);
    const uint64_t all = 2 * BYTES;
    CHECK(ask(lane, METHOD_WORKSPACE_ZERO, 0, &all, NULL, 8) == ACP_OK);
}

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 1, ACP_FOREVER) == ACP_OK);
}

/* Sums in the first half, whole writes in the second. */
static void use(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t numbers[NUMBERS], got[NUMBERS];
    const uint64_t letter = (uint64_t)'q' << WORKSPACE_LETTER;
    if (rank == 0)
        create(lane, c->count - 1);
    meet(e);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint64_t i = 0; i < NUMBERS; i++)
            numbers[i] = i + rank;
        CHECK(ask(lane, METHOD_WORKSPACE_ADD, letter, numbers, NULL, BYTES) == ACP_OK);
        for (uint64_t i = 0; i < NUMBERS; i++)
            numbers[i] = round << 8 | rank;
        CHECK(ask(lane, METHOD_WORKSPACE_WRITE, BYTES, numbers, NULL, BYTES) == ACP_OK);
        CHECK(ask(lane, METHOD_WORKSPACE_READ, BYTES, NULL, got, BYTES) == ACP_OK);
        for (uint64_t i = 0; i < NUMBERS; i++)
            CHECK(got[i] == got[0]);
    }
    meet(e);
    CHECK(ask(lane, METHOD_WORKSPACE_READ, 0, NULL, got, BYTES) == ACP_OK);
    for (uint64_t i = 0; i < NUMBERS; i++)
        CHECK(got[i] == ROUNDS * (c->count * i + c->count * (c->count - 1) / 2));
    meet(e);
}

static void misuse(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static const uint64_t wrong[] = {2 * BYTES - 7, 2 * BYTES, UINT64_MAX >> 8, UINT64_MAX - 3};
    const uint64_t letter = (uint64_t)'q' << WORKSPACE_LETTER;
    uint64_t number = 77, got = 5;
    (void)c;
    (void)rank;
    for (uint32_t i = 0; i < 4; i++) {
        CHECK(ask(lane, METHOD_WORKSPACE_WRITE, wrong[i], &number, NULL, 8) == ACP_E_ARGUMENT);
        CHECK(ask(lane, METHOD_WORKSPACE_READ, wrong[i], NULL, &got, 8) == ACP_E_ARGUMENT);
        CHECK(ask(lane, METHOD_WORKSPACE_ZERO, wrong[i], &number, NULL, 8) == ACP_E_ARGUMENT);
        CHECK(ask(lane, METHOD_WORKSPACE_ADD, wrong[i] | letter, &number, NULL, 8) ==
              ACP_E_ARGUMENT);
    }
    CHECK(ask(lane, METHOD_WORKSPACE_ADD, letter | 4, &number, NULL, 8) == ACP_E_ARGUMENT);
    CHECK(ask(lane, METHOD_WORKSPACE_ADD, letter, &number, NULL, 7) == ACP_E_ARGUMENT);
    CHECK(ask(lane, METHOD_WORKSPACE_ADD, 0, &number, NULL, 8) == ACP_E_ARGUMENT);
    CHECK(ask(lane, METHOD_WORKSPACE_ZERO, 0, &number, NULL, 7) == ACP_E_ARGUMENT);
    CHECK(ask(lane, METHOD_COUNTER_ADD, 1, NULL, NULL, 0) == ACP_E_DESTROYED);
    CHECK(got == 5);
    meet(e);
}

static void end(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t number = rank;
    int rc = ACP_OK;
    (void)c;
    for (uint32_t i = 0; rank && rc == ACP_OK; i++)
        rc = i % 2 ? ask(lane, METHOD_WORKSPACE_READ, 0, NULL, &number, 8)
                   : ask(lane, METHOD_WORKSPACE_WRITE, 0, &number, NULL, 8);
    if (rank == 0)
        CHECK(ask(lane, METHOD_DESTROY, 0, NULL, NULL, 0) == ACP_OK);
    CHECK(rank == 0 || rc == ACP_E_DESTROYED);
    meet(e);
    CHECK(ask(lane, METHOD_WORKSPACE_LOOK, 0, NULL, NULL, 0) == ACP_E_DESTROYED);
    CHECK(ask(lane, METHOD_DESTROY, 0, NULL, NULL, 0) == ACP_E_DESTROYED);
    meet(e);
}

int main(void)
{
    static const cluster_body bodies[] = {use, misuse, end};
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    return 0;
}
