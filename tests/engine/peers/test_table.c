/* The table of ranks: one for all engines of a node, opened only if it is what it should be, whole
 * whatever its writers die of; and the sets of ranks that are made from it. */
#include "cluster/cluster.h"
#include "membership/team.h"
#include "membership/team_layout.h"
#include "peers/peer.h"
#include "peers/rank_table.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 100000u
#define HERE 1u /* the node of the engines that share */

static acp_engine *engine_new(uint64_t node)
{
    acp_config config = {.node = node, .memory_limit = 16 << 20, .starter_size = 4096,
                         .span = 1ull << 30, .host = 5, .peer_timeout_ns = 5000000000u};
    acp_engine *e;
    acp_fault fault;
    CHECK(acp_engine_create(&config, &e, &fault) == ACP_OK);
    return e;
}

static void engine_end(acp_engine *e)
{
    acp_engine_close(e);
    acp_engine_free(e);
}

/* Nodes of 64, the first of them this one; every third node is on this host. */
static struct row simulated(uint32_t slot)
{
    uint64_t node = HERE + slot / 64;
    return (struct row){.nonce = 1000000 + slot, .node = node, .pid = slot, .flags = slot & 1 ? ROW_SIX : 0,
                        .host = node % 3 == 1 ? 5 : (uint32_t)node, .addresses = {(uint8_t)slot}};
}

static uint8_t *rows_new(uint32_t count, acp_engine *const *engines, uint32_t real)
{
    uint8_t *rows = malloc((uint64_t)count * ACP_ROW_SIZE);
    CHECK(rows);
    for (uint32_t i = 0; i < count; i++) {
        struct row row = simulated(i);
        memcpy(rows + (uint64_t)i * ACP_ROW_SIZE, &row, sizeof row);
        if (i < real)
            acp_engine_row(engines[i], rows + (uint64_t)i * ACP_ROW_SIZE);
    }
    return rows;
}

static bool is_readable_only(const void *base)
{
    char line[512], start[32];
    bool only = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    snprintf(start, sizeof start, "%lx-", (unsigned long)(uintptr_t)base);
    while (fgets(line, sizeof line, maps))
        if (strncmp(line, start, strlen(start)) == 0)
            only = strstr(line, " r--s ") != NULL;
    fclose(maps);
    return only;
}

static bool has_row(acp_engine *e, uint32_t slot)
{
    struct row expected = simulated(slot), row = rank_table_row(e, slot);
    return slot < e->job.table.head->count && row.nonce == expected.nonce &&
           row.node == expected.node && row.flags == expected.flags && row.pid == expected.pid &&
           (row.host == 5) == (expected.host == 5) && row.addresses[0] == expected.addresses[0];
}

static void a_node_shares_one_table(acp_engine *maker, acp_engine *mate, const uint8_t *rows)
{
    uint8_t place[ACP_ROW_SIZE];
    struct stat mine, its;
    CHECK(acp_table_place(maker, place) == ACP_E_ARGUMENT); /* there is none yet */
    CHECK(acp_engine_join(maker, 1, 0) == ACP_E_ARGUMENT);
    CHECK(acp_table_add(maker, 0, rows, MANY) == ACP_OK);
    CHECK(acp_table_place(maker, place) == ACP_OK);
    CHECK(acp_table_map(mate, place) == ACP_OK);
    CHECK(acp_table_place(mate, place) == ACP_E_ARGUMENT); /* its maker answers for it */
    CHECK(fstat(maker->job.table.fd, &mine) == 0 && fstat(mate->job.table.fd, &its) == 0);
    CHECK(mine.st_ino == its.st_ino);
    CHECK((uint64_t)mine.st_blocks * 512 <= 64ull * MANY);
    CHECK(is_readable_only(maker->job.table.base) && is_readable_only(mate->job.table.base));
    for (uint32_t slot = 2; slot < MANY; slot += 997)
        CHECK(has_row(mate, slot));
    CHECK(acp_engine_join(maker, MANY, 0) == ACP_OK);
    CHECK(acp_engine_join(mate, MANY, 1) == ACP_OK);
    CHECK(acp_procs(mate) == MANY && acp_rank(mate) == 1);
}

static void rows_are_appended_once(acp_engine *maker, acp_engine *mate)
{
    uint8_t *more = rows_new(MANY + 200, NULL, 0) + (uint64_t)MANY * ACP_ROW_SIZE;
    uint8_t other[ACP_ROW_SIZE] = {1};
    CHECK(acp_table_add(mate, MANY, more, 150) == ACP_OK);
    CHECK(acp_table_add(maker, MANY, more, 200) == ACP_OK); /* 50 of them are new */
    CHECK(acp_table_add(mate, MANY, more, 200) == ACP_OK);
    CHECK(acp_table_add(mate, MANY + 199, other, 1) == ACP_E_ARGUMENT);
    CHECK(acp_table_add(mate, MANY + 201, other, 1) == ACP_E_ARGUMENT);
    CHECK(acp_table_add(mate, ACP_RANKS_MAX, other, 1) == ACP_E_ARGUMENT);
    CHECK(has_row(maker, MANY + 149) && has_row(mate, MANY + 199));
    CHECK(acp_procs(maker) == MANY); /* until it takes them in */
    CHECK(acp_engine_join(maker, 200, 0) == ACP_OK);
    CHECK(acp_engine_join(maker, 1, 0) == ACP_E_ARGUMENT);
    CHECK(acp_procs(maker) == MANY + 200);
    CHECK(acp_engine_join(mate, 200, 0) == ACP_OK);
    free(more - (uint64_t)MANY * ACP_ROW_SIZE);
}

static int copy_of(acp_engine *maker, uint64_t size, unsigned seals)
{
    static unsigned char head[4096];
    int fd = memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    CHECK(pread(maker->job.table.fd, head, sizeof head, 0) == sizeof head);
    CHECK(pwrite(fd, head, sizeof head, 0) == sizeof head);
    CHECK(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static void refuse(acp_engine *reader, acp_engine *maker, int fd, uint64_t nonce)
{
    struct row place = maker->row;
    place.memory_fd = fd;
    place.nonce = nonce;
    CHECK(acp_table_map(reader, (uint8_t *)&place) == ACP_E_SYSTEM);
    CHECK(!reader->job.table.base);
}

static void forged_tables_are_refused(acp_engine *maker)
{
    acp_engine *reader = engine_new(HERE), *stranger = engine_new(HERE + 1);
    uint64_t nonce = maker->row.nonce;
    int unsealed = copy_of(maker, TABLE_SIZE, 0), whole = copy_of(maker, TABLE_SIZE, F_SEAL_SHRINK);
    int shorter = copy_of(maker, TABLE_SIZE - 4096, F_SEAL_SHRINK);
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    /* The nonce is of nobody who could be asked instead. */
    refuse(reader, maker, whole, nonce + 1);
    struct table_head head;
    CHECK(pread(whole, &head, sizeof head, 0) == sizeof head);
    head.nonce = nonce + 1;
    CHECK(pwrite(unsealed, &head, sizeof head, 0) == sizeof head);
    CHECK(pwrite(shorter, &head, sizeof head, 0) == sizeof head);
    refuse(reader, maker, unsealed, nonce + 1);
    refuse(reader, maker, shorter, nonce + 1);
    refuse(reader, maker, pipes[0], nonce + 1);
    refuse(reader, maker, maker->memory.fd, nonce + 1);
    head.count = ACP_RANKS_MAX + 1;
    CHECK(pwrite(whole, &head, sizeof head, 0) == sizeof head);
    refuse(reader, maker, whole, nonce + 1);
    refuse(stranger, maker, maker->job.table.fd, nonce); /* of another node */
    close(unsealed);
    close(whole);
    close(shorter);
    close(pipes[0]);
    close(pipes[1]);
    engine_end(stranger);
    engine_end(reader);
}

static void who_may_not_open_it_is_given_it(acp_engine *maker)
{
    acp_engine *reader = engine_new(HERE);
    struct row place = maker->row;
    place.memory_fd = -1;
    CHECK(acp_table_map(reader, (uint8_t *)&place) == ACP_OK);
    CHECK(has_row(reader, MANY - 1));
    engine_end(reader);
}

static void make_and_hang(int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    acp_engine *e = engine_new(HERE);
    uint8_t *rows = rows_new(1000, NULL, 0), place[ACP_ROW_SIZE];
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    CHECK(acp_table_add(e, 0, rows, 1000) == ACP_OK && acp_table_place(e, place) == ACP_OK);
    CHECK(fcntl(e->job.table.fd, F_SETLK, &all) == 0);
    CHECK(write(out, place, sizeof place) == sizeof place);
    for (;;)
        pause();
}

/* A process that has made a table and stays with the lock on it. */
static pid_t maker_start(uint8_t place[ACP_ROW_SIZE])
{
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    pid_t maker = fork();
    if (maker == 0)
        make_and_hang(pipes[1]);
    CHECK(read(pipes[0], place, ACP_ROW_SIZE) == ACP_ROW_SIZE);
    close(pipes[0]);
    close(pipes[1]);
    return maker;
}

static void maker_end(pid_t maker)
{
    kill(maker, SIGKILL);
    CHECK(waitpid(maker, NULL, 0) == maker);
}

struct appender {
    pthread_t thread;
    acp_engine *engine;
    uint8_t *rows;
    int rc;
    atomic_bool over;
};

static void *append_rows(void *argument)
{
    struct appender *a = argument;
    a->rc = acp_table_add(a->engine, 0, a->rows, 1100);
    atomic_store(&a->over, true);
    return NULL;
}

static bool somebody_waits_for_lock_on(int fd)
{
    struct stat st;
    char line[256], inode[32];
    bool waits = false;
    FILE *locks = fopen("/proc/locks", "r");
    CHECK(locks && fstat(fd, &st) == 0);
    snprintf(inode, sizeof inode, ":%lu ", (unsigned long)st.st_ino);
    while (fgets(line, sizeof line, locks))
        waits |= strstr(line, "-> POSIX") && strstr(line, inode);
    fclose(locks);
    return waits;
}

/* On a busy machine the holder may get no processor for long; only its death or its end gives the lock away. */
static void who_appends_waits_as_long_as_the_holder_lives(void)
{
    uint8_t place[ACP_ROW_SIZE];
    pid_t maker = maker_start(place);
    struct appender a = {.engine = engine_new(HERE), .rows = rows_new(1100, NULL, 0)};
    CHECK(acp_table_map(a.engine, place) == ACP_OK);
    CHECK(pthread_create(&a.thread, NULL, append_rows, &a) == 0);
    while (!somebody_waits_for_lock_on(a.engine->job.table.fd)) {
        CHECK(!atomic_load(&a.over));
        sched_yield();
    }
    maker_end(maker);
    pthread_join(a.thread, NULL);
    CHECK(a.rc == ACP_OK);
    CHECK(acp_engine_join(a.engine, 1100, 3) == ACP_OK && has_row(a.engine, 1099));
    free(a.rows);
    engine_end(a.engine);
}

/* Its maker is killed with the lock, having written of a row all but that it is there. */
static void the_table_outlives_its_maker(void)
{
    uint8_t place[ACP_ROW_SIZE];
    pid_t maker = maker_start(place);
    acp_engine *e = engine_new(HERE);
    CHECK(acp_table_map(e, place) == ACP_OK);
    maker_end(maker);
    struct table_head head;
    uint32_t nodes = e->job.table.head->nodes, garbage[2] = {1000, 1064}, count;
    CHECK(pread(e->job.table.fd, &head, sizeof head, 0) == sizeof head);
    CHECK(pwrite(e->job.table.fd, garbage, sizeof garbage, (off_t)(TABLE_FIRSTS + 4ull * nodes)) ==
          sizeof garbage);
    head.nodes += 2;
    CHECK(pwrite(e->job.table.fd, &head, sizeof head, 0) == sizeof head);
    uint8_t *rows = rows_new(1100, NULL, 0);
    CHECK(acp_table_add(e, 0, rows, 1100) == ACP_OK);
    CHECK(acp_engine_join(e, 1100, 3) == ACP_OK);
    CHECK(has_row(e, 999) && has_row(e, 1099));
    const uint32_t *firsts = rank_table_firsts(e, &count);
    CHECK(count == 18);
    for (uint32_t i = 0; i < count; i++)
        CHECK(firsts[i] == i * 64);
    rank_table_mates(e, &count);
    CHECK(count == 64);
    free(rows);
    engine_end(e);
}

static void lose(acp_engine *e, uint32_t slot)
{
    peer_mark_lost(e, peer_of_slot(e, slot));
    acp_refresh(e);
}

/* The set of everybody, made from the table, is the set of a list that names everybody. */
static void everybody_is_the_list_of_all(acp_engine *e, uint32_t *ranks, uint32_t nodes,
                                         uint32_t here)
{
    struct party *all = team_acquire(e, NULL, 0, 0), *listed = team_acquire(e, ranks, acp_procs(e), 0);
    CHECK(all && listed && !all->slots);
    CHECK(all->nodes == nodes && all->here == here);
    CHECK(all->key == listed->key && all->count == listed->count && all->here == listed->here);
    CHECK(all->leader == listed->leader && all->nodes == listed->nodes);
    CHECK(memcmp(all->partners, listed->partners, sizeof all->partners) == 0);
    for (uint32_t slot = 0; slot < acp_procs(e) + 10; slot++)
        CHECK(team_layout_has(all, slot) == team_layout_has(listed, slot));
    team_release(e, all);
    team_release(e, listed);
}

static void sets_are_spread_over_nodes(acp_engine *e)
{
    uint32_t procs = acp_procs(e), nodes = (procs + 63) / 64, here = 64;
    uint32_t *ranks = malloc(procs * sizeof *ranks), few[] = {1, 5, 70, 6400, 6401};
    CHECK(ranks);
    for (uint32_t i = 0; i < procs; i++)
        ranks[i] = i;
    everybody_is_the_list_of_all(e, ranks, nodes, here);
    struct party *p = team_acquire(e, few, 5, 0);
    CHECK(p->nodes == 3 && p->here == 2 && p->leader == 1);
    CHECK(p->partners[0] == 70 && p->partners[1] == 6400);
    team_release(e, p);
    lose(e, 128); /* the lowest of a node */
    lose(e, 129);
    lose(e, 200);
    everybody_is_the_list_of_all(e, ranks, nodes, here);
    for (uint32_t slot = 640; slot < 704; slot++) /* a node */
        lose(e, slot);
    everybody_is_the_list_of_all(e, ranks, nodes - 1, here);
    lose(e, 1); /* of this node */
    lose(e, 7);
    everybody_is_the_list_of_all(e, ranks, nodes - 1, here - 2);
    free(ranks);
}

/* After a reset the ranks of both engines are found in the table, of later members, too. */
static void ranks_are_permuted_in_the_table(void)
{
    acp_engine *engines[2] = {engine_new(HERE), engine_new(HERE)};
    uint8_t *rows = rows_new(300, engines, 2), place[ACP_ROW_SIZE];
    uint32_t slots[256], ranks[256];
    CHECK(acp_table_add(engines[0], 0, rows, 256) == ACP_OK);
    CHECK(acp_table_place(engines[0], place) == ACP_OK);
    CHECK(acp_table_map(engines[1], place) == ACP_OK);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(acp_engine_join(engines[i], 256, i) == ACP_OK);
        CHECK(!acp_ranks_of(engines[i], 0, 256, ranks));
    }
    for (uint32_t i = 0; i < 256; i++)
        slots[i] = 255 - i;
    for (uint32_t i = 0; i < 2; i++)
        CHECK(acp_engine_reset(engines[i], slots, 256) == ACP_OK);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(acp_rank(engines[i]) == 255 - i && acp_slot_of(engines[i], 3) == 252);
        CHECK(acp_ranks_of(engines[i], 10, 20, ranks) && ranks[0] == 245 && ranks[19] == 226);
        CHECK(rank_table_rank(engines[i], 200) == 55);
        CHECK(acp_table_add(engines[i], 256, rows + 256 * ACP_ROW_SIZE, 44) == ACP_OK);
        CHECK(acp_engine_join(engines[i], 44, 0) == ACP_OK);
        CHECK(acp_slot_of(engines[i], 270) == 270 && acp_slot_of(engines[i], 3) == 252);
    }
    for (uint32_t i = 0; i < 2; i++)
        engine_end(engines[i]);
    free(rows);
}

/* Not by a wild pointer of any rank. */
static void nobody_writes_into_it(const acp_engine *e)
{
    int ends[2];
    char byte = 0;
    CHECK(pipe(ends) == 0 && write(ends[1], &byte, 1) == 1);
    CHECK(read(ends[0], (void *)(uintptr_t)e->job.table.base, 1) == -1 && errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    the_table_outlives_its_maker();
    who_appends_waits_as_long_as_the_holder_lives();
    acp_engine *engines[2] = {engine_new(HERE), engine_new(HERE)};
    uint8_t *rows = rows_new(MANY, engines, 2);
    a_node_shares_one_table(engines[0], engines[1], rows);
    forged_tables_are_refused(engines[0]);
    who_may_not_open_it_is_given_it(engines[0]);
    rows_are_appended_once(engines[0], engines[1]);
    nobody_writes_into_it(engines[0]);
    acp_engine_widen(engines[0]);
    sets_are_spread_over_nodes(engines[0]);
    engine_end(engines[0]);
    engine_end(engines[1]);
    free(rows);
    ranks_are_permuted_in_the_table();
    return 0;
}
