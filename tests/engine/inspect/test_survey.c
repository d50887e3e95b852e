/* A heap seen from outside: its figures are those of the heap, blocks have their owners, and it can
 * be looked at while others change it. */
#include "cluster/mailing.h"
#include "containers/container.h"
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

/* A vector with room for so many words. */
static acp_ga_t vector(acp_lane *lane, uint64_t words)
{
    const struct container_plan plan = {{8}};
    acp_handle_t pending = 0;
    struct acp_call c = {.method = METHOD_CREATE, .a = KIND_VECTOR, .in = &plan,
                         .in_size = sizeof plan,
                         .object = acp_post(lane->engine, acp_rank(lane->engine))};
    CHECK(acp_container_call(lane, &c, &pending) == ACP_OK && !pending);
    struct acp_call r = {.method = METHOD_SEQUENCE_RESERVE, .object = c.result[0],
                         .a = c.result[1], .b = words};
    CHECK(acp_container_call(lane, &r, &pending) == ACP_OK && !pending);
    return c.result[0];
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
    acp_ga_t ga = vector(lane, 1000), hole = take(lane, 100000);
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
