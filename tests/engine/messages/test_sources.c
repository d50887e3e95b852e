/* A receive from anybody ends with the death of those who may send it, and of nobody else. */
#include "cluster/collecting.h"
#include "core/state/peer.h"
#include "messages/flow.h"
#include "operations/any_source.h"
#include "peers/peer.h"
#include "transport/link.h"

static void mark_lost(acp_engine *e, uint32_t rank)
{
    peer_mark_lost(e, peer_of_slot(e, rank));
}

/* Rank 2 is lost, and whoever waits for anybody but that one waits on. */
static void lost_elsewhere(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const uint32_t others[] = {1, 0}, all[] = {1, 2};
    acp_sources *among = acp_sources_new(others, 2), *with = acp_sources_new(all, 2);
    uint64_t words[2] = {0}, word = 9;
    CHECK(among && with);
    if (rank == 0) {
        acp_envelope want = {.source = ACP_ANY, .tag = 5, .size = 8, .among = among}, found;
        acp_request *goes_on, *ends;
        CHECK(AGAIN(acp_receive(lane, &want, &words[0], &goes_on)) == ACP_OK);
        want.tag = 6;
        want.among = with;
        CHECK(AGAIN(acp_receive(lane, &want, &words[1], &ends)) == ACP_OK);
        meet(e);
        CHECK(acp_request_wait(e, ends, ACP_FOREVER) == ACP_OK);
        CHECK(AGAIN(acp_request_end(lane, ends, NULL)) == ACP_E_LOST);
        CHECK(acp_lane_fault(lane)->rank == 2);
        CHECK(!acp_request_done(goes_on) && acp_sources_lost(e, among) == -1);
        want.tag = 7;
        CHECK(AGAIN(acp_probe_wait(e, &want, &found, NULL, 0)) == ACP_E_LOST);
        want.among = among;
        CHECK(acp_probe_wait(e, &want, &found, NULL, 0) == ACP_E_TIMEOUT);
        acp_sources_free(among); /* the receive has it, too */
        among = NULL;
        post_message(lane, 1, 1, &word, 8);
        receive_end_of(lane, goes_on);
        CHECK(words[0] == 9);
        acp_refresh(e);
        CHECK(acp_sources_lost(e, with) == -1);
        mark_lost(e, 1); /* what was found before is no more so */
        CHECK(acp_sources_lost(e, with) == 1);
    } else if (rank == 1) {
        meet(e);
        const struct control *there = c->engines[0]->control;
        UNTIL(there->asleep && layout_doing(there) == ACP_DOING_RECEIVE);
        mark_lost(c->engines[0], 2);
        take_message(lane, 0, 1, &word, 8);
        post_message(lane, 0, 5, &word, 8);
    } else {
        meet(e);
    }
    acp_sources_free(among);
    acp_sources_free(with);
}

/* Rank 1 has said that it ends: nobody is left who may send or write. */
static void nobody_is_left(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static const uint32_t one[] = {1};
    acp_sources *among = acp_sources_new(one, 1);
    (void)c;
    (void)lane;
    CHECK(among);
    meet(e);
    if (rank == 0) {
        struct peer *p = peer_of_slot(e, 1);
        CHECK(any_source_gone(e, NULL) == ACP_OK && any_source_gone(e, among) == ACP_OK);
        pthread_mutex_lock(&e->lock);
        p->said_all = true;
        peer_said_leaving(e, p);
        pthread_mutex_unlock(&e->lock);
        CHECK(any_source_gone(e, NULL) == ACP_E_FINALIZING && any_source_gone(e, among) == ACP_E_FINALIZING);
        p->said_all = false;
        p->leaving = 0;
        e->job.leavers--;
    }
    meet(e);
    acp_sources_free(among);
}

static bool watches(acp_engine *e, uint32_t slot)
{
    const struct peer *p = peer_known(e, slot);
    pthread_mutex_lock(&e->space);
    bool is = p && p->watched;
    pthread_mutex_unlock(&e->space);
    return is;
}

/* More ranks than it opens links to, on two nodes, and nobody has spoken to rank 5: the first rank of
 * that node sees its end, and tells. */
static void of_many(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static atomic_uint ended;
    static const uint32_t all[] = {1, 2, 3, 4, 5};
    uint64_t word;
    atomic_store(&ended, 0);
    meet(e);
    if (rank == 0) {
        acp_sources *among = acp_sources_new(all, 5);
        acp_envelope want = {.source = ACP_ANY, .tag = 5, .size = 8, .among = among};
        acp_request *r;
        CHECK(among && AGAIN(acp_receive(lane, &want, &word, &r)) == ACP_OK);
        acp_sources_free(among);
        CHECK(acp_request_wait(e, r, ACP_FOREVER) == ACP_OK);
        CHECK(AGAIN(acp_request_end(lane, r, NULL)) == ACP_E_LOST);
        CHECK(acp_lane_fault(lane)->rank == 5);
    } else if (rank == 1) {
        UNTIL(watches(c->engines[0], 2) && watches(c->engines[0], 4));
        UNTIL(watches(e, 3) && watches(e, 5));
        mark_lost(e, 5);
    }
    atomic_fetch_add(&ended, 1);
    UNTIL(atomic_load(&ended) == c->count);
}

static bool knows(acp_engine *e, uint32_t slot)
{
    const struct peer *p = peer_known(e, slot);
    pthread_mutex_lock(&e->lock);
    bool is = p && p->tcp.links[FLOW_COLOR];
    pthread_mutex_unlock(&e->lock);
    return is;
}

/* The same where the link between the two nodes was opened by who is asked. */
static void of_many_called(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    if (rank == 1)
        link_watch(e, peer_of_slot(e, 0), FLOW_COLOR);
    else if (rank == 0)
        UNTIL(knows(e, 1));
    of_many(c, rank, e, lane);
}

enum { TREE = 8 };

static uint32_t linked_to(acp_engine *e)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < e->procs; slot++)
        count += knows(e, slot);
    return count;
}

/* Each of many is a node of its own, and has three links at most. */
static void by_a_tree(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static const uint32_t all[] = {2, 3, 4, 5, 6, 7};
    static atomic_uint ended;
    uint64_t word;
    if (rank == 0) {
        acp_sources *among = acp_sources_new(all, 6);
        acp_envelope want = {.source = ACP_ANY, .tag = 5, .size = 8, .among = among};
        acp_request *r;
        CHECK(among && AGAIN(acp_receive(lane, &want, &word, &r)) == ACP_OK);
        acp_sources_free(among);
        CHECK(acp_request_wait(e, r, ACP_FOREVER) == ACP_OK);
        CHECK(AGAIN(acp_request_end(lane, r, NULL)) == ACP_E_LOST);
        CHECK(acp_lane_fault(lane)->rank == 7);
    } else if (rank == 2) {
        for (uint32_t i = 0; i < TREE; i++)
            UNTIL(linked_to(c->engines[i]) >= 1 && (i >= 3 || linked_to(c->engines[i]) >= 2));
        for (uint32_t i = 0; i < TREE; i++)
            CHECK(linked_to(c->engines[i]) <= 3);
        for (uint32_t i = 0; i < TREE; i++)
            CHECK(i == 1 || !knows(c->engines[1], i) || i == 0 || i == 3 || i == 4);
        for (uint32_t i = 0; i < TREE; i++)
            if (i != 1 && knows(c->engines[i], 1))
                mark_lost(c->engines[i], 1); /* as its links tell: the others hear of it, and close the gap */
        for (uint32_t i = 0; i < TREE; i++)
            UNTIL(i == 1 || peer_of_slot(c->engines[i], 1)->lost);
        UNTIL(knows(c->engines[0], 3));
        mark_lost(c->engines[3], 7);
    }
    atomic_fetch_add(&ended, 1);
    UNTIL(atomic_load(&ended) % c->count == 0);
}

/* One comes late: the others hear of the end of those alone from whom their messages come. */
static void of_a_collective(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct script s;
    uint64_t in = rank, out = 0;
    (void)lane;
    script_begin(&s, c->count, -1, 0);
    s.buffers[IN] = &in;
    s.buffers[OUT] = &out;
    script_relay(&s, rank, 0);
    if (rank == 0)
        for (uint32_t i = 1; i < c->count; i++)
            UNTIL(knows(c->engines[i], i - 1));
    acp_collective *one = begin(e, &s, 9);
    CHECK(acp_collective_run(one, ACP_FOREVER) == ACP_OK && out == 0);
    acp_collective_end(one);
    CHECK(linked_to(e) <= 2);
}

/* So for one who does not wait, but asks again and again. */
static void who_only_asks_listens(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct script s;
    uint64_t in = rank, out = 9;
    (void)lane;
    script_begin(&s, c->count, -1, 0);
    s.buffers[IN] = &in;
    s.buffers[OUT] = &out;
    script_relay(&s, rank, 0);
    if (rank == 0)
        UNTIL(knows(c->engines[2], 1));
    acp_collective *one = begin_released(e, &s, 10);
    UNTIL(acp_collective_done(one));
    CHECK(acp_collective_wait(one, 0) == ACP_OK && out == 0);
    acp_collective_end(one);
}

/* Among several receives is one from anybody: whoever may send it is listened for, also if nobody has spoken yet. */
static void of_one_of_several_receives(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t words[2] = {0, 0}, word = 9;
    if (rank == 0) {
        acp_request *requests[] = {ireceive(lane, 1, 6, &words[0], 8), ireceive(lane, ACP_ANY, 5, &words[1], 8)};
        CHECK(acp_wait_any(e, requests, 2, NULL, 0, NULL, 0, ACP_FOREVER) == ACP_OK);
        receive_end_of(lane, requests[1]);
        receive_end_of(lane, requests[0]);
        CHECK(words[0] == 9 && words[1] == 9);
    } else {
        UNTIL(knows(c->engines[0], 2));
        post_message(lane, 0, rank == 2 ? 5 : 6, &word, 8);
    }
    meet(e);
}

/* Whoever waits for a word or a name hears of the death of any, who may have been the one to bring it. */
static void a_word_and_a_name(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const uint64_t key[2] = {2, 4}, value[2] = {5, 6};
    uint64_t word = 1, found[2];
    acp_handle_t pending;
    acp_word at;
    if (rank == 0) {
        CHECK(acp_word_find(lane, acp_starter(e, 0), 8, &at) == ACP_OK);
        CHECK(acp_word_wait(e, &at, ACP_EQ, 1, false, NULL, -1, ACP_FOREVER) == ACP_OK);
    } else if (rank == 1) {
        CHECK(acp_lookup(e, key, found, ACP_FOREVER) == ACP_OK && found[1] == 6);
    } else if (rank == 2) {
        UNTIL(knows(c->engines[0], 3) && knows(c->engines[1], 3));
        CHECK(acp_publish(e, key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
        CHECK(acp_put(lane, acp_starter(e, 0), &word, 8, &pending) == ACP_OK);
        CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    }
    meet(e);
}

/* All but rank 0 are in finalize, each a node of its own: that comes to it by the tree. */
static void by_a_tree_of_ends(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static const uint32_t all[] = {1, 2, 3, 4, 5, 6, 7};
    uint64_t words[2];
    meet(e);
    if (rank == 0) {
        acp_sources *among = acp_sources_new(all, 7);
        acp_envelope want = {.source = ACP_ANY, .tag = 5, .size = 8, .among = among}, found;
        acp_request *r[2];
        uint64_t key[2] = {2, 4}, value[2];
        CHECK(among && AGAIN(acp_receive(lane, &want, &words[0], &r[0])) == ACP_OK);
        CHECK(acp_request_wait(e, r[0], ACP_FOREVER) == ACP_E_FINALIZING);
        want.tag = 6;
        CHECK(AGAIN(acp_receive(lane, &want, &words[1], &r[1])) == ACP_OK);
        CHECK(acp_wait_any(e, r, 2, NULL, 0, NULL, 0, ACP_FOREVER) == ACP_E_FINALIZING);
        CHECK(acp_probe_wait(e, &want, &found, NULL, ACP_FOREVER) == ACP_E_FINALIZING);
        CHECK(acp_lookup(e, key, value, ACP_FOREVER) == ACP_E_FINALIZING);
        CHECK(take_message(lane, ACP_ANY, 9, words, 8).source == TREE - 1 && words[0] == rank);
        CHECK(e->job.end_count == 1 && e->job.ends[0].low == 1 && e->job.ends[0].high == TREE);
        CHECK(!knows(e, 3) && !knows(e, 5));
        for (uint32_t i = 0; i < 2; i++)
            CHECK(acp_request_end(lane, r[i], NULL) != ACP_OK);
        acp_sources_free(among);
    } else if (rank == TREE - 1) {
        words[0] = 0;
        post_message(lane, 0, 9, words, 8);
    }
    CHECK(acp_barrier(e, NULL, 0, PURPOSE_FINALIZE, ACP_FOREVER) == ACP_OK);
    (void)c;
}

static void stop(struct cluster *c) /* a rank is lost: they do not meet again */
{
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_close(c->engines[i]);
    for (uint32_t i = 0; i < c->count; i++)
        acp_engine_free(c->engines[i]);
}

static void run(cluster_body body, uint32_t count, uint32_t nodes, acp_path path)
{
    struct cluster c;
    cluster_start(&c, count, nodes, path, CLUSTER_SHARED);
    cluster_run(&c, body);
    stop(&c);
}

int main(void)
{
    static_assert(WATCHED_MOST < 5, "of_many is about more");
    run(lost_elsewhere, 3, 1, ACP_PATH_ANY);
    run(lost_elsewhere, 3, 1, ACP_PATH_OWNER);
    run(lost_elsewhere, 3, 3, ACP_PATH_ANY);
    run(of_many, 6, 2, ACP_PATH_ANY);
    run(of_many_called, 6, 2, ACP_PATH_ANY);
    run(a_word_and_a_name, 4, 4, ACP_PATH_ANY);
    run(by_a_tree, TREE, TREE, ACP_PATH_ANY);
    run(by_a_tree, TREE, 1, ACP_PATH_LINK);
    run(by_a_tree_of_ends, TREE, TREE, ACP_PATH_ANY);
    run(of_a_collective, TREE, TREE, ACP_PATH_ANY);
    run(nobody_is_left, 2, 1, ACP_PATH_ANY);
    run(who_only_asks_listens, 3, 3, ACP_PATH_ANY);
    run(of_one_of_several_receives, 3, 3, ACP_PATH_ANY);
    return 0;
}
