/* A heap seen from outside: its figures are those of the heap, blocks have their owners, and it can
 * be looked at while others change it. */
#include "cluster/mailing.h"
#include "containers/container.h"
#include "containers/list_call.h"
#include "containers/map.h"
#include "containers/map_slots.h"
#include "core/engine_state.h"
#include "core/method.h"
#include "inspect/heap_walk.h"
#include "inspect/ranks.h"
#include "memory/heap.h"
#include "messages/mailbox.h"

#define LOOKS 200u
#define CELLS 37u

static _Atomic bool enough;

static acp_ga_t take(acp_lane *lane, uint64_t size)
{
    struct acp_call c;
    acp_handle_t pending = 0;
    CHECK(acp_malloc(lane, acp_rank(lane->engine), size, &c, &pending) == ACP_OK && !pending);
    return c.result[0];
}

static void give(acp_lane *lane, acp_ga_t ga)
{
    struct acp_call c;
    acp_handle_t pending = 0;
    int rc;
    while ((rc = acp_free(lane, ga, &c, &pending)) == ACP_E_BUSY)
        ;
    CHECK(rc == ACP_OK);
}

static struct acp_call call(acp_lane *lane, struct acp_call c, const void *in, uint64_t size)
{
    acp_handle_t pending = 0;
    c.in = in;
    c.in_size = size;
    CHECK(acp_container_call(lane, &c, &pending) == ACP_OK && !pending);
    return c;
}

/* A call of it, without the method. */
static struct acp_call create(acp_lane *lane, uint64_t kind, struct container_plan plan)
{
    struct acp_call c = {.method = METHOD_CREATE, .object = acp_post(lane->engine, acp_rank(lane->engine)), .a = kind};
    c = call(lane, c, &plan, sizeof plan);
    return (struct acp_call){.object = c.result[0], .a = c.result[1]};
}

/* A vector with room for so many words. */
static struct acp_call vector(acp_lane *lane, uint64_t words)
{
    struct acp_call c = create(lane, KIND_VECTOR, (struct container_plan){{8}});
    c.method = METHOD_SEQUENCE_RESERVE;
    c.b = words;
    return call(lane, c, NULL, 0);
}

static uint64_t bytes_of(const struct survey *s, uint32_t use)
{
    uint64_t bytes = 0;
    for (uint32_t cell = 0; cell < CELLS; cell++)
        bytes += s->cells[cell * SURVEY_USES + use];
    return bytes;
}

static void a_quiet_heap(acp_engine *e, acp_lane *lane)
{
    struct survey s;
    acp_heap_statistics h;
    struct acp_call c;
    acp_handle_t pending = 0;
    acp_ga_t ga = vector(lane, 1000).object, hole = take(lane, 100000);
    take(lane, 50);
    give(lane, hole);
    CHECK(acp_heap_look(lane, acp_rank(e), &h, &c, &pending) == ACP_OK);
    CHECK(heap_walk_rank(e->memory.fd, e->row.nonce, CELLS, &s) == ACP_OK && s.whole);
    CHECK(s.heap.used == h.used && s.heap.free == h.free && s.heap.blocks == h.blocks);
    CHECK(s.heap.largest == h.largest && s.heap.fragments == h.fragments);
    CHECK(s.heap.committed == h.committed && s.heap.limit == h.limit && s.heap.size == h.size);
    CHECK(s.count == 1 && s.containers[0].kind == KIND_VECTOR && s.containers[0].blocks == 2);
    CHECK(s.containers[0].offset == acp_ga_offset(ga) && s.containers[0].bytes > 8000);
    CHECK(bytes_of(&s, USE_CONTAINER + KIND_VECTOR) == s.containers[0].bytes);
    CHECK(bytes_of(&s, USE_MALLOC) == h.used - s.containers[0].bytes);
    CHECK(bytes_of(&s, USE_FREE) > 100000 && !bytes_of(&s, USE_UNKNOWN));
    heap_walk_free(&s);
}

static void put_into_list(acp_lane *lane, struct acp_call list, acp_ga_t block)
{
    const struct {
        struct list_put put;
        struct list_record record;
        uint64_t word;
    } in = {.record = {.size = 8, .payload = block, .block = block}};
    list.method = METHOD_LIST_PUT;
    list.b = LIST_BACK;
    call(lane, list, &in, sizeof in - (block ? 8 : 0));
}

static void put_into_map(acp_lane *lane, struct acp_call map, uint64_t key)
{
    const struct {
        struct map_request request;
        uint64_t key, value;
    } in = {{.hash = key << 32, .key_size = 8, .value_size = 8}, key, 5};
    map.method = METHOD_MAP_PUT;
    map.b = KIND_MAP | PUT_ASSIGN << 8;
    call(lane, map, &in, sizeof in);
}

static void owns(acp_engine *e, const struct acp_call *made, uint32_t kind, uint64_t elements, uint64_t blocks)
{
    struct survey s;
    CHECK(heap_walk_rank(e->memory.fd, e->row.nonce, CELLS, &s) == ACP_OK && s.whole && s.count == 1);
    const struct survey_container *c = &s.containers[0];
    CHECK(c->kind == kind && c->offset == acp_ga_offset(made->object) && c->elements == elements);
    CHECK(c->blocks == blocks && bytes_of(&s, USE_CONTAINER + kind) == c->bytes);
    heap_walk_free(&s);
}

/* One at a time. A list has a node for each element, and the block of one that is far; a map has an array of slots for
 * its stripe, and boxes where its elements have several sizes. */
static void blocks_have_their_owners(acp_engine *e, acp_lane *lane)
{
    static const struct {
        uint32_t kind;
        struct container_plan plan;
        uint64_t blocks; /* with four elements */
    } all[] = {{KIND_LIST, {{0}}, 6}, {KIND_MAP, {{8, 8}}, 2}, {KIND_MAP, {{SIZE_ANY, SIZE_ANY}}, 6}};
    for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct acp_call made = create(lane, all[i].kind, all[i].plan);
        for (uint64_t n = 1; n <= 4; n++) {
            if (all[i].kind == KIND_LIST)
                put_into_list(lane, made, n == 4 ? take(lane, 64) : 0);
            else
                put_into_map(lane, made, n);
        }
        owns(e, &made, all[i].kind, 4, all[i].blocks);
        made.method = METHOD_DESTROY;
        call(lane, made, NULL, 0);
    }
}

/* Somebody has died in a change of it, or never ends it: who looks on does not wait for that. */
static void a_heap_that_is_being_changed(acp_engine *e)
{
    struct survey s;
    struct section *section = &mailbox_heap(e, e->job.own)->head->section;
    uint64_t version = section->version;
    __atomic_store_n(&section->version, version | 1, __ATOMIC_RELEASE);
    CHECK(heap_walk_rank(e->memory.fd, e->row.nonce, CELLS, &s) == ACP_OK && !s.whole);
    __atomic_store_n(&section->version, version, __ATOMIC_RELEASE);
    heap_walk_free(&s);
}

static void what_is_no_heap(acp_engine *e)
{
    struct survey s;
    struct survey_member members[2];
    struct survey_doing work = {.doing = 99, .awaited = 99, .notice = 99};
    uint32_t count;
    CHECK(heap_walk_doing(e->memory.fd, e->row.nonce + 1, &work) == ACP_E_ARGUMENT);
    CHECK(heap_walk_doing(e->memory.fd, e->row.nonce, &work) == ACP_OK);
    CHECK(work.doing == ACP_DOING_COMPUTE && work.awaited == 0 && work.notice == 0);
    CHECK(heap_walk_rank(e->memory.fd, e->row.nonce + 1, CELLS, &s) == ACP_E_ARGUMENT);
    heap_walk_free(&s);
    CHECK(heap_walk_rank(e->job.table.fd, e->row.nonce, CELLS, &s) == ACP_E_ARGUMENT);
    heap_walk_free(&s);
    CHECK(ranks_members(e->memory.fd, members, 2, &count) == ACP_E_ARGUMENT && !count);
    CHECK(ranks_members(e->job.table.fd, members, 2, &count) == ACP_OK && count == 2);
    for (uint32_t i = 0; i < 2; i++)
        CHECK(members[i].rank == i);
    CHECK(members[acp_rank(e)].nonce == e->row.nonce);
    CHECK(members[acp_rank(e)].memory_fd == e->memory.fd);
}

/* Rank 0 changes its heap, rank 1 looks on. */
static void changes(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_ga_t blocks[64] = {0};
    struct survey s;
    (void)e;
    if (rank == 0) {
        for (uint64_t i = 1; !atomic_load(&enough); i = i * 6364136223846793005u + 1) {
            acp_ga_t *block = &blocks[i >> 58];
            if (*block)
                give(lane, *block);
            *block = *block ? 0 : take(lane, i >> 44 & 0xffff);
        }
        return;
    }
    for (uint32_t look = 0; look < LOOKS; look++) {
        const acp_engine *other = c->engines[0];
        CHECK(heap_walk_rank(other->memory.fd, other->row.nonce, CELLS, &s) == ACP_OK);
        CHECK(s.count == 1 && s.containers[0].kind == KIND_VECTOR);
        for (uint32_t use = 0, all = 0; use < SURVEY_USES && s.whole; use++) {
            all += (uint32_t)bytes_of(&s, use);
            CHECK(use + 1 < SURVEY_USES || all == (uint32_t)(s.top - s.first));
        }
        heap_walk_free(&s);
    }
    atomic_store(&enough, true);
}

/* Messages that wait have their blocks where they are: at their receiver, and past its bound at
 * their sender. */
static void messages(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { MANY = 30, SIZE = 5000 };
    uint64_t bound = box_of(e)->bound, room = (uint64_t)20 * SIZE;
    unsigned char bytes[SIZE] = {0};
    struct survey s;
    meet(e); /* rank 0 has read its bound */
    if (rank == 1)
        box_of(c->engines[0])->bound = room;
    for (uint32_t i = 0; rank == 1 && i < MANY; i++)
        post_message(lane, 0, i, bytes, SIZE);
    meet(e);
    CHECK(heap_walk_rank(e->memory.fd, e->row.nonce, CELLS, &s) == ACP_OK && s.whole);
    uint64_t kept = bytes_of(&s, USE_MESSAGES);
    heap_walk_free(&s);
    CHECK(rank == 0 ? kept > 15 * SIZE && kept < 20 * SIZE + MAIL_SLAB + 1000
                    : kept > 8 * SIZE && kept < 15 * SIZE);
    meet(e);
    for (uint32_t i = 0; rank == 0 && i < MANY; i++)
        take_message(lane, 1, i, bytes, SIZE);
    meet(e);
    CHECK(heap_walk_rank(e->memory.fd, e->row.nonce, CELLS, &s) == ACP_OK && s.whole);
    CHECK(bytes_of(&s, USE_MESSAGES) == (rank == 0 ? MAIL_SLAB + BLOCK_HEAD : 0));
    heap_walk_free(&s);
    meet(e);
    if (rank == 0)
        box_of(e)->bound = bound;
}

int main(void)
{
    struct cluster c;
    cluster_start(&c, 1, 1, ACP_PATH_ANY, true);
    blocks_have_their_owners(c.engines[0], acp_engine_lane(c.engines[0]));
    cluster_stop(&c);
    cluster_start(&c, 2, 1, ACP_PATH_ANY, true);
    a_quiet_heap(c.engines[0], acp_engine_lane(c.engines[0]));
    a_heap_that_is_being_changed(c.engines[0]);
    what_is_no_heap(c.engines[0]);
    what_is_no_heap(c.engines[1]);
    cluster_run(&c, messages);
    cluster_run(&c, changes);
    cluster_stop(&c);
    return 0;
}
