/* A wild pointer writes into the memory that a rank shares, while other ranks call: they get errors, or wrong
 * bytes, and go on. Nobody is killed by a signal, and nobody waits for ever.
 *
 * Each round is a process of its own: three ranks are threads of it, and one more thread writes. */
#include "fuzz.h"
#include "wild.h"
#include "cluster/cluster.h"
#include "containers/container.h"
#include "containers/list_call.h"
#include "containers/map.h"
#include "containers/map_bucket.h"
#include "core/engine_state.h"
#include "core/method.h"
#include "memory/heap.h"
#include "memory/heap_create.h"

#define ROUNDS 150u
#define CALLS 300u
#define LOST_NS ((int64_t)20000000)

enum thing { COUNTER, VECTOR, LIST, WORKSPACE, MAP, LONG_MAP, THINGS };

static const struct {
    uint64_t kind, words[2];
} plans[THINGS] = {{KIND_COUNTER, {0}}, {KIND_VECTOR, {8}},   {KIND_LIST, {0}},
                   {KIND_WORKSPACE, {4096}}, {KIND_MAP, {8, 8}}, {KIND_MAP, {SIZE_ANY, SIZE_ANY}}};

static struct {
    struct cluster cluster;
    acp_ga_t things[THINGS], blocks[16];
    uint64_t serials[THINGS], seed;
    bool by_ring; /* rank 0 runs what others call */
    _Atomic bool over;
} scene;

/* What a garbled ring has lost nobody answers. */
static void await(acp_lane *lane, acp_handle_t pending)
{
    if (pending)
        acp_wait(lane->engine, pending, LOST_NS);
}

static int run(acp_lane *lane, struct acp_call *c)
{
    acp_handle_t pending;
    int rc = acp_container_call(lane, c, &pending);
    CHECK(!pending || scene.by_ring);
    await(lane, pending);
    return rc;
}

static void create(acp_lane *lane)
{
    for (uint32_t i = 0; i < THINGS; i++) {
        struct container_plan plan = {{plans[i].words[0], plans[i].words[1]}};
        struct acp_call c = {.method = METHOD_CREATE, .object = acp_post(lane->engine, 0),
                             .a = plans[i].kind, .in = &plan, .in_size = sizeof plan};
        CHECK(run(lane, &c) == ACP_OK);
        scene.things[i] = c.result[0];
        scene.serials[i] = c.result[1];
    }
    for (uint32_t i = 0; i < 16; i++) {
        struct acp_call c = {0};
        acp_handle_t pending;
        CHECK(acp_malloc(lane, 0, 64 << i % 8, &c, &pending) == ACP_OK && !pending);
        scene.blocks[i] = c.result[0];
    }
}

/* Any method of any thing, with what it may take. */
static void call(acp_lane *lane, uint64_t *state)
{
    static const struct {
        enum thing thing;
        uint8_t method;
    } all[] = {
        {COUNTER, METHOD_COUNTER_ADD}, {COUNTER, METHOD_COUNTER_SET}, {VECTOR, METHOD_SEQUENCE_LOOK},
        {VECTOR, METHOD_SEQUENCE_READ}, {VECTOR, METHOD_SEQUENCE_SPLICE}, {VECTOR, METHOD_SEQUENCE_SPLICE},
        {LIST, METHOD_LIST_PUT}, {LIST, METHOD_LIST_PUT}, {LIST, METHOD_LIST_TAKE}, {LIST, METHOD_LIST_WALK},
        {LIST, METHOD_LIST_CLEAR}, {LIST, METHOD_LIST_REVERSE}, {LIST, METHOD_LIST_BURY},
        {WORKSPACE, METHOD_WORKSPACE_READ}, {WORKSPACE, METHOD_WORKSPACE_WRITE},
        {MAP, METHOD_MAP_PUT}, {MAP, METHOD_MAP_PUT}, {MAP, METHOD_MAP_PUT}, {MAP, METHOD_MAP_FIND},
        {MAP, METHOD_MAP_ERASE}, {MAP, METHOD_MAP_SCAN}, {MAP, METHOD_MAP_LOOK}, {MAP, METHOD_MAP_CLEAR},
        {LONG_MAP, METHOD_MAP_PUT}, {LONG_MAP, METHOD_MAP_PUT}, {LONG_MAP, METHOD_MAP_FIND},
        {LONG_MAP, METHOD_MAP_ERASE}, {LONG_MAP, METHOD_MAP_SCAN}, {LONG_MAP, METHOD_MAP_CLEAR},
        {LONG_MAP, METHOD_DESCRIBE},
    };
    static const uint64_t lengths[] = {8, 40, 700, 20000};
    uint64_t which = draw(state) % (sizeof all / sizeof *all), key = draw(state) % 64;
    enum thing thing = all[which].thing;
    static __thread unsigned char room_in[32 << 10], room_out[64 << 10];
    unsigned char *in = scene.by_ring ? malloc(sizeof room_in) : room_in; /* until it is done, if ever */
    unsigned char *out = scene.by_ring ? malloc(sizeof room_out) : room_out;
    struct acp_call *call = calloc(1, sizeof *call), c = {.method = all[which].method, .object = scene.things[thing],
                         .a = scene.serials[thing], .b = plans[thing].kind, .in = in, .out = out,
                         .out_room = draw(state) % 3 ? sizeof room_out : 64};
    memset(in, (int)key, 2048);
    if (thing == MAP || thing == LONG_MAP) {
        struct map_request r = {.hash = 2 + key * 0x9e3779b97f4a7c15ull, .key_size = 8, .value_size = 8};
        if (thing == LONG_MAP)
            r.value_size = lengths[draw(state) % 4];
        if (c.method == METHOD_MAP_SCAN)
            r.from = draw(state) % 2 ? 0 : draw(state);
        c.b |= (draw(state) % (c.method == METHOD_MAP_PUT ? 2 : 8)) << 8;
        if (c.method == METHOD_MAP_CLEAR && draw(state) % 8)
            c.method = METHOD_MAP_LOOK;
        memcpy(in, &r, sizeof r);
        c.in_size = sizeof r + 8 + r.value_size;
    } else if (thing == LIST) {
        struct list_put put = {.width = lengths[draw(state) % 3]};
        memcpy(in, &put, sizeof put);
        c.in_size = sizeof put + put.width;
        c.b = draw(state) % 2 | 1 << 8 | draw(state) % 3 << 32;
        if (c.method != METHOD_LIST_PUT)
            c.in_size = 0;
    } else if (thing == VECTOR) {
        struct splice s = {.at = (int64_t)(draw(state) % 8), .erase = draw(state) % 3,
                           .insert = draw(state) % 5, .flags = SPLICE_CLIPS};
        struct stretch some = {.count = draw(state) % 8, .flags = SPLICE_CLIPS};
        bool changes = c.method == METHOD_SEQUENCE_SPLICE;
        memcpy(in, changes ? (void *)&s : (void *)&some, changes ? sizeof s : sizeof some);
        c.in_size = changes ? sizeof s + 8 * s.insert : sizeof some;
        c.b = 0;
    } else {
        c.in_size = thing == WORKSPACE ? 512 : 0;
        c.b = draw(state) % 8;
        c.out_room = 512;
    }
    *call = c;
    run(lane, call);
    if (!scene.by_ring)
        free(call);
}

static void take_and_give(acp_lane *lane, uint64_t *state)
{
    struct acp_call *c = calloc(4, sizeof *c);
    acp_heap_statistics *s = malloc(sizeof *s);
    acp_handle_t pending;
    int rc = acp_malloc(lane, 0, draw(state) % 5000, c, &pending);
    await(lane, pending);
    if (rc == ACP_OK && c->result[0]) {
        acp_free(lane, c->result[0], c + 1, &pending);
        await(lane, pending);
    }
    acp_heap_look(lane, 0, s, c + 2, &pending);
    await(lane, pending);
    if (draw(state) % 8 == 0) {
        acp_heap_tidy(lane, 0, c + 3, &pending);
        await(lane, pending);
    }
    if (!scene.by_ring) {
        free(c);
        free(s);
    }
}

static void copy(acp_lane *lane, uint64_t *state)
{
    static __thread uint64_t words[64];
    acp_handle_t pending;
    acp_ga_t ga = draw(state) % 2 ? acp_starter(lane->engine, 0) + 8 * (draw(state) % 1000)
                                  : scene.blocks[draw(state) % 16];
    acp_put(lane, ga, words, 8 * (draw(state) % 64), &pending);
    await(lane, pending);
    acp_get(lane, words, ga, 8 * (draw(state) % 64), &pending);
    await(lane, pending);
    acp_fetch_here(lane, ACP_ADD8, ga, 1, 0, words);
    void *address;
    if (acp_query_address(lane, ga, 8, &address) == ACP_OK)
        acp_forget_address(lane->engine, ga);
}

static void call_on(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t state = scene.seed + rank;
    (void)c;
    (void)e;
    lane = acp_lane_take(e); /* which waits for locks */
    for (uint32_t i = scene.by_ring ? CALLS * 9 / 10 : 0; i < CALLS; i++) {
        uint64_t what = draw(&state) % 8;
        if (what < 6)
            call(lane, &state);
        else if (what < 7)
            take_and_give(lane, &state);
        else
            copy(lane, &state);
    }
    acp_lane_give(lane);
}

static void *write_wildly(void *unused)
{
    acp_engine *e = scene.cluster.engines[0];
    uint64_t state = scene.seed ^ 0x5555, heap = e->memory.heap_position;
    const struct wild_part parts[] = {{heap, sizeof(struct heap_head)}, {heap, heap_create_bytes(e->memory.heap_span)},
                 {heap + heap_create_bytes(e->memory.heap_span), 32 << 10},
                 {heap + heap_create_bytes(e->memory.heap_span), 256 << 10},
                 {ENTRIES_OFFSET, 64 * 16}, {ORDER_OFFSET, 64},
                 {offsetof(struct control, span), 32}, {offsetof(struct control, directory_version), 64},
                 {DOORS_OFFSET + offsetof(struct doors, cells), 64 * 24},
                 {DOORS_OFFSET + offsetof(struct doors, cells), sizeof scene.cluster.engines[0]->doors->cells},
                 {DOORS_OFFSET + offsetof(struct doors, event), 128}};
    (void)unused;
    wild_write(e->memory.base, parts, sizeof parts / sizeof *parts, &state, &scene.over);
    return NULL;
}

static void create_all(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    if (rank == 0)
        create(lane);
    CHECK(acp_barrier(e, NULL, 0, 5, ACP_FOREVER) == ACP_OK);
    uint64_t state = scene.seed + 77 * rank;
    lane = acp_lane_take(e);
    for (uint32_t i = 0; i < CALLS; i++)
        call(lane, &state);
    acp_lane_give(lane);
}

static void round_of(uint64_t seed)
{
    pthread_t writer;
    scene.seed = seed;
    cluster_start(&scene.cluster, 3, 1, ACP_PATH_ANY, false);
    cluster_run(&scene.cluster, create_all);
    scene.by_ring = seed % 4 == 0;
    for (uint32_t i = 0; i < 3 && scene.by_ring; i++)
        scene.cluster.engines[i]->config.path = ACP_PATH_OWNER;
    CHECK(pthread_create(&writer, NULL, write_wildly, NULL) == 0);
    cluster_run(&scene.cluster, call_on);
    scene.over = true;
    pthread_join(writer, NULL);
}

int main(void)
{
    return wild_rounds("wild", ROUNDS, round_of);
}
