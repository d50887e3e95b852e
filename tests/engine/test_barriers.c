/* Barriers of sets that have to share what counts them. */
#include "cluster.h"
#include "party.h"

#define SETS_ROUNDS 10000
#define LATE_NS ((int64_t)20000000000)

static pthread_barrier_t step;

static const uint32_t both[2] = {0, 1};

/* Every entry has the key of another set; the first that this set looks at is being left just now. */
static struct barrier_entry *crowd(acp_engine *e)
{
    struct party *p = party_take(e, both, 2, 0);
    uint64_t key = p->key;
    struct barrier_entry *first = &e->doors->barriers[key / 2 % BARRIER_ENTRIES];
    party_give(e, p);
    for (uint64_t i = 0; i < BARRIER_ENTRIES; i++)
        atomic_store(&e->doors->barriers[i].key, (key ^ (i + 1) << 32) | 1);
    atomic_fetch_add(&first->state, 1);
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
            cpu_relax();
        if (rank == 1)
            atomic_fetch_sub(&first->state, 1);
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

int main(void)
{
    sets_meet_where_entries_are_few();
    return 0;
}
