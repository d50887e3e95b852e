/* Device memory that is released while others use it; imports, and who copies; processes that are killed in between. */
#include "cluster/cluster.h"
#include "base/linux.h"
#include "core/devices.h"
#include "devices/device_block.h"
#include "core/state/peer.h"
#include "peers/peer.h"
#include "support/far.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE ((uint64_t)100000)

struct array {
    acp_ga_t ga;
    unsigned char *far;
    acp_device_block *block;
    uint64_t number;
};

static struct array array_new(acp_lane *lane, int device, uint64_t size)
{
    struct array a = {.far = far_malloc(device, size)};
    acp_device_place place = {.kind = FAR_NUMBER, .number = device};
    uint64_t offset;
    CHECK(acp_device_adopt(lane, place, (uint64_t)(uintptr_t)a.far, size, &a.block, &offset) == ACP_OK);
    CHECK(acp_device_register(lane, a.block, offset, size, 0, &a.ga, &a.number) == ACP_OK);
    return a;
}

static void array_end(acp_lane *lane, struct array *a)
{
    acp_engine *e = lane->engine;
    uint64_t ticket;
    CHECK(acp_segment_retire(lane, a->ga, 0, &ticket) == ACP_OK);
    CHECK(acp_segment_quiet(e, ticket, ACP_FOREVER) == ACP_OK);
    CHECK(acp_device_drop(e, a->block, a->number, ACP_FOREVER) == ACP_OK);
    acp_device_give(e, a->block);
    far_free(a->far); /* ends the test if anybody has it imported, or copies */
}

static int complete(acp_engine *e, acp_handle_t h)
{
    acp_failure failure = {0};
    uint64_t more;
    CHECK(h && acp_complete(e, h, ACP_FOREVER) == ACP_OK);
    acp_failures_take(e, h, false, &failure, 1, &more);
    return failure.fault.status;
}

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static struct array arrays[CLUSTER_MOST][2];

static uint64_t copies_of(acp_engine *e, acp_lane *lane, acp_ga_t dst, acp_ga_t src, uint64_t size)
{
    uint64_t before = far_copies();
    CHECK(complete(e, acp_copy(lane, dst, src, size, ACP_HANDLE_NULL)) == ACP_OK);
    return far_copies() - before;
}

static void arrays_new(acp_engine *e, uint32_t rank, acp_lane *lane)
{
    CHECK(acp_device_kind(e, far_kind()) == ACP_OK);
    for (int device = 0; device < 2; device++)
        arrays[rank][device] = array_new(lane, device, SIZE);
    meet(e);
}

static void arrays_end(acp_engine *e, uint32_t rank, acp_lane *lane)
{
    meet(e);
    for (int device = 0; device < 2; device++)
        array_end(lane, &arrays[rank][device]);
    meet(e);
}

/* From device to device in one step by whoever reaches both, through the host in two where none does. */
static void one_step_where_it_can(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    arrays_new(e, rank, lane);
    uint64_t imports = far_imports();
    if (rank == 2) {
        CHECK(copies_of(e, lane, arrays[0][0].ga, arrays[1][0].ga, SIZE) == 1); /* a third one's */
        CHECK(copies_of(e, lane, arrays[2][0].ga, arrays[1][0].ga, SIZE) == 1);
        CHECK(copies_of(e, lane, arrays[1][0].ga, arrays[2][0].ga, SIZE) == 1);
        CHECK(far_imports() == imports + 2); /* each once */
        CHECK(copies_of(e, lane, arrays[0][0].ga, arrays[1][1].ga, SIZE) == 2); /* between two devices */
        CHECK(copies_of(e, lane, arrays[0][0].ga, acp_starter(e, 1), 8000) == 1);
    }
    meet(e);
    if (rank == 0)
        far_set(0, 0, 1, 1, 20000); /* nobody has a context there: each copies what is its own */
    meet(e);
    if (rank == 1) {
        imports = far_imports();
        CHECK(copies_of(e, lane, arrays[0][0].ga, arrays[1][0].ga, SIZE) == 2);
        CHECK(copies_of(e, lane, arrays[0][0].ga, arrays[2][0].ga, SIZE) == 2);
        CHECK(copies_of(e, lane, arrays[1][0].ga, acp_starter(e, 2), 8000) == 1);
        CHECK(far_imports() == imports);
    }
    meet(e);
    if (rank == 0)
        far_set(0, 1, 1, 1, 20000);
    arrays_end(e, rank, lane);
}

/* Where one end is its owner's alone, that one is asked, and copies from device to device. */
static void one_step_by_an_owner(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    arrays_new(e, rank, lane);
    if (rank == 2) {
        CHECK(copies_of(e, lane, arrays[2][0].ga, arrays[1][0].ga, SIZE) == 1);
        CHECK(copies_of(e, lane, arrays[1][0].ga, arrays[2][0].ga, SIZE) == 1);
    }
    arrays_end(e, rank, lane);
}

/* Many copies of the memory of one device stand behind its stream once; what is no copy behind none. */
static void a_stream_is_marked_once(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { MANY = 12 };
    uint64_t dst[MANY], src[MANY], size[MANY], value = 100, bad;
    (void)c;
    arrays_new(e, rank, lane);
    for (uint64_t i = 0; i < MANY; i++) {
        dst[i] = arrays[1][0].ga + 1000 * i;
        src[i] = arrays[2][i % 2].ga + 1000 * i;
        size[i] = 100;
    }
    acp_column to = {(char *)dst, 8}, from = {(char *)src, 8}, sizes = {(char *)size, 8};
    meet(e);
    uint64_t marks = far_marks();
    if (rank == 2) {
        CHECK(complete(e, acp_copy_many(lane, to, from, sizes, MANY, ACP_HANDLE_NULL, &bad)) == ACP_OK);
        CHECK(far_marks() == marks + 2);
        acp_handle_t h = acp_atomic_many(lane, ACP_ADD8, from, (acp_column){(char *)&value, 0}, (acp_column){NULL, 0},
                                         NULL, MANY, ACP_HANDLE_NULL, &bad);
        CHECK((h ? complete(e, h) : acp_lane_fault(lane)->status) == ACP_E_DEVICE && far_marks() == marks + 2);
    }
    arrays_end(e, rank, lane);
}

/* Copies of others, both ways, until the address is over; the memory goes at once. */
static void released_while_others_copy(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static _Atomic acp_ga_t shown;
    static _Atomic bool over;
    (void)c;
    CHECK(acp_device_kind(e, far_kind()) == ACP_OK);
    struct array mine = array_new(lane, 0, SIZE);
    over = false;
    meet(e);
    if (rank == 0) {
        for (int round = 0; round < 60; round++) {
            struct array a = array_new(lane, 0, SIZE);
            shown = a.ga;
            usleep(round * 50);
            array_end(lane, &a);
        }
        over = true;
    }
    for (uint64_t i = 0; rank && !over; i++) {
        acp_ga_t its = shown;
        acp_handle_t h = i % 2 ? acp_copy(lane, mine.ga, its, SIZE, ACP_HANDLE_NULL)
                               : acp_copy(lane, its, acp_starter(e, rank), 4096, ACP_HANDLE_NULL);
        if (!h && acp_lane_fault(lane)->status == ACP_E_BUSY)
            CHECK(acp_wait_room(e, ACP_FOREVER) == ACP_OK);
        int rc = h ? i % 7 ? ACP_OK : complete(e, ACP_HANDLE_ALL) : acp_lane_fault(lane)->status;
        CHECK(rc == ACP_OK || rc == ACP_E_BUSY || rc == ACP_E_UNREGISTERED || rc == ACP_E_NULL);
    }
    while (complete(e, ACP_HANDLE_ALL) != ACP_OK)
        continue;
    meet(e);
    array_end(lane, &mine);
    meet(e);
}

/* More blocks than imports are kept. */
static void old_imports_go(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { MANY = 300 };
    static struct array many[MANY];
    (void)c;
    CHECK(acp_device_kind(e, far_kind()) == ACP_OK);
    struct array mine = array_new(lane, 0, 4096);
    for (int i = 0; rank == 1 && i < MANY; i++) {
        many[i] = array_new(lane, 0, 64);
        unsigned char value = (unsigned char)i;
        far_poke(many[i].far, &value, 1);
    }
    meet(e);
    for (int i = 0; rank == 0 && i < 2 * MANY; i++) {
        unsigned char back;
        CHECK(complete(e, acp_copy(lane, mine.ga + 7, many[i % MANY].ga, 1, ACP_HANDLE_NULL)) == ACP_OK);
        far_peek(mine.far + 7, &back, 1);
        CHECK(back == (unsigned char)(i % MANY));
        CHECK(e->devices.import_count <= 257);
    }
    meet(e);
    for (int i = 0; rank == 1 && i < MANY; i++)
        array_end(lane, &many[i]);
    meet(e);
    array_end(lane, &mine);
    meet(e);
}

static void in_one_process(acp_path path, uint32_t nodes, cluster_body body)
{
    struct cluster c;
    cluster_start(&c, 3, nodes, path, CLUSTER_SHARED);
    cluster_run(&c, body);
    cluster_stop(&c);
}

/* Ranks that are processes, so that they can be killed. */

enum { OWNER, USER, PROCESSES };

static struct stage {
    uint8_t rows[PROCESSES][ACP_ROW_SIZE], place[ACP_ROW_SIZE];
    _Atomic uint32_t here, steps[PROCESSES];
    acp_ga_t ga;
    bool hang_import;
} *stage;

static void step_await(uint32_t rank, uint32_t step)
{
    while (stage->steps[rank] < step)
        usleep(200);
}

static void step_done(uint32_t rank)
{
    stage->steps[rank]++;
}

static acp_engine *process_start(uint32_t rank)
{
    acp_config config = {.node = 1, .memory_limit = 64 << 20, .starter_size = 10240, .span = 1ull << 30,
                         .ptracer = 1, .peer_timeout_ns = CLUSTER_PATIENCE_NS};
    acp_engine *e;
    acp_fault fault;
    CHECK(acp_engine_create(&config, &e, &fault) == ACP_OK);
    acp_engine_row(e, stage->rows[rank]);
    stage->here++;
    while (stage->here < PROCESSES)
        usleep(200);
    if (rank == OWNER) {
        CHECK(acp_table_add(e, 0, stage->rows[0], PROCESSES) == ACP_OK);
        CHECK(acp_table_place(e, stage->place) == ACP_OK);
    } else {
        step_await(OWNER, 1);
        CHECK(acp_table_map(e, stage->place) == ACP_OK);
    }
    CHECK(acp_engine_join(e, PROCESSES, rank) == ACP_OK);
    CHECK(acp_device_kind(e, far_kind()) == ACP_OK);
    if (rank == OWNER)
        step_done(OWNER);
    return e;
}

/* The user is killed: `when` it has imported the block, copies, or is in the driver's call that imports, or lets go. */
enum { IMPORTED, COPYING, IMPORTING, LETTING_GO, USER_ENDS };

static void hang(void)
{
    step_done(USER);
    while (pause())
        continue;
}

static int hanging_import(void *state, const struct kind_ticket *ticket, int descriptor, struct kind_block *block,
                          struct kind_fault *fault)
{
    (void)state;
    (void)ticket;
    (void)descriptor;
    (void)block;
    (void)fault;
    hang();
    return KIND_FAILED;
}

static void hanging_release(void *state, struct kind_block *block)
{
    (void)state;
    (void)block;
    hang();
}

static void kind_replace(acp_engine *e, const struct kind *kind)
{
    for (uint32_t i = 0; i < DEVICE_KINDS; i++)
        if (e->devices.kinds[i].table == far_kind())
            e->devices.kinds[i].table = kind;
}

static void the_user(int when)
{
    struct kind hangs = *far_kind();
    if (when == IMPORTING)
        hangs.import = hanging_import;
    else
        hangs.release = hanging_release;
    acp_engine *e = process_start(USER);
    acp_lane *lane = acp_engine_lane(e);
    if (when == IMPORTING || when == LETTING_GO) {
        kind_replace(e, &hangs);
        far_set(0, 1, 1, 1, 0);
    }
    struct array mine = array_new(lane, 0, SIZE);
    step_await(OWNER, 2);
    if (when == COPYING) {
        CHECK(complete(e, acp_copy(lane, mine.ga, stage->ga, 8, ACP_HANDLE_NULL)) == ACP_OK);
        far_set(0, 1, 1, 1, 3600000000000); /* never done */
        CHECK(acp_copy(lane, mine.ga, stage->ga, SIZE, ACP_HANDLE_NULL));
    } else {
        acp_handle_t h = acp_copy(lane, mine.ga, stage->ga, SIZE, ACP_HANDLE_NULL);
        CHECK(h && complete(e, h) == ACP_OK);
    }
    step_done(USER);
    for (;;)
        pause();
}

static void *killer(void *user)
{
    step_await(USER, 2);
    kill(*(pid_t *)user, SIGKILL);
    return NULL;
}

static void the_owner(pid_t user, int when)
{
    pthread_t thread;
    acp_engine *e = process_start(OWNER);
    acp_lane *lane = acp_engine_lane(e);
    struct array mine = array_new(lane, 0, SIZE);
    uint64_t ticket;
    stage->ga = mine.ga;
    step_done(OWNER);
    step_await(USER, 1);
    CHECK(acp_segment_retire(lane, mine.ga, 0, &ticket) == ACP_OK);
    if (when == LETTING_GO)
        CHECK(pthread_create(&thread, NULL, killer, &user) == 0);
    else
        kill(user, SIGKILL); /* the parent reaps it */
    CHECK(acp_segment_quiet(e, ticket, ACP_FOREVER) == ACP_OK);
    CHECK(acp_device_drop(e, mine.block, mine.number, ACP_FOREVER) == ACP_OK);
    acp_device_give(e, mine.block);
    if (when == LETTING_GO)
        CHECK(pthread_join(thread, NULL) == 0);
    acp_engine_close(e);
    acp_engine_free(e);
}

/* The owner is killed: `when` it does nothing, is in the driver's call that exports another block, or waits for the
 * user to let go. Operations fail, the import goes, and the process uses its own memory as before. */
enum { IDLE, EXPORTING, DROPPING, OWNER_ENDS };

static void the_widow(int when)
{
    acp_device_block *view = NULL;
    uint64_t offset;
    acp_engine *e = process_start(USER);
    acp_lane *lane = acp_engine_lane(e);
    struct array mine = array_new(lane, 0, SIZE), other = array_new(lane, 0, SIZE);
    step_await(OWNER, 2);
    CHECK(complete(e, acp_copy(lane, mine.ga, stage->ga, SIZE, ACP_HANDLE_NULL)) == ACP_OK);
    CHECK(e->devices.import_count == 1);
    if (when == DROPPING)
        CHECK(acp_device_view(lane, stage->ga, SIZE, &view, &offset) == ACP_OK);
    far_set(0, 1, 1, 1, 200000000);
    acp_handle_t h = acp_copy(lane, mine.ga, stage->ga, SIZE, ACP_HANDLE_NULL);
    step_done(USER);
    int rc = complete(e, h); /* it may have been done before */
    CHECK(rc == ACP_OK || rc == ACP_E_LOST);
    struct peer *p = peer_of_slot(e, OWNER);
    while (!p->lost || e->devices.import_count) {
        if (p->lost && view) {
            far_set(0, 1, 1, 1, 0); /* the pages live as long as they are mapped */
            CHECK(complete(e, acp_device_iput(lane, mine.ga, view, offset, SIZE, ACP_HANDLE_NULL, false)) == ACP_OK);
            acp_device_give(e, view);
            view = NULL;
        }
        uint64_t old;
        acp_handle_t pending;
        acp_fetch(lane, ACP_ADD8, acp_starter(e, USER), 1, 0, &old, &pending);
        usleep(1000);
    }
    h = acp_copy(lane, mine.ga, stage->ga, SIZE, ACP_HANDLE_NULL);
    CHECK(!h && acp_lane_fault(lane)->status == ACP_E_LOST);
    far_set(0, 1, 1, 1, 0);
    CHECK(complete(e, acp_copy(lane, mine.ga, other.ga, SIZE, ACP_HANDLE_NULL)) == ACP_OK);
    array_end(lane, &mine);
    array_end(lane, &other);
    acp_engine_close(e);
    acp_engine_free(e);
}

static int fatal_publish(void *state, const struct kind_block *block, struct kind_ticket *ticket, int *descriptor,
                         struct kind_fault *fault)
{
    (void)state;
    (void)block;
    (void)ticket;
    (void)descriptor;
    (void)fault;
    raise(SIGKILL);
    return KIND_FAILED;
}

static void *killed_in_drop(void *pass)
{
    while (!atomic_load(&((struct device_pass *)pass)->ends))
        usleep(200);
    raise(SIGKILL);
    return NULL;
}

static void the_killed(int when)
{
    struct kind dies = *far_kind();
    dies.publish = fatal_publish;
    acp_engine *e = process_start(OWNER);
    acp_lane *lane = acp_engine_lane(e);
    struct array mine = array_new(lane, 0, SIZE);
    pthread_t thread;
    stage->ga = mine.ga;
    step_done(OWNER);
    step_await(USER, 1);
    if (when == EXPORTING) {
        kind_replace(e, &dies);
        array_new(lane, 0, SIZE);
    } else if (when == DROPPING) {
        CHECK(pthread_create(&thread, NULL, killed_in_drop, mine.block->exports->pass) == 0);
        array_end(lane, &mine);
    }
    raise(when == IDLE ? SIGKILL : SIGABRT);
}

static void reap(pid_t child, bool killed)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void in_processes(int when, bool owner_dies)
{
    memset(stage, 0, sizeof *stage);
    pid_t user = fork();
    if (user == 0) {
        if (owner_dies)
            the_widow(when);
        else
            the_user(when);
        _exit(0);
    }
    pid_t owner = fork();
    if (owner == 0) {
        if (owner_dies)
            the_killed(when);
        else
            the_owner(user, when);
        _exit(0);
    }
    reap(user, !owner_dies);
    reap(owner, owner_dies);
}

int main(void)
{
    stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(stage != MAP_FAILED);
    far_set(0, 1, 1, 1, 20000);
#if defined(__SANITIZE_THREAD__) /* it does not follow a fork of a process with threads */
    bool forks = false;
#else
    bool forks = true;
#endif
    for (int when = IMPORTED; forks && when < USER_ENDS; when++)
        in_processes(when, false);
    for (int when = IDLE; forks && when < OWNER_ENDS; when++)
        in_processes(when, true);
    in_one_process(ACP_PATH_ANY, 1, one_step_where_it_can);
    in_one_process(ACP_PATH_OWNER, 1, one_step_by_an_owner);
    in_one_process(ACP_PATH_ANY, 1, a_stream_is_marked_once);
    in_one_process(ACP_PATH_ANY, 1, released_while_others_copy);
    in_one_process(ACP_PATH_OWNER, 1, released_while_others_copy);
    in_one_process(ACP_PATH_ANY, 3, released_while_others_copy);
    in_one_process(ACP_PATH_ANY, 1, old_imports_go);
    return 0;
}
