/* Lists by every road: several ranks change two lists and walk through them, and one of them
 * destroys one while the others use it. */
#include "cluster/cluster.h"
#include "support/calling.h"
#include "containers/container.h"
#include "containers/list_call.h"
#include "core/lane.h"
#include "core/method.h"

#define ROUNDS 300u
#define WORDS 5u /* of an element, all the same */
#define KEPT 40u /* elements */

struct name {
    uint64_t ga, serial;
};
static struct name lists[2];
static _Atomic uint64_t put_in, taken_out;

static struct acp_call call_of(uint8_t method, struct name n, uint64_t argument)
{
    return (struct acp_call){.method = method, .object = n.ga, .a = n.serial, .b = argument};
}

static struct name create(acp_lane *lane, uint32_t rank)
{
    const struct container_plan plan = {{0}};
    struct acp_call c = {.method = METHOD_CREATE, .object = acp_post(lane->engine, rank),
                         .a = KIND_LIST, .in = &plan, .in_size = sizeof plan};
    CHECK(run(lane, &c) == ACP_OK);
    return (struct name){c.result[0], c.result[1]};
}

static int push(acp_lane *lane, struct name n, uint64_t where, uint64_t value)
{
    struct {
        struct list_put put;
        uint64_t words[WORDS];
    } in = {.put.width = sizeof in.words};
    struct acp_call c = call_of(METHOD_LIST_PUT, n, where);
    for (uint32_t i = 0; i < WORDS; i++)
        in.words[i] = value;
    c.in = &in;
    c.in_size = sizeof in;
    int rc = run(lane, &c);
    CHECK(rc != ACP_OK || (c.result[0] == LIST_DONE && c.result[1] == 1));
    return rc;
}

static void check_words(const uint64_t *words)
{
    for (uint32_t i = 1; i < WORDS; i++)
        CHECK(words[i] == words[0]);
}

/* How many came out. */
static int pop(acp_lane *lane, struct name n, uint64_t where, uint64_t *count)
{
    struct {
        struct list_answer answer;
        struct list_record record;
        uint64_t words[WORDS];
    } out;
    struct acp_call c = call_of(METHOD_LIST_TAKE, n,
                                where | 1 << 8 | (uint64_t)LIST_FETCH << 32);
    c.out = &out;
    c.out_room = sizeof out;
    int rc = run(lane, &c);
    *count = rc == ACP_OK && c.result[0] == LIST_DONE;
    if (*count) {
        CHECK(out.answer.count == 1 && out.record.size == sizeof out.words);
        check_words(out.words);
    }
    return rc;
}

/* All elements, as they are at one instant: how many, and what names the last one. */
static int walk(acp_lane *lane, struct name n, uint64_t *count, struct list_id *last)
{
    static _Thread_local uint64_t out[8192];
    struct acp_call c = call_of(METHOD_LIST_WALK, n, 0);
    struct list_answer answer;
    struct list_record record;
    c.out = out;
    c.out_room = sizeof out;
    int rc = run(lane, &c);
    if (rc != ACP_OK)
        return rc;
    const uint64_t *at = out + sizeof answer / 8;
    memcpy(&answer, out, sizeof answer);
    CHECK(answer.ended && answer.count == answer.size);
    *last = (struct list_id){0, 0};
    for (uint64_t i = 0; i < answer.count; i++, at += sizeof record / 8 + WORDS) {
        memcpy(&record, at, sizeof record);
        CHECK(record.size == 8 * WORDS && record.id.number);
        check_words(at + sizeof record / 8);
        *last = record.id;
    }
    *count = answer.count;
    return ACP_OK;
}

static void both(acp_lane *lane, uint8_t method, uint32_t to)
{
    struct list_span in = {.from = lists[!to].ga, .from_serial = lists[!to].serial,
                           .changes = UINT64_MAX};
    struct acp_call c = call_of(method, lists[to], 0);
    c.in = &in;
    c.in_size = sizeof in;
    CHECK(run(lane, &c) == ACP_OK && c.result[0] == LIST_DONE);
}

static void erase(acp_lane *lane, struct name n, struct list_id id)
{
    struct list_answer out[2];
    struct acp_call c = call_of(METHOD_LIST_TAKE, n, LIST_AT | 1 << 8);
    c.in = &id;
    c.in_size = sizeof id;
    c.out = out;
    c.out_room = sizeof out;
    CHECK(run(lane, &c) == ACP_OK);
    CHECK(c.result[0] == LIST_STALE || out[0].count == 1);
    taken_out += c.result[0] == LIST_DONE;
}

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 1, ACP_FOREVER) == ACP_OK);
}

/* An element whose bytes are elsewhere comes as their address, however much room there is for bytes. */
static void far_elements(acp_lane *lane, uint32_t rank)
{
    static _Thread_local uint64_t out[10000];
    const struct name n = create(lane, rank);
    const struct {
        struct list_put put;
        struct list_record record;
    } in = {.record = {.size = 8, .payload = acp_starter(lane->engine, rank)}};
    for (uint64_t i = 0; i < 30; i++) { /* then nodes are kept for more */
        struct acp_call c = call_of(METHOD_LIST_PUT, n, LIST_BACK);
        c.in = &in;
        c.in_size = sizeof in;
        CHECK(run(lane, &c) == ACP_OK && c.result[1] == 1);
    }
    for (uint64_t i = 0; i < 30; i++) {
        struct acp_call c = call_of(METHOD_LIST_TAKE, n, (i % 2 ? LIST_BACK : LIST_FRONT) | 1 << 8 | (uint64_t)LIST_FETCH << 32);
        struct list_record record;
        c.out = out;
        c.out_room = sizeof out;
        CHECK(run(lane, &c) == ACP_OK && out[0] == 1);
        memcpy(&record, out + sizeof(struct list_answer) / 8, sizeof record);
        CHECK(record.size == 8 && record.payload == in.record.payload && !record.block);
    }
    const uint64_t bare = sizeof(struct list_answer) + sizeof(struct list_record);
    for (uint64_t i = 0; i < 4; i++) { /* and with no room for them nothing is written there */
        CHECK(push(lane, n, LIST_BACK, i) == ACP_OK);
        struct acp_call c = call_of(METHOD_LIST_TAKE, n, LIST_FRONT | 1 << 8 | (uint64_t)LIST_FETCH << 32);
        memset(out, 0x5a, sizeof out);
        c.out = out;
        c.out_room = bare + 8 * i;
        run(lane, &c);
        CHECK(c.out_size <= c.out_room && out[c.out_room / 8] == 0x5a5a5a5a5a5a5a5a);
    }
    struct acp_call destroy = call_of(METHOD_DESTROY, n, 0);
    CHECK(run(lane, &destroy) == ACP_OK);
}

/* Without the argument that a method needs nothing happens. */
static void bare_calls(acp_lane *lane)
{
    static const uint8_t methods[] = {METHOD_LIST_PUT, METHOD_LIST_STEP, METHOD_LIST_ERASE,
                                      METHOD_LIST_ORDER, METHOD_LIST_SPLICE, METHOD_LIST_SWAP};
    const uint64_t word = 0;
    uint64_t out[32];
    for (uint32_t i = 0; i < sizeof methods; i++) {
        struct acp_call c = call_of(methods[i], lists[0], 0);
        c.in = &word;
        c.in_size = sizeof word;
        c.out = out;
        c.out_room = sizeof out;
        CHECK(run(lane, &c) == ACP_E_ARGUMENT);
    }
}

static void work(acp_lane *lane, uint32_t rank)
{
    uint64_t state = rank + 1, count;
    struct list_id last;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t random = state >> 33;
        uint32_t which = random % 2;
        CHECK(walk(lane, lists[which], &count, &last) == ACP_OK);
        if (count < KEPT) {
            CHECK(push(lane, lists[which], random / 2 % 2, (uint64_t)rank << 32 | i) == ACP_OK);
            put_in++;
        } else if (random % 3) {
            CHECK(pop(lane, lists[which], random / 2 % 2, &count) == ACP_OK);
            taken_out += count;
        }
        if (last.node && random % 5 == 0)
            erase(lane, lists[which], last);
        if (random % 8 == 0)
            both(lane, METHOD_LIST_SPLICE, which);
        if (random % 8 == 1)
            both(lane, METHOD_LIST_SWAP, which);
        if (random % 8 == 2) {
            struct acp_call c = call_of(METHOD_LIST_REVERSE, lists[which], 0);
            CHECK(run(lane, &c) == ACP_OK);
        }
    }
}

static void use(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t count[2];
    struct list_id last;
    if (rank == 0)
        for (uint32_t i = 0; i < 2; i++)
            lists[i] = create(lane, c->count - 1);
    meet(e);
    bare_calls(lane);
    if (rank == 0)
        far_elements(lane, rank);
    work(lane, rank);
    meet(e);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(walk(lane, lists[i], &count[i], &last) == ACP_OK);
    CHECK(count[0] + count[1] == put_in - taken_out);
    meet(e);
}

/* Whoever comes late sees that it is gone. */
static void end(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t count = 0;
    struct list_id last;
    int rc = ACP_OK;
    (void)c;
    for (uint32_t i = 0; rank && rc == ACP_OK; i++)
        rc = i % 2 ? walk(lane, lists[0], &count, &last)
                   : count > KEPT ? pop(lane, lists[0], LIST_BACK, &count)
                                  : push(lane, lists[0], LIST_BACK, rank);
    for (uint32_t i = 0; rank == 0 && i < 2; i++) {
        struct acp_call destroy = call_of(METHOD_DESTROY, lists[i], 0);
        CHECK(run(lane, &destroy) == ACP_OK);
    }
    CHECK(rank == 0 || rc == ACP_E_DESTROYED);
    meet(e);
    CHECK(pop(lane, lists[1], LIST_FRONT, &count) == ACP_E_DESTROYED);
    meet(e);
}

static void begin(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)lane;
    if (rank == 0)
        put_in = taken_out = 0;
    meet(e);
}

int main(void)
{
    static const cluster_body bodies[] = {begin, use, end};
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    return 0;
}
