/* Two ranks with memory of the CUDA kind, in processes of their own, with the stand-in for the driver: it ends a process
 * that frees memory which the other one has open, and one that leaves imports open at its end. */
#include "cluster/cluster.h"
#include "core/devices.h"
#include "core/state/peer.h"
#include "device/scene.h"
#include "devices/cuda.h"
#include "peers/peer.h"

enum { OWNER, USER, RANKS };

#define SIZE ((uint64_t)100000)
#define PLACE ((uint64_t)4000) /* of the array in its block */

static struct stage {
    uint8_t rows[RANKS][ACP_ROW_SIZE], place[ACP_ROW_SIZE];
    _Atomic uint32_t here, steps[RANKS];
    acp_ga_t ga;
} *stage;

static void step_await(uint32_t rank, uint32_t step)
{
    while (stage->steps[rank] < step)
        usleep(200);
}

static acp_engine *rank_start(uint32_t rank)
{
    acp_config config = {.node = 1, .memory_limit = 64 << 20, .starter_size = 10240, .span = 1ull << 30,
                         .ptracer = 1, .peer_timeout_ns = CLUSTER_PATIENCE_NS};
    cuda_context context;
    acp_engine *e;
    acp_fault fault;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxPushCurrent_v2(context));
    CHECK(acp_engine_create(&config, &e, &fault) == ACP_OK);
    acp_engine_row(e, stage->rows[rank]);
    stage->here++;
    while (stage->here < RANKS)
        usleep(200);
    if (rank == OWNER) {
        CHECK(acp_table_add(e, 0, stage->rows[0], RANKS) == ACP_OK && acp_table_place(e, stage->place) == ACP_OK);
        stage->steps[OWNER]++;
    } else {
        step_await(OWNER, 1);
        CHECK(acp_table_map(e, stage->place) == ACP_OK);
    }
    CHECK(acp_engine_join(e, RANKS, rank) == ACP_OK && acp_device_kind(e, &cuda_kind) == ACP_OK);
    return e;
}

static void rank_end(acp_engine *e)
{
    acp_engine_close(e);
    acp_engine_free(e);
    OK(cuCtxPopCurrent_v2(NULL));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    CHECK(standin_contexts() == 0 && standin_blocks() == 0 && standin_imports() == 0);
}

struct array {
    cuda_address memory; /* of the program; 0: of the kind */
    acp_device_block *block;
    acp_ga_t ga;
    uint64_t number;
};

static struct array array_new(acp_engine *e, bool programs)
{
    acp_lane *lane = acp_engine_lane(e);
    acp_device_place place = {.kind = CUDA_NUMBER};
    struct array a = {0};
    uint64_t offset = PLACE;
    if (programs) {
        OK(cuMemAlloc_v2(&a.memory, 2 * SIZE));
        CHECK(acp_device_adopt(lane, place, a.memory + PLACE, SIZE, &a.block, &offset) == ACP_OK && offset == PLACE);
    } else
        CHECK(acp_device_allocate(lane, place, 2 * SIZE, &a.block) == ACP_OK);
    memset(standin_bytes(acp_device_address(a.block)), 5, 2 * SIZE);
    CHECK(acp_device_register(lane, a.block, offset, SIZE, 0, &a.ga, &a.number) == ACP_OK);
    return a;
}

static void array_end(acp_engine *e, struct array *a)
{
    uint64_t ticket;
    CHECK(acp_segment_retire(acp_engine_lane(e), a->ga, 0, &ticket) == ACP_OK);
    CHECK(acp_segment_quiet(e, ticket, ACP_FOREVER) == ACP_OK);
    CHECK(acp_device_drop(e, a->block, a->number, ACP_FOREVER) == ACP_OK);
    acp_device_give(e, a->block);
    if (a->memory)
        OK(cuMemFree_v2(a->memory));
}

static int copied(acp_engine *e, acp_ga_t to, acp_ga_t from)
{
    acp_failure failure = {0};
    uint64_t more;
    acp_handle_t h = acp_copy(acp_engine_lane(e), to, from, SIZE, ACP_HANDLE_NULL);
    if (!h)
        return acp_lane_fault(acp_engine_lane(e))->status;
    CHECK(acp_complete(e, h, ACP_FOREVER) == ACP_OK);
    acp_failures_take(e, h, false, &failure, 1, &more);
    return failure.fault.status;
}

static bool programs_memory, user_dies, owner_dies, may_import;

/* Shows its array; lets it go when the user has copied, or is dead. */
static void the_owner(int line)
{
    acp_engine *e = rank_start(OWNER);
    struct array a = array_new(e, programs_memory);
    stage->ga = a.ga;
    stage->steps[OWNER]++;
    step_await(USER, 1);
    if (owner_dies)
        raise(SIGKILL);
    scene_await(line);
    CHECK(standin_bytes(acp_device_address(a.block))[PLACE] == 6 &&
          standin_bytes(acp_device_address(a.block))[PLACE + SIZE] == 5);
    array_end(e, &a);
    stage->steps[OWNER]++;
    rank_end(e);
}

/* Copies into the owner's memory and back, by itself if it may import it. */
static void the_user(int line)
{
    acp_engine *e = rank_start(USER);
    struct array mine = array_new(e, true);
    (void)line;
    step_await(OWNER, 2);
    CHECK(copied(e, mine.ga, stage->ga) == ACP_OK);
    memset(standin_bytes(acp_device_address(mine.block)), 6, 2 * SIZE);
    CHECK(copied(e, stage->ga, mine.ga) == ACP_OK && standin_imports() == may_import);
    stage->steps[USER]++;
    if (user_dies)
        pause();
    if (owner_dies) {
        while (copied(e, mine.ga, stage->ga) != ACP_E_LOST || standin_imports())
            usleep(1000);
    } else {
        step_await(OWNER, 3);
        CHECK(standin_imports() == 0 && copied(e, mine.ga, stage->ga) != ACP_OK);
    }
    array_end(e, &mine);
    rank_end(e);
}

static void both(void)
{
    memset(stage, 0, sizeof *stage);
    struct scene_peer user = scene_start(the_user), owner = scene_start(the_owner);
    step_await(USER, 1);
    if (user_dies)
        scene_kill(user);
    if (!owner_dies)
        scene_sign(owner.line);
    CHECK(user_dies || scene_end(user) == 0);
    int status = scene_end(owner);
    CHECK(owner_dies ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : status == 0);
}

static void it_goes_well(void)
{
    both();
}

static void the_user_is_killed(void)
{
    user_dies = true;
    both();
}

static void the_owner_is_killed(void)
{
    owner_dies = true;
    both();
}

int main(void)
{
    stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(stage != MAP_FAILED);
#if defined(__SANITIZE_THREAD__) /* it does not follow a fork of a process with threads */
    if (!programs_memory)
        return 0;
#endif
    may_import = true;
    for (int of = 0; of < 2; of++) {
        programs_memory = of;
        scene_play(it_goes_well, "FAKE_LEAKS=1", NULL);
        scene_play(the_user_is_killed, "FAKE_LEAKS=1", NULL);
        scene_play(the_owner_is_killed, "FAKE_LEAKS=1", NULL);
    }
    may_import = false;
    scene_play(it_goes_well, "FAKE_LEAKS=1 FAKE_NO_IPC=1", NULL);
    scene_play(it_goes_well, "FAKE_LEAKS=1 FAKE_POOL=1", NULL);
    scene_play(the_owner_is_killed, "FAKE_LEAKS=1 FAKE_NO_IPC=1", NULL);
    return 0;
}
