/* Something writes over the entry in which the members of a barrier count, at each stage of it: all members get an
 * error that names the rank in whose memory that was, or have met. Members of healthy barriers never get it. */
#include "cluster/cluster.h"
#include "membership/barrier.h"
#include "membership/team.h"
#include "support/draws.h"

#include <sched.h>
#include <stddef.h>

#define RANKS 3u
#define ROUNDS 1000u

enum word { KEY, STATE, SLEEPERS, CULPRIT, ALL };

struct garbage {
    enum word word;
    bool flips; /* bits; else the word becomes that */
    uint64_t value;
};

/* Those that come before it, a bit each; the node is complete, and waits for others. */
struct stage {
    uint32_t nodes, first;
    bool complete;
};

static const struct stage stages[] = {{1, 0, false}, {1, 1, false}, {1, 2, false}, {1, 6, false}, {1, 3, false},
                                      {2, 0, false}, {2, 1, false}, {2, 4, false}, {2, 5, true},  {2, 2, false}};

static struct {
    struct cluster cluster;
    struct barrier_entry *entry; /* of rank 0's doors */
    const struct stage *stage;
    struct garbage garbage;
    _Atomic uint32_t entered[2], damaged;
    _Atomic bool planted;
} scene;

static struct barrier_entry *entry_in(acp_engine *e)
{
    struct party *p = team_acquire(e, NULL, 0, 0);
    uint64_t key = p->key;
    team_release(e, p);
    for (uint32_t i = 0; i < BARRIER_ENTRIES; i++)
        if (atomic_load(&e->doors->barriers[i].key) == key)
            return &e->doors->barriers[i];
    return NULL;
}

static uint64_t generation_now(void)
{
    return atomic_load(&scene.entry->state) >> 32 & 0xfffff;
}

static void write_over(const struct garbage *g)
{
    struct barrier_entry *entry = scene.entry;
    for (uint32_t i = 0; i < BARRIER_ENTRIES && g->word == ALL; i++) {
        atomic_store(&scene.cluster.engines[0]->doors->barriers[i].key, g->value);
        atomic_store(&scene.cluster.engines[0]->doors->barriers[i].state, g->value);
    }
    if (g->word == ALL)
        return;
    if (g->word == KEY || g->word == STATE) {
        _Atomic uint64_t *at = g->word == KEY ? &entry->key : &entry->state;
        atomic_store(at, g->flips ? atomic_load(at) ^ g->value : g->value);
    } else {
        _Atomic uint32_t *at = g->word == SLEEPERS ? &entry->sleepers : &entry->culprit;
        atomic_store(at, (uint32_t)(g->flips ? atomic_load(at) ^ g->value : g->value));
    }
}

static void *plant(void *before)
{
    const struct stage *s = scene.stage;
    uint32_t sleepers = s->nodes == 1 ? (uint32_t)__builtin_popcount(s->first) : s->complete || s->first & 5;
    while (atomic_load(&scene.entry->sleepers) < sleepers || (s->complete && generation_now() == *(uint64_t *)before))
        sched_yield();
    write_over(&scene.garbage);
    atomic_store(&scene.planted, true);
    return NULL;
}

static void come_twice(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)lane;
    while (!(scene.stage->first & 1u << rank) && !atomic_load(&scene.planted))
        sched_yield();
    for (uint32_t i = 0; i < 2; i++) {
        atomic_fetch_add(&scene.entered[i], 1);
        int rc = acp_barrier(e, NULL, 0, 0, ACP_FOREVER);
        CHECK(rc == ACP_OK ? scene.entered[i] == RANKS : rc == ACP_E_DAMAGED && acp_trouble_rank(e) == 0);
        atomic_fetch_add(&scene.damaged, rc == ACP_E_DAMAGED);
    }
}

static void meet_once(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)rank;
    (void)lane;
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* What the others have sent has come before the answer. */
static void hear_all(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    for (uint32_t i = 0; i < c->count; i++) {
        uint64_t word;
        acp_handle_t pending = 0;
        CHECK(acp_get(lane, &word, acp_starter(e, i), sizeof word, &pending) == ACP_OK);
        CHECK(i == rank || !pending || acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    }
}

static void forget_all(void)
{
    cluster_run(&scene.cluster, hear_all);
    for (uint32_t i = 0; i < RANKS; i++) {
        acp_engine *e = scene.cluster.engines[i];
        memset(e->doors->barriers, 0, sizeof e->doors->barriers);
        e->sync.signal_used = 0;
    }
}

/* How many calls failed. */
static uint32_t damage(struct garbage garbage)
{
    pthread_t planter;
    cluster_run(&scene.cluster, meet_once);
    scene.entry = entry_in(scene.cluster.engines[0]);
    scene.garbage = garbage;
    scene.entered[0] = scene.entered[1] = scene.damaged = 0;
    scene.planted = false;
    uint64_t before = generation_now();
    CHECK(pthread_create(&planter, NULL, plant, &before) == 0);
    cluster_run(&scene.cluster, come_twice);
    pthread_join(planter, NULL);
    forget_all();
    return scene.damaged;
}

static void damage_at(const struct stage *stage)
{
    static const uint64_t values[] = {0, 0x2020202020202020, 1, 0x7ffd12345678, UINT64_MAX};
    /* Every bit where one member waits; some by links, which take long on a machine with other work. */
    uint32_t step = stage->nodes > 1 ? 16 : stage->first == 2 ? 1 : 8;
    bool counted = stage->first & (stage->nodes == 1 ? 7 : 5); /* in that entry */
    uint32_t least = stage->complete ? RANKS : 2 * RANKS; /* another node may have met all just before */
    scene.stage = stage;
    cluster_start(&scene.cluster, RANKS, stage->nodes, ACP_PATH_ANY, CLUSTER_SHARED);
    for (uint32_t i = 0; i < (stage->nodes > 1 ? 2 : sizeof values / sizeof *values); i++) {
        uint32_t failed = damage((struct garbage){STATE, false, values[i]});
        CHECK(failed >= least || (!values[i] && (failed || !counted))); /* 0: as if nobody had come */
        failed = damage((struct garbage){KEY, false, values[i]});
        CHECK(failed || !counted);
        failed = damage((struct garbage){ALL, false, values[i]});
        CHECK(failed >= least || (!values[i] && (failed || !counted)));
        CHECK(damage((struct garbage){SLEEPERS, false, values[i]}) == 0);
        CHECK(damage((struct garbage){CULPRIT, false, values[i]}) == 0);
    }
    for (uint32_t bit = step / 2; bit < 64; bit += step) {
        uint32_t failed = damage((struct garbage){STATE, true, 1ull << bit});
        bool jumps = bit >= 44 && bit < 52; /* to another generation, which is as good to those that come later */
        CHECK(failed >= least || (jumps && (failed || !counted)));
        failed = damage((struct garbage){KEY, true, 1ull << bit});
        CHECK(failed || !counted);
    }
    cluster_stop(&scene.cluster);
}

/* Sets that take each other's entries, and members that come again and again. */
static void meet_in_sets(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t sets = 77, own = 99 + rank;
    (void)c;
    (void)lane;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        uint32_t set = (uint32_t)(next_random(&sets) >> 32) % 16, members[4], count = 0;
        for (uint32_t r = 0; r < 4; r++)
            if (set & 1u << r)
                members[count++] = r;
        int rc = count > 1 && set & 1u << rank ? ACP_E_TIMEOUT : ACP_OK;
        while (rc == ACP_E_TIMEOUT)
            rc = acp_barrier(e, members, count, 0, (int64_t)(next_random(&own) >> 32) % 300000);
        CHECK(rc == ACP_OK);
    }
}

static void healthy_barriers_never_fail(uint32_t nodes)
{
    cluster_start(&scene.cluster, 4, nodes, ACP_PATH_ANY, CLUSTER_SHARED);
    for (uint32_t rank = 0; rank < 4; rank++) {
        for (uint32_t i = 6; i < BARRIER_ENTRIES; i++) {
            struct barrier_entry *entry = &scene.cluster.engines[rank]->doors->barriers[i];
            entry->key = 1001 + 2 * i;
            entry->state = BARRIER_USER;
        }
    }
    cluster_run(&scene.cluster, meet_in_sets);
    cluster_stop(&scene.cluster);
}

int main(void)
{
    healthy_barriers_never_fail(1);
    healthy_barriers_never_fail(2);
    for (uint32_t i = 0; i < sizeof stages / sizeof *stages; i++)
        damage_at(&stages[i]);
    return 0;
}
