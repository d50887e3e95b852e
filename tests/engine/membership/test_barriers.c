/* Barriers that are not over when they return: called again after a refresh, of sets that have to share
 * what counts them, and of members that die or leave meanwhile. */
#include "cluster/cluster.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "membership/barrier.h"
#include "membership/team.h"
#include "peers/peer.h"

#include <sched.h>

#define SETS_ROUNDS 10000
#define SOON_NS ((int64_t)100000000)
#define LATE_NS ((int64_t)20000000000)

static _Atomic int stage;
static pthread_barrier_t step;

static void until(int wanted)
{
    while (atomic_load(&stage) < wanted)
        sched_yield();
}

static const uint32_t both[2] = {0, 1};

/* Every entry has the key of another set; the first that this set looks at is being left just now. */
static struct barrier_entry *crowd(acp_engine *e)
{
    struct party *p = team_acquire(e, both, 2, 0);
    uint64_t key = p->key;
    struct barrier_entry *first = &e->doors->barriers[key / 2 % BARRIER_ENTRIES];
    team_release(e, p);
    for (uint64_t i = 0; i < BARRIER_ENTRIES; i++)
        atomic_store(&e->doors->barriers[i].key, (key ^ (i + 1) << 32) | 1);
    atomic_fetch_add(&first->state, BARRIER_USER);
    return first;
}

static void meet_where_all_entries_are_taken(struct cluster *c, uint32_t rank, acp_engine *e,
                                             acp_lane *lane)
{
    static struct barrier_entry *first;
    (void)c;
    (void)lane;
    for (int round = 0; round < SETS_ROUNDS; round++) {
        if (rank == 0)
            first = crowd(e);
        pthread_barrier_wait(&step);
        for (int i = 0; i < round % 64 * 16; i++)
            linux_cpu_relax();
        if (rank == 1)
            atomic_fetch_sub(&first->state, BARRIER_USER);
        CHECK(acp_barrier(e, both, 2, 0, LATE_NS) == ACP_OK);
        pthread_barrier_wait(&step);
    }
}

static void sets_meet_where_entries_are_few(void)
{
    struct cluster c;
    cluster_start(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    pthread_barrier_init(&step, NULL, 2);
    cluster_run(&c, meet_where_all_entries_are_taken);
    pthread_barrier_destroy(&step);
    cluster_stop(&c);
}

static void refresh_in_between(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)lane;
    if (rank == 1) {
        until((int)c->count - 1);
    } else {
        CHECK(acp_barrier(e, NULL, 0, 0, SOON_NS) == ACP_E_TIMEOUT);
        acp_refresh(e);
        atomic_fetch_add(&stage, 1);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, LATE_NS) == ACP_OK);
    if (rank == 1) {
        CHECK(acp_barrier(e, NULL, 0, 0, SOON_NS) == ACP_E_TIMEOUT); /* the others have not come */
        atomic_store(&stage, CLUSTER_MOST);
    }
    until(CLUSTER_MOST);
    CHECK(acp_barrier(e, NULL, 0, 0, LATE_NS) == ACP_OK);
}

static void a_refresh_forgets_no_barrier(void)
{
    for (uint32_t ranks = 2; ranks <= 4; ranks++) {
        for (uint32_t nodes = 1; nodes <= 3; nodes++) {
            struct cluster c;
            atomic_store(&stage, 0);
            cluster_start(&c, ranks, nodes, ACP_PATH_ANY, CLUSTER_SHARED);
            cluster_run(&c, refresh_in_between);
            cluster_stop(&c);
        }
    }
}

static int others_come(void *context, int reason)
{
    (void)context;
    (void)reason;
    atomic_store(&stage, 1);
    until(3);
    return 0;
}

/* Ranks 0 and 2 are on a node. */
static void let_through_while_time_runs_out(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)lane;
    if (rank == 2)
        e->config.tick = others_come;
    else
        until(1);
    CHECK(acp_barrier(e, NULL, 0, 0, rank == 2 ? SOON_NS / 10 : LATE_NS) == ACP_OK);
    atomic_fetch_add(&stage, 1);
    e->config.tick = NULL;
    CHECK(acp_barrier(e, NULL, 0, 0, LATE_NS) == ACP_OK);
}

static void who_is_let_through_has_met_the_others(void)
{
    struct cluster c;
    atomic_store(&stage, 0);
    cluster_start(&c, 3, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run(&c, let_through_while_time_runs_out);
    cluster_stop(&c);
}

/* Nobody but who would meet them misses those that joined later. */
static void a_newcomer_dies_that_a_barrier_needs(void)
{
    struct cluster c;
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    const uint32_t ranks[2] = {0, 1};
    cluster_create(&c, 2, 1, ACP_PATH_ANY, CLUSTER_SHARED, 5000000000u, rows);
    acp_engine *e = c.engines[0];
    CHECK(acp_table_add(e, 0, rows[0], 1) == ACP_OK);
    CHECK(acp_engine_join(e, 1, 0) == ACP_OK);
    CHECK(acp_engine_learn(e, 0, rows[0], 2) == ACP_OK);
    peer_mark_lost(e, peer_of_slot(e, 1));
    CHECK(acp_barrier(e, ranks, 2, 0, LATE_NS) == ACP_E_LOST && acp_trouble_rank(e) == 1);
    CHECK(acp_barrier(e, NULL, 0, 0, LATE_NS) == ACP_OK);
    acp_refresh(e);
    CHECK(acp_barrier(e, ranks, 2, 0, LATE_NS) == ACP_OK);
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_close(c.engines[i]);
    for (uint32_t i = 0; i < 2; i++)
        acp_engine_free(c.engines[i]);
}

/* Ranks 0 and 2 are on a node, 1 and 3 on another: only rank 0 is in touch with those. */
static void a_death_elsewhere(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)lane;
    CHECK(acp_barrier(e, NULL, 0, 0, LATE_NS) == ACP_OK);
    atomic_fetch_add(&stage, 1);
    if (rank == 1) {
        until(4); /* nobody learns of the death before it is through */
        peer_mark_lost(e, peer_of_slot(e, 3));
    }
    if (rank == 2)
        until(6); /* rank 0 waits no more */
    if (rank < 3) {
        CHECK(acp_barrier(e, NULL, 0, 0, LATE_NS) == ACP_E_LOST && acp_trouble_rank(e) == 3);
        atomic_fetch_add(&stage, 1);
    }
}

static void a_death_reaches_all_of_another_node(void)
{
    struct cluster c;
    atomic_store(&stage, 0);
    cluster_start(&c, 4, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run(&c, a_death_elsewhere);
    for (uint32_t i = 0; i < 4; i++)
        acp_engine_close(c.engines[i]);
    for (uint32_t i = 0; i < 4; i++)
        acp_engine_free(c.engines[i]);
}

static uint32_t purpose;
static bool lives_on;

/* The last leaves alone; nobody has talked to anybody but in barriers. */
static void leave_under_way(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t last = c->count - 1;
    (void)lane;
    CHECK(acp_barrier(e, NULL, 0, 0, LATE_NS) == ACP_OK);
    atomic_fetch_add(&stage, 1);
    until((int)c->count);
    if (rank == last) {
        for (uint32_t i = 0; i < last; i++)
            while (layout_doing(c->engines[i]->control) == ACP_DOING_COMPUTE)
                sched_yield();
        acp_engine_leave(e, last, last + 1);
        CHECK(acp_barrier(e, NULL, 0, PURPOSE_FINALIZE, LATE_NS) == ACP_OK);
        acp_engine_leaving(e);
        if (!lives_on)
            acp_engine_close(e);
        return;
    }
    CHECK(acp_barrier(e, NULL, 0, purpose, LATE_NS) == ACP_E_LOST && acp_trouble_rank(e) == last);
    acp_refresh(e);
    CHECK(acp_barrier(e, NULL, 0, purpose, LATE_NS) == ACP_OK);
}

/* It has met nobody: they meet without it. */
static void who_leaves_is_waited_for_by_nobody(uint32_t nodes, acp_path path)
{
    struct cluster c;
    atomic_store(&stage, 0);
    cluster_start(&c, 4, nodes, path, CLUSTER_SHARED);
    cluster_run(&c, leave_under_way);
    for (uint32_t i = 0; i < 4; i++)
        if (i < 3 || lives_on)
            acp_engine_close(c.engines[i]);
    for (uint32_t i = 0; i < 4; i++)
        acp_engine_free(c.engines[i]);
}

static void count_meetings(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const uint32_t all[] = {2, 1, 0}, some[] = {0, 1};
    (void)c;
    (void)lane;
    for (uint64_t i = 1; i <= 3; i++) {
        CHECK(acp_barrier(e, i == 2 ? all : NULL, 3, 0, LATE_NS) == ACP_OK && e->sync.meetings == i);
        CHECK(rank == 2 || acp_barrier(e, some, 2, 0, LATE_NS) == ACP_OK);
    }
    CHECK(e->sync.meetings == 3);
}

static void a_list_of_all_counts_as_all(void)
{
    struct cluster c;
    cluster_start(&c, 3, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run(&c, count_meetings);
    cluster_stop(&c);
}

/* Who has met all once more than this process has met it, too, though the signals are still on their way. */
static void who_leaves_has_come_or_has_not(void)
{
    struct cluster c;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    struct party *p = team_acquire(e, NULL, 0, 0);
    struct peer *last = peer_of_slot(e, 1);
    uint64_t long_ago = 1;
    e->sync.met_key = last->met_key = p->key;
    e->sync.meetings = last->meetings = 5;
    CHECK(team_check(e, p) == ACP_OK);
    e->job.leavers = 1;
    CHECK(team_check(e, p) == ACP_OK);
    last->leaving = linux_now_ns();
    CHECK(team_check(e, p) == ACP_E_FINALIZING && acp_trouble_rank(e) == 1);
    last->leaving = long_ago;
    last->meetings = 6;
    CHECK(team_check(e, p) == ACP_OK);
    last->met_key++; /* in another set */
    CHECK(team_check(e, p) == ACP_E_FINALIZING);
    last->leaving = 0;
    team_release(e, p);
    cluster_stop(&c);
}

int main(void)
{
    a_list_of_all_counts_as_all();
    who_leaves_has_come_or_has_not();
    sets_meet_where_entries_are_few();
    a_refresh_forgets_no_barrier();
    who_is_let_through_has_met_the_others();
    a_newcomer_dies_that_a_barrier_needs();
    a_death_reaches_all_of_another_node();
    for (int i = 0; i < 4; i++) {
        purpose = i & 1 ? PURPOSE_FINALIZE : 0;
        lives_on = i & 2;
        for (uint32_t nodes = 1; nodes <= 4; nodes++)
            who_leaves_is_waited_for_by_nobody(nodes, ACP_PATH_ANY);
        who_leaves_is_waited_for_by_nobody(1, ACP_PATH_LINK);
    }
    return 0;
}
