/* Copies between every two kinds of memory, by every caller, over every road. */
#include "cluster/cluster.h"
#include "core/devices.h"
#include "support/far.h"

#define ENDS 6
#define SIZE ((uint64_t)200000)

/* Memory of a rank, as it is reached: by load and store, by its owner or process_vm, by a device; on another device;
 * not exported; without an address. */
enum { SHARED, PRIVATE, NEAR_DEVICE, OTHER_DEVICE, NOT_EXPORTED, LOCAL_DEVICE };

static struct end {
    acp_ga_t ga;
    unsigned char *host;
    unsigned char *far;
    acp_device_block *block;
    uint64_t offset, number;
} ends[CLUSTER_MOST][ENDS];

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void end_write(const struct end *x, const unsigned char *bytes, uint64_t size)
{
    if (x->far)
        far_poke(x->far, bytes, size);
    else
        memcpy(x->host, bytes, size);
}

static void end_read(const struct end *x, unsigned char *bytes, uint64_t size)
{
    if (x->far)
        far_peek(x->far, bytes, size);
    else
        memcpy(bytes, x->host, size);
}

static void create(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    void *address;
    struct end *x = ends[rank];
    memset(x, 0, sizeof ends[rank]);
    CHECK(acp_device_kind(e, far_kind()) == ACP_OK);
    CHECK(acp_memory_alloc(lane, SIZE, 0, &x[SHARED].ga, &address) == ACP_OK);
    x[SHARED].host = address;
    x[PRIVATE].host = malloc(SIZE);
    CHECK(acp_segment_register(lane, x[PRIVATE].host, SIZE, 1, &x[PRIVATE].ga) == ACP_OK);
    for (int i = NEAR_DEVICE; i < ENDS; i++) {
        acp_device_place place = {.kind = FAR_NUMBER, .number = i == OTHER_DEVICE};
        unsigned char *whole = far_malloc(place.number, 2 * SIZE);
        x[i].far = whole + 12345;
        CHECK(acp_device_adopt(lane, place, (uint64_t)(uintptr_t)x[i].far, SIZE, &x[i].block, &x[i].offset) == ACP_OK);
        CHECK(x[i].offset == 12345 && acp_device_address(x[i].block) == (uint64_t)(uintptr_t)whole);
    }
    for (int i = NEAR_DEVICE; i < LOCAL_DEVICE; i++) {
        meet(e);
        if (rank == 0)
            far_set(0, 1, i != NOT_EXPORTED, i != OTHER_DEVICE, 20000);
        meet(e);
        CHECK(acp_device_register(lane, x[i].block, x[i].offset, SIZE, (uint32_t)i % 4, &x[i].ga, &x[i].number) == ACP_OK);
    }
    meet(e);
}

static void destroy(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    struct end *x = ends[rank];
    uint64_t ticket;
    meet(e);
    for (int i = PRIVATE; i < LOCAL_DEVICE; i++) {
        CHECK(acp_segment_retire(lane, x[i].ga, 0, &ticket) == ACP_OK);
        CHECK(acp_segment_quiet(e, ticket, ACP_FOREVER) == ACP_OK);
        if (x[i].block)
            CHECK(acp_device_drop(e, x[i].block, x[i].number, ACP_FOREVER) == ACP_OK);
    }
    for (int i = NEAR_DEVICE; i < ENDS; i++) {
        unsigned char *whole = x[i].far - 12345;
        acp_device_give(e, x[i].block);
        far_free(whole); /* ends the test if anybody has it imported */
    }
    free(x[PRIVATE].host);
    acp_memory_drop(lane, x[SHARED].host, SIZE);
    meet(e);
}

static void complete_as(acp_engine *e, acp_lane *lane, acp_handle_t h, bool alone, int status)
{
    acp_failure failure = {0};
    uint64_t more;
    if (!h)
        fprintf(stderr, "refused: %s\n", acp_status_name(acp_lane_fault(lane)->status));
    CHECK(h);
    CHECK(acp_complete(e, h, 60000000000) == ACP_OK);
    acp_failures_take(e, h, alone, &failure, 1, &more);
    if (failure.fault.status != status)
        fprintf(stderr, "rank %u: %s, not %s, at %#llx\n", acp_rank(e), acp_status_name(failure.fault.status),
                acp_status_name(status), (unsigned long long)failure.fault.ga);
    CHECK(failure.fault.status == status);
}

static void complete(acp_engine *e, acp_lane *lane, acp_handle_t h, int status)
{
    complete_as(e, lane, h, false, status);
}

static acp_handle_t start(acp_lane *lane, const struct end *to, const struct end *from, uint64_t at, uint64_t from_at,
                          uint64_t size)
{
    if (!to->ga)
        return acp_device_iget(lane, to->block, to->offset + at, from->ga + from_at, size, ACP_HANDLE_NULL, false);
    if (!from->ga)
        return acp_device_iput(lane, to->ga + at, from->block, from->offset + from_at, size, ACP_HANDLE_NULL, false);
    return acp_copy(lane, to->ga + at, from->ga + from_at, size, ACP_HANDLE_NULL);
}

static void copy_one(acp_engine *e, acp_lane *lane, const struct end *to, const struct end *from, unsigned salt)
{
    static unsigned char pattern[SIZE + 1024], was[SIZE], now[SIZE]; /* one rank copies at a time */
    static const uint64_t sizes[] = {8, 1000, 65537, 199000};
    uint64_t size = sizes[salt % 4], at = salt % 900, from_at = salt * 7 % 900;
    bool filled = pattern[1];
    for (uint64_t i = 0; !filled && i < sizeof pattern; i++)
        pattern[i] = (unsigned char)(i + i / 256);
    const unsigned char *bytes = pattern + salt % 1024;
    end_write(from, bytes, SIZE);
    memset(was, (int)(salt & 0x7f), SIZE);
    if (to != from)
        end_write(to, was, SIZE);
    else
        memcpy(was, bytes, SIZE);
    complete(e, lane, start(lane, to, from, at, from_at, size), ACP_OK);
    memmove(was + at, bytes + from_at, size);
    end_read(to, now, SIZE);
    CHECK(memcmp(was, now, SIZE) == 0);
}

#if defined(__SANITIZE_THREAD__)
#define EVERY 5 /* pair: others take minutes there */
#else
#define EVERY 1
#endif

static void all_pairs(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    unsigned salt = 0;
    for (uint32_t caller = 0; caller < c->count; caller++) {
        meet(e);
        for (uint32_t i = 0; i < c->count * ENDS; i++) {
            for (uint32_t j = 0; j < c->count * ENDS; j++) {
                const struct end *to = &ends[i / ENDS][i % ENDS], *from = &ends[j / ENDS][j % ENDS];
                bool possible = (to->ga || i / ENDS == caller) && (from->ga || j / ENDS == caller) && (to->ga || from->ga);
                salt++;
                if (rank == caller && possible && salt % EVERY == 0)
                    copy_one(e, lane, to, from, salt);
            }
        }
        meet(e);
    }
}

/* The own array of the caller, that is in no segment, and many copies at once. */
static void puts_and_gets(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t next = (rank + 1) % c->count;
    unsigned char *bytes = malloc(SIZE), *back = calloc(1, SIZE);
    const struct end *mine = ends[rank], *its = ends[next];
    acp_handle_t pending;
    meet(e);
    for (uint64_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(rank + i * 3);
    for (int end = NEAR_DEVICE; end < LOCAL_DEVICE; end++) {
        CHECK(acp_put(lane, its[end].ga, bytes, SIZE, &pending) == ACP_OK && pending);
        complete_as(e, lane, pending, true, ACP_OK);
        memset(back, 0, SIZE);
        CHECK(acp_get(lane, back, its[end].ga, SIZE, &pending) == ACP_OK && pending);
        complete_as(e, lane, pending, true, ACP_OK);
        CHECK(memcmp(bytes, back, SIZE) == 0);
    }
    meet(e);
    uint64_t dst[100], src[100], size[100], bad;
    for (uint64_t i = 0; i < 100; i++) { /* from the device of the other to all that is here, in turn */
        dst[i] = mine[i % LOCAL_DEVICE].ga + 100 * i;
        src[i] = its[NEAR_DEVICE + i % 2].ga + 100 * i;
        size[i] = 1 + i;
    }
    complete(e, lane, acp_copy_many(lane, (acp_column){(char *)dst, 8}, (acp_column){(char *)src, 8},
                                    (acp_column){(char *)size, 8}, 100, ACP_HANDLE_NULL, &bad), ACP_OK);
    meet(e);
    for (uint64_t i = 0; i < 100; i++) {
        end_read(&mine[i % LOCAL_DEVICE], back, SIZE);
        CHECK(memcmp(back + 100 * i, bytes + 100 * i, 1) == 0 || next != (rank + c->count - 1) % c->count);
        end_read(&its[NEAR_DEVICE + i % 2], bytes, SIZE);
    }
    meet(e);
    free(bytes);
    free(back);
}

/* An operation with own device memory starts after what the program has enqueued; a chain keeps its order. */
static void orders(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t next = (rank + 1) % c->count;
    const struct end *mine = &ends[rank][NEAR_DEVICE], *its = &ends[next][NEAR_DEVICE];
    unsigned char back[64];
    uint64_t flag = 1, word = 0;
    meet(e);
    for (int round = 1; round <= 10; round++) {
        far_fill(0, rank % 4, mine->far, round, 4096, 300000);
        acp_device_stream(lane, round % 2 ? 0 : rank % 4, false, false);
        acp_handle_t h = acp_copy(lane, its->ga + 8192, mine->ga, 4096, ACP_HANDLE_NULL);
        CHECK(h && !(h & 1));
        acp_lane_previous(lane, h);
        h = acp_iput(lane, ends[next][SHARED].ga, &flag, 8, ACP_HANDLE_CONT);
        acp_lane_previous(lane, h);
        h = acp_iget(lane, back, its->ga + 8192, 64, ACP_HANDLE_CONT);
        complete(e, lane, h, ACP_OK);
        CHECK(back[0] == round && back[63] == round);
        complete(e, lane, acp_device_iput(lane, its->ga + 8192, mine->block, mine->offset, 64, ACP_HANDLE_ALL, false), ACP_OK);
        complete(e, lane, acp_iget(lane, &word, ends[next][SHARED].ga, 8, ACP_HANDLE_NULL), ACP_OK);
        CHECK(word == 1);
    }
    acp_device_stream(lane, 0, false, false);
    meet(e);
}

static void refusals(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t next = (rank + 1) % c->count;
    acp_ga_t ga = ends[next][NEAR_DEVICE].ga;
    uint64_t old = 0;
    acp_handle_t h;
    int rc = acp_fetch(lane, ACP_ADD8, (ga + 7) & ~(uint64_t)7, 1, 0, &old, &h);
    if (rc == ACP_OK)
        complete_as(e, lane, h, true, ACP_E_DEVICE);
    else
        CHECK(rc == ACP_E_DEVICE);
    complete(e, lane, acp_atomic(lane, ACP_CAS4, ACP_GA_NULL, (ends[rank][NEAR_DEVICE].ga + 3) & ~(uint64_t)3, 1, 0,
                                 ACP_HANDLE_NULL), ACP_E_DEVICE);
    void *address;
    acp_word word;
    CHECK(acp_query_address(lane, ends[rank][NEAR_DEVICE].ga, 8, &address) == ACP_E_DEVICE);
    CHECK(acp_word_find(lane, (ends[rank][NEAR_DEVICE].ga + 7) & ~(uint64_t)7, 8, &word) == ACP_E_DEVICE);
    acp_device_block *block;
    uint64_t offset;
    acp_device_place place = {.kind = FAR_NUMBER, .number = 0};
    char words[112];
    CHECK(acp_device_adopt(lane, place, (uint64_t)(uintptr_t)&word, 8, &block, &offset) == ACP_E_DRIVER);
    acp_device_words(e, words, &offset);
    CHECK(strcmp(words, "not far memory") == 0);
    place.kind = 99;
    CHECK(acp_device_allocate(lane, place, 8, &block) == ACP_E_DRIVER);
    place.kind = FAR_NUMBER;
    CHECK(acp_device_allocate(lane, place, 1u << 30, &block) == ACP_E_FULL);
    meet(e);
    if (rank == 0) { /* the driver fails once: that operation fails, the next one does not */
        far.fail_next = 1;
        complete(e, lane, acp_copy(lane, ends[0][NEAR_DEVICE].ga, ends[0][SHARED].ga, 8, ACP_HANDLE_NULL), ACP_E_DRIVER);
        acp_device_words(e, words, &offset);
        CHECK(strcmp(words, "FAR_ERROR_ILLEGAL_ADDRESS") == 0);
        complete(e, lane, acp_copy(lane, ends[0][NEAR_DEVICE].ga, ends[0][SHARED].ga, 8, ACP_HANDLE_NULL), ACP_OK);
    }
    meet(e);
}

int main(void)
{
    static const cluster_body bodies[] = {create, all_pairs, puts_and_gets, orders, refusals, destroy};
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    return 0;
}
