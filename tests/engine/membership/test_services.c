/* Services: ranks that count in no set of all members, whether they began the job or joined it, and that nobody who
 * does not use them misses when they end. */
#include "cluster/mailing.h"
#include "membership/team.h"
#include "membership/team_layout.h"
#include "operations/any_source.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/rank_table.h"

#define ALL 5u
#define FOUNDED 1u /* the services: one that began the job, and one that joined it */
#define JOINED 4u
#define SERVICES (1u << FOUNDED | 1u << JOINED)

static bool serves(uint32_t rank)
{
    return SERVICES >> rank & 1;
}

/* The last two join later, and all know of all. */
static void start(struct cluster *c, uint32_t nodes, acp_path path)
{
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    cluster_services = SERVICES;
    cluster_create(c, ALL, nodes, path, CLUSTER_SHARED, CLUSTER_PATIENCE_NS, rows);
    cluster_services = 0;
    for (uint32_t i = 0; i < ALL; i++) {
        bool alone = serves(i) || i >= 3;
        CHECK(acp_table_add(c->engines[i], 0, rows[0], ALL) == ACP_OK);
        acp_engine_joined(c->engines[i], alone ? i : 0, alone ? i + 1 : 3, 3);
        CHECK(acp_engine_join(c->engines[i], ALL, i) == ACP_OK);
    }
}

static void stop(struct cluster *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_close(c->engines[i]);
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_free(c->engines[i]);
}

static struct party *team_of(acp_engine *e, uint32_t purpose, uint32_t count)
{
    struct party *p = team_acquire(e, NULL, 0, purpose);
    CHECK(p && p->whole && p->count == count);
    for (uint32_t slot = 0; slot < ALL && count > 1; slot++)
        CHECK(!serves(slot) || !team_layout_has(p, slot));
    return p;
}

static bool whole(acp_engine *e, const uint32_t *ranks, uint32_t count)
{
    struct party *p = team_acquire(e, ranks, count, 0);
    bool is = p->whole && p->count == count;
    team_release(e, p);
    return is;
}

static void they_are_in_no_set_of_all(uint32_t nodes, acp_path path)
{
    static const uint32_t others[] = {0, 2, 3}, with_one[] = {0, 2, JOINED};
    struct cluster c;
    uint32_t found[ALL];
    start(&c, nodes, path);
    for (uint32_t i = 0; i < ALL; i++) {
        acp_engine *e = c.engines[i];
        CHECK(acp_services(e, found, ALL) == 2 && found[0] == FOUNDED && found[1] == JOINED);
        team_release(e, team_of(e, 0, i == 0 || i == 2 ? 2 : 1));
        acp_engine_widen(e);
        struct party *p = team_of(e, 0, serves(i) ? 1 : 3), *first = team_of(c.engines[0], 0, 3);
        CHECK(serves(i) || (p->key == first->key && p->nodes == first->nodes));
        CHECK(serves(i) || (whole(e, others, 3) && !whole(e, with_one, 3)));
        team_release(c.engines[0], first);
        team_release(e, p);
        team_release(e, team_of(e, PURPOSE_FINALIZE, i == 0 || i == 2 ? 2 : 1));
    }
    stop(&c);
}

static atomic_uint met;

static void come(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    (void)lane;
    acp_engine_widen(e);
    for (uint32_t round = 0; round < 20; round++)
        CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
    atomic_fetch_or(&met, 1u << rank);
    if (serves(rank)) /* they come to no barrier any more */
        return;
    UNTIL((atomic_load(&met) | SERVICES) == (1u << ALL) - 1);
    for (uint32_t round = 0; round < 20; round++)
        CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void barriers_do_without_them(uint32_t nodes, acp_path path)
{
    struct cluster c;
    start(&c, nodes, path);
    atomic_store(&met, 0);
    cluster_run(&c, come);
    stop(&c);
}

/* Names are kept by others: the key selects rank 1, a service. */
static void they_keep_no_names(void)
{
    struct cluster c;
    const uint64_t key[2] = {FOUNDED, 7}, value[2] = {5, 6};
    uint64_t found[2];
    start(&c, 1, ACP_PATH_ANY);
    CHECK(acp_publish(c.engines[0], key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    peer_mark_lost(c.engines[0], peer_of_slot(c.engines[0], FOUNDED));
    CHECK(acp_lookup(c.engines[0], key, found, ACP_FOREVER) == ACP_OK && found[0] == 5 && found[1] == 6);
    CHECK(acp_lookup(c.engines[JOINED], key, found, ACP_FOREVER) == ACP_OK && found[0] == 5);
    stop(&c);
}

/* Its end is an error for what needs it, and for nothing else: no refresh is due. */
static void their_end_is_no_loss(uint32_t nodes, acp_path path)
{
    struct cluster c;
    uint64_t words[2] = {0}, word = 9;
    uint32_t lost[ALL];
    start(&c, nodes, path);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e);
    acp_engine_widen(e);
    acp_request *any = ireceive(lane, ACP_ANY, 5, &words[0], 8);
    acp_request *its = ireceive(lane, JOINED, 6, &words[1], 8);
    post_message(acp_engine_lane(c.engines[JOINED]), 0, 1, &word, 8); /* so it is in use */
    receive_end_of(lane, ireceive(lane, JOINED, 1, &word, 8));
    peer_mark_lost(e, peer_of_slot(e, JOINED));
    peer_mark_lost(e, peer_of_slot(e, FOUNDED));
    CHECK(acp_request_wait(e, its, ACP_FOREVER) == ACP_OK);
    CHECK(AGAIN(acp_request_end(lane, its, NULL)) == ACP_E_LOST && acp_lane_fault(lane)->rank == JOINED);
    CHECK(acp_check(lane, acp_ga(JOINED, 0, STARTER_OFFSET), 8) == ACP_E_LOST);
    CHECK(acp_losses(e) == 0 && acp_lost_ranks(e, false, lost, ALL) == 2 && !acp_request_done(any));
    struct party *p = team_of(e, 0, 3);
    CHECK(team_check(e, p) == ACP_OK);
    team_release(e, p);
    acp_refresh(e);
    team_release(e, team_of(e, 0, 3));
    post_message(acp_engine_lane(c.engines[2]), 0, 5, &word, 8);
    receive_end_of(lane, any);
    CHECK(words[0] == 9);
    stop(&c);
}

/* They live, but nobody who might send is left. */
static void nobody_waits_for_them(void)
{
    struct cluster c;
    uint64_t word;
    start(&c, 1, ACP_PATH_ANY);
    acp_engine *e = c.engines[0];
    acp_lane *lane = acp_engine_lane(e);
    acp_request *any = ireceive(lane, ACP_ANY, 5, &word, 8);
    peer_mark_lost(e, peer_of_slot(e, 2));
    acp_refresh(e);
    CHECK(acp_request_wait(e, any, 1) == ACP_E_TIMEOUT);
    peer_mark_lost(e, peer_of_slot(e, 3));
    CHECK(any_source_gone(e, NULL) == ACP_E_LOST);
    CHECK(AGAIN(acp_request_cancel(lane, any)) == ACP_OK && acp_request_end(lane, any, NULL) == ACP_E_CANCELLED);
    stop(&c);
}

int main(void)
{
    static const struct {
        uint32_t nodes;
        acp_path path;
    } cases[] = {{1, ACP_PATH_ANY}, {1, ACP_PATH_LINK}, {2, ACP_PATH_ANY}, {ALL, ACP_PATH_ANY}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        they_are_in_no_set_of_all(cases[i].nodes, cases[i].path);
        barriers_do_without_them(cases[i].nodes, cases[i].path);
        their_end_is_no_loss(cases[i].nodes, cases[i].path);
    }
    they_keep_no_names();
    nobody_waits_for_them();
    return 0;
}
