/* A job that grows: who joins later is let in, learnt of when it is needed, and not waited for. */
#include "cluster/mailing.h"
#include "core/state/peer.h"
#include "membership/team.h"
#include "membership/team_layout.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/doorbell.h"

#define FOUNDERS 2u
#define ALL 4u

static uint64_t word_at(acp_engine *e, uint32_t rank)
{
    acp_lane *lane = acp_engine_lane(e);
    acp_handle_t pending = 0;
    uint64_t word = 0;
    int rc = acp_get(lane, &word, acp_starter(e, rank), sizeof word, &pending);
    CHECK(rc == ACP_OK);
    CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    return word;
}

static void store_word(acp_engine *e, uint32_t rank, uint64_t word)
{
    acp_handle_t pending = 0;
    CHECK(acp_put(acp_engine_lane(e), acp_starter(e, rank), &word, sizeof word, &pending) == ACP_OK);
    CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
}

static void found(struct cluster *c, uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE], uint32_t nodes,
                  acp_path path)
{
    cluster_create(c, ALL, nodes, path, CLUSTER_SHARED, CLUSTER_PATIENCE_NS, rows);
    for (uint32_t i = 0; i < FOUNDERS; i++) {
        CHECK(acp_table_add(c->engines[i], 0, rows[0], FOUNDERS) == ACP_OK);
        CHECK(acp_engine_join(c->engines[i], FOUNDERS, i) == ACP_OK);
    }
}

/* One that joins alone and knows `known` rows, its own the last. */
static void grow_by_one(struct cluster *c, uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE], uint32_t known)
{
    acp_engine *e = c->engines[known - 1];
    CHECK(acp_table_add(e, 0, rows[0], known) == ACP_OK);
    acp_engine_joined(e, known - 1, known, FOUNDERS);
    CHECK(acp_engine_join(e, known, known - 1) == ACP_OK);
}

static void stop(struct cluster *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_close(c->engines[i]);
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_free(c->engines[i]);
}

static void a_newcomer_is_let_in_and_learnt_of(uint32_t nodes, acp_path path)
{
    struct cluster c;
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    found(&c, rows, nodes, path);
    acp_engine *a = c.engines[0], *b = c.engines[1], *third = c.engines[2], *last = c.engines[3];
    CHECK(acp_check(acp_engine_lane(a), acp_starter(third, 2), 8) == ACP_E_RANK);
    store_word(a, 0, 100);
    store_word(b, 1, 101);
    grow_by_one(&c, rows, 3);
    store_word(third, 2, 102);
    CHECK(word_at(third, 0) == 100 && word_at(third, 1) == 101); /* of those who do not know it */
    CHECK(word_at(a, 1) == 101);
    CHECK(word_at(a, 2) == 102 && acp_procs(a) == 3); /* it came, and so they know it */
    CHECK(word_at(b, 2) == 102 && acp_procs(b) == 3);
    grow_by_one(&c, rows, 4);
    store_word(last, 3, 103);
    CHECK(word_at(last, 1) == 101);
    CHECK(word_at(a, 1) == 101); /* of one who has heard of it */
    CHECK(word_at(b, 3) == 103 && word_at(b, 0) == 100);
    CHECK(word_at(a, 3) == 103);
    CHECK(acp_check(acp_engine_lane(a), acp_ga(ALL, 0, STARTER_OFFSET), 8) == ACP_E_RANK);
    stop(&c);
}

/* The owner that a command goes to has never heard of the rank at its other end. */
static void a_copy_names_somebody_new(uint32_t nodes, acp_path path)
{
    struct cluster c;
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    found(&c, rows, nodes, path);
    acp_engine *a = c.engines[0], *b = c.engines[1], *third = c.engines[2];
    store_word(a, 0, 100);
    grow_by_one(&c, rows, 3);
    store_word(third, 2, 102);
    CHECK(word_at(third, 0) == 100);
    acp_handle_t h = acp_copy(acp_engine_lane(a), acp_starter(a, 1), acp_starter(a, 2), 8, 0);
    CHECK(h && acp_wait(a, h, ACP_FOREVER) == ACP_OK);
    CHECK(word_at(b, 1) == 102);
    stop(&c);
}

/* Its rows are more than a socket takes at once. */
static void one_comes_after_many(void)
{
    enum { MANY = 50000 };
    struct cluster c;
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    struct row *all = calloc(MANY + 1, sizeof *all);
    found(&c, rows, ALL, ACP_PATH_ANY);
    acp_engine *a = c.engines[0], *third = c.engines[2];
    memcpy(all, rows, FOUNDERS * sizeof *all);
    memcpy(&all[MANY], rows[2], sizeof *all);
    for (uint32_t i = FOUNDERS; i < MANY; i++)
        all[i] = (struct row){.nonce = i, .node = 1000, .pid = i, .layout = all[0].layout};
    store_word(a, 0, 100);
    CHECK(acp_table_add(third, 0, (const uint8_t *)all, MANY + 1) == ACP_OK);
    acp_engine_joined(third, MANY, MANY + 1, FOUNDERS);
    CHECK(acp_engine_join(third, MANY + 1, MANY) == ACP_OK);
    store_word(third, MANY, 102);
    CHECK(word_at(third, 0) == 100);
    CHECK(acp_procs(a) == MANY + 1 && word_at(a, MANY) == 102);
    CHECK(rank_table_row(a, MANY - 1).nonce == MANY - 1);
    stop(&c);
    free(all);
}

/* It dies with a long message under way to one that has never heard of it. */
static void the_message_of_a_stranger(uint32_t nodes, acp_path path, bool word)
{
    enum { LONG = 1 << 20 };
    struct cluster c;
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    acp_envelope envelope = {.source = 2, .tag = 1, .size = LONG};
    struct landing landing;
    unsigned char *bytes = calloc(2, LONG);
    found(&c, rows, nodes, path);
    acp_engine *a = c.engines[0], *third = c.engines[2];
    acp_lane *lane = acp_engine_lane(a);
    acp_request *r = ireceive(lane, ACP_ANY, 1, bytes, LONG);
    grow_by_one(&c, rows, 3);
    for (uint32_t i = 0; i < 2; i++) /* one for the receive, one is kept */
        CHECK(AGAIN(match_arrive(acp_engine_lane(third), peer_of_slot(third, 0), &envelope,
                                 bytes + LONG, false, 2, &landing)) == ACP_OK && landing.open);
    CHECK(acp_procs(a) == 2);
    if (word) {
        CHECK(!acp_request_done(r));
        CHECK(acp_procs(a) == 3 && peer_known(a, 2)->watched);
        peer_mark_lost(a, peer_known(a, 2));
    } else {
        for (uint32_t i = 1; i < ATTACH_LINES; i++)
            a->doors->lines[i].holder = 0; /* as one does that clears away after the dead */
    }
    CHECK(acp_request_wait(a, r, ACP_FOREVER) == ACP_OK);
    CHECK(AGAIN(acp_request_end(lane, r, NULL)) == ACP_E_LOST);
    CHECK(acp_lane_fault(lane)->rank == 2 && acp_procs(a) == (word ? 3 : 2));
    a->mail.losses = 1;
    doorbell_kick(a);
    UNTIL(mailbox_kept(box_of(a)) == 0);
    stop(&c);
    free(bytes);
}

static void meet_often(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)lane;
    for (uint32_t round = 0; round < 20; round++)
        CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
    CHECK(rank < c->count);
}

/* Everybody is who joined together, until a wider set is chosen. */
static void everybody_is_who_joined_together(uint32_t nodes, acp_path path)
{
    struct cluster c;
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    found(&c, rows, nodes, path);
    grow_by_one(&c, rows, 3);
    grow_by_one(&c, rows, 4);
    CHECK(word_at(c.engines[2], 0) == 0 && word_at(c.engines[3], 1) == 0);
    CHECK(acp_barrier(c.engines[2], NULL, 0, 0, ACP_FOREVER) == ACP_OK); /* alone */
    cluster_run(&c, meet_often);
    for (uint32_t i = 0; i < ALL; i++) {
        CHECK(acp_engine_learn(c.engines[i], 0, rows[0], ALL) == ACP_OK);
        acp_engine_widen(c.engines[i]);
    }
    cluster_run(&c, meet_often);
    CHECK(acp_engine_learn(c.engines[0], ALL + 1, rows[0], 1) == ACP_E_ARGUMENT);
    stop(&c);
}

/* Who was never needed may end without a word; who is in use is missed. */
static void only_who_is_needed_is_missed(void)
{
    struct cluster c;
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    uint32_t lost[ALL];
    found(&c, rows, 1, ACP_PATH_ANY);
    acp_engine *a = c.engines[0];
    grow_by_one(&c, rows, 3);
    CHECK(word_at(c.engines[2], 0) == 0 && word_at(a, 2) == 0);
    CHECK(acp_engine_learn(a, 0, rows[0], ALL) == ACP_OK);
    peer_mark_lost(a, peer_of_slot(a, 3));
    CHECK(a->job.losses == 0 && acp_lost_ranks(a, false, lost, ALL) == 1 && lost[0] == 3);
    CHECK(acp_check(acp_engine_lane(a), acp_ga(3, 0, STARTER_OFFSET), 8) == ACP_E_LOST);
    peer_mark_lost(a, peer_of_slot(a, 2));
    CHECK(a->job.losses == 1 && acp_lost_ranks(a, false, lost, ALL) == 2);
    acp_refresh(a);
    CHECK(a->job.losses_accepted == 1 && acp_lost_ranks(a, false, lost, ALL) == 2);
    acp_engine_widen(a);
    struct party *p = team_acquire(a, NULL, 0, 0);
    CHECK(p->count == 2 && team_layout_has(p, 1) && !team_layout_has(p, 2) && !team_layout_has(p, 3));
    team_release(a, p);
    stop(&c);
}

/* It is told so when it has just joined, by somebody who knew them. */
static void losses_before_it_came_are_not_missed(void)
{
    struct cluster c;
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    found(&c, rows, ALL, ACP_PATH_ANY);
    acp_engine *a = c.engines[0], *third = c.engines[2];
    peer_mark_lost(a, peer_of_slot(a, 1));
    acp_refresh(a);
    CHECK(acp_table_add(third, 0, rows[0], 3) == ACP_OK);
    acp_engine_joined(third, 2, 3, FOUNDERS);
    CHECK(acp_engine_join(third, 3, 2) == ACP_OK);
    CHECK(acp_engine_learn(a, 0, rows[0], 3) == ACP_OK && word_at(a, 2) == 0);
    UNTIL(acp_lost_ranks(third, false, NULL, 0) == 1);
    CHECK(third->job.losses == 0);
    stop(&c);
}

/* Who leaves is missing where all were to meet, and no loss; those that stay go on when they accept it. */
static void who_leaves_is_no_loss(uint32_t nodes, acp_path path)
{
    struct cluster c;
    cluster_start(&c, 3, nodes, path, CLUSTER_SHARED);
    acp_engine *a = c.engines[0], *third = c.engines[2];
    cluster_run(&c, meet_often);
    CHECK(word_at(third, 0) == 0 && word_at(third, 1) == 0);
    acp_engine_leave(third, 2, 3);
    CHECK(acp_barrier(third, NULL, 0, PURPOSE_FINALIZE, ACP_FOREVER) == ACP_OK);
    acp_engine_leaving(third);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(acp_barrier(c.engines[i], NULL, 0, 0, ACP_FOREVER) == ACP_E_LOST);
        CHECK(c.engines[i]->job.losses == 0 && acp_trouble_rank(c.engines[i]) == 2);
    }
    for (uint32_t i = 0; i < 2; i++) {
        acp_refresh(c.engines[i]);
        CHECK(acp_lost_ranks(c.engines[i], false, NULL, 0) == 1);
    }
    acp_engine_close(third);
    c.count = 2;
    cluster_run(&c, meet_often);
    CHECK(word_at(a, 1) == 0 && a->job.losses == 0);
    cluster_stop(&c);
    acp_engine_free(third); /* its mapping may be that of the others */
}

/* It has loaded from one that does not know it, and waits for that one. */
static void a_newcomer_hears_of_who_leaves(void)
{
    struct cluster c;
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    char into[8];
    found(&c, rows, 1, ACP_PATH_ANY);
    acp_engine *a = c.engines[0], *third = c.engines[2];
    acp_lane *lane = acp_engine_lane(third);
    grow_by_one(&c, rows, 3);
    CHECK(word_at(third, 0) == 0 && acp_procs(a) == 2);
    acp_request *r = ireceive(lane, 0, 5, into, sizeof into);
    acp_engine_leave(a, 0, 1);
    acp_engine_leaving(a);
    acp_engine_close(a);
    CHECK(acp_request_wait(third, r, 20000000000) == ACP_OK);
    CHECK(acp_request_end(lane, r, NULL) == ACP_E_LOST);
    for (uint32_t i = 1; i < c.count; i++)
        acp_engine_close(c.engines[i]);
    for (uint32_t i = 0; i < c.count; i++)
        acp_engine_free(c.engines[i]);
}

int main(void)
{
    static const struct {
        uint32_t nodes;
        acp_path path;
    } cases[] = {{1, ACP_PATH_ANY}, {1, ACP_PATH_OWNER}, {1, ACP_PATH_LINK}, {2, ACP_PATH_ANY},
                 {ALL, ACP_PATH_ANY}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        a_newcomer_is_let_in_and_learnt_of(cases[i].nodes, cases[i].path);
        a_copy_names_somebody_new(cases[i].nodes, cases[i].path);
        everybody_is_who_joined_together(cases[i].nodes, cases[i].path);
        who_leaves_is_no_loss(cases[i].nodes, cases[i].path);
    }
    the_message_of_a_stranger(1, ACP_PATH_ANY, true);
    the_message_of_a_stranger(1, ACP_PATH_ANY, false);
    a_newcomer_hears_of_who_leaves();
    only_who_is_needed_is_missed();
    losses_before_it_came_are_not_missed();
    one_comes_after_many();
    return 0;
}
