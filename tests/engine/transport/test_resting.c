/* Links are a cache: of more than may be open the idle ones rest, without a connection, and come back when they are
 * needed. Nothing is lost or done twice by that, and a rest is not a death. */
#include "cluster/ageing.h"
#include "cluster/relayed.h"
#include "base/libcrypto.h"
#include "peers/peer.h"
#include "transport/keepalive.h"
#include "transport/link_cache.h"

#define RANKS 4u
#define MOST 1u
#define TURNS 5u
#define BYTES 3000u
#define CLOSINGS 36u
#define UNTIL(condition)   \
    while (!(condition))   \
        usleep(200)

static struct proxy proxies[RANKS];

static void start(struct cluster *c, uint32_t ranks, uint32_t most)
{
    relayed_start(c, proxies, ranks, 60000000000u, NULL);
    for (uint32_t i = 0; i < ranks; i++) {
        pthread_mutex_lock(&c->engines[i]->lock);
        c->engines[i]->tcp.cache.open_most = most;
        pthread_mutex_unlock(&c->engines[i]->lock);
    }
}

static void add_begin(acp_lane *lane, acp_ga_t word, uint64_t *old, acp_handle_t *pending)
{
    CHECK(acp_fetch(lane, ACP_ADD8, word, 1, 0, old, pending) == ACP_OK);
}

static uint64_t add(acp_engine *e, uint32_t rank)
{
    uint64_t old;
    acp_handle_t pending;
    add_begin(acp_engine_lane(e), acp_starter(e, rank), &old, &pending);
    CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    return old;
}

static void complete(acp_engine *e)
{
    acp_failure failure;
    uint64_t more;
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    CHECK(!acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more));
}

/* All with all: each atomic once, each put in its place, from both ends at a time. */
static void work(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    unsigned char out[BYTES], in[BYTES];
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        for (uint32_t step = 1; step < c->count; step++) {
            uint32_t other = (rank + step) % c->count;
            acp_ga_t there = acp_starter(e, other);
            memset(out, (int)(rank + turn), sizeof out);
            add(e, other);
            for (int i = 0; i < 20; i++)
                CHECK(acp_atomic(lane, ACP_ADD8, ACP_GA_NULL, there, 1, 0, ACP_HANDLE_NULL));
            if (step == 1) {
                CHECK(acp_iput(lane, there + 1024, out, sizeof out, ACP_HANDLE_NULL));
                complete(e);
                CHECK(acp_iget(lane, in, there + 1024, sizeof in, ACP_HANDLE_NULL));
            }
            complete(e);
            CHECK(step != 1 || !memcmp(in, out, sizeof in));
        }
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
    CHECK(words_of(e, rank)[0] == (uint64_t)21 * TURNS * (c->count - 1));
    CHECK(!e->job.losses);
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
    words_of(e, rank)[0] = 0;
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static uint32_t open_links(acp_engine *e)
{
    uint64_t limit;
    return acp_links(e, &limit);
}

static void all_with_all(void)
{
    struct cluster c;
    start(&c, RANKS, MOST);
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        uint64_t rested = 0;
        relayed_spoil(&c, proxies, spoiled ? 60000 : 0, 0);
        cluster_run(&c, work);
        relayed_spoil(&c, proxies, 0, 0);
        for (uint32_t i = 0; i < RANKS; i++) {
            pthread_mutex_lock(&c.engines[i]->lock);
            rested += c.engines[i]->tcp.cache.rested;
            pthread_mutex_unlock(&c.engines[i]->lock);
        }
        printf("  %s: %llu rests so far\n", spoiled ? "with cuts" : "good network", (unsigned long long)rested);
        fflush(stdout);
        CHECK(rested > 2 * RANKS);
    }
    for (uint32_t i = 0; i < RANKS; i++) /* idle: no more than may be */
        UNTIL(open_links(c.engines[i]) <= MOST);
    relayed_stop(&c, proxies);
}

static bool all_arrived(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool is = keepalive_arrived(e);
    pthread_mutex_unlock(&e->lock);
    return is;
}

static bool let_rest(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool is = link_cache_spare(e);
    pthread_mutex_unlock(&e->lock);
    return is;
}

static bool all_rest(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool is = true;
    for (const struct link *link = e->tcp.links; link; link = link->next)
        is &= link->resting;
    pthread_mutex_unlock(&e->lock);
    return is;
}

/* Both ends of their link rest. Where the relay loses the word of that the link is resumed, and is to rest again. */
static void let_both_rest(acp_engine *e, acp_engine *far)
{
    UNTIL((all_rest(e) && all_rest(far)) || (let_rest(e) && false));
}

/* Two engines with one link, which rank 0 has opened. No frame of it is on its way. */
static void quiet(struct cluster *c)
{
    UNTIL(all_arrived(c->engines[0]));
    UNTIL(all_arrived(c->engines[1]));
}

/* What is due on other links does not resume it, nor end it. */
static void at_rest_nothing_is_due(void)
{
    struct cluster c;
    start(&c, 2, 1);
    acp_engine *e = c.engines[0];
    add(e, 1);
    quiet(&c);
    let_both_rest(e, c.engines[1]);
    pthread_mutex_lock(&e->lock);
    for (uint32_t i = 0; i < 3; i++) {
        e->tcp.links->retry_at = 0; /* a link that is lost would be called by now */
        keepalive_tick(&e->lanes[LANE_LOCKED], 0);
        CHECK(e->tcp.links && e->tcp.links->resting && !e->tcp.links->wire);
    }
    pthread_mutex_unlock(&e->lock);
    relayed_stop(&c, proxies);
}

/* In turns: one end lets it rest; both do before either hears of that; one does while a frame of the other, which is
 * in the network, cannot be taken any more. Then either end, with a new connection, goes on. */
static void closings(void)
{
    struct cluster c;
    uint64_t old[2], counts[2] = {0, 0};
    acp_handle_t pending;
    start(&c, 2, 1);
    counts[1] += add(c.engines[0], 1) + 1;
    for (uint32_t i = 0; i < CLOSINGS; i++) {
        uint32_t one = i / 3 % 2, other = 1 - one, next = i / 6 % 2;
        acp_engine *e = c.engines[one], *far = c.engines[other];
        quiet(&c);
        relayed_stall(&c, proxies, i % 3);
        if (i % 3 == 2)
            add_begin(acp_engine_lane(far), acp_starter(far, one), &old[0], &pending);
        UNTIL(let_rest(e));
        if (i % 3 == 1)
            UNTIL(let_rest(far));
        relayed_stall(&c, proxies, false);
        if (i % 3 == 2)
            CHECK(acp_wait(far, pending, ACP_FOREVER) == ACP_OK && old[0] == counts[one]++);
        else
            let_both_rest(e, far);
        if (i % 6 == 1)
            relayed_cut(&c, proxies);
        CHECK(add(c.engines[next], 1 - next) == counts[1 - next]++);
    }
    for (uint32_t i = 0; i < 2; i++)
        CHECK(words_of(c.engines[i], i)[0] == counts[i] && !c.engines[i]->job.losses);
    relayed_stop(&c, proxies);
}

/* While the link rests the network carries nothing, or ends all connections: what is said meanwhile comes later. */
static void an_outage_at_rest(void)
{
    struct cluster c;
    acp_handle_t pending;
    uint64_t old;
    start(&c, 2, 1);
    for (uint64_t i = 0; i < 4; i++) {
        acp_engine *e = c.engines[i % 2], *far = c.engines[1 - i % 2];
        add(c.engines[0], 1);
        quiet(&c);
        let_both_rest(c.engines[i / 2], c.engines[1 - i / 2]);
        relayed_stall(&c, proxies, true);
        add_begin(acp_engine_lane(e), acp_starter(e, (uint32_t)(1 - i % 2)) + 8, &old, &pending);
        UNTIL(open_links(e) == 1);
        relayed_cut(&c, proxies);
        relayed_stall(&c, proxies, false);
        CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK && old == i / 2);
        CHECK(!e->job.losses && !far->job.losses);
    }
    relayed_stop(&c, proxies);
}

/* A peer that has gone while the link rested is lost as soon as it is needed; or, if a thread may wait for it, after a
 * while. */
static void the_dead_are_noticed(bool needed)
{
    struct cluster c;
    acp_handle_t pending;
    acp_failure failure;
    uint64_t more, word = 1;
    start(&c, 3, 1);
    acp_engine *e = c.engines[0];
    add(e, 1);
    add(e, 2);
    UNTIL(open_links(e) == 1);
    for (; !all_rest(e); usleep(1000))
        let_rest(e);
    proxy_stop(&proxies[1]);
    if (needed) {
        CHECK(acp_put(acp_engine_lane(e), acp_starter(e, 1), &word, sizeof word, &pending) == ACP_OK);
        CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
        CHECK(acp_failures_take(e, pending, true, &failure, 1, &more) && failure.fault.status == ACP_E_LOST);
    } else {
        pthread_mutex_lock(&e->lock);
        for (struct link *link = e->tcp.links; link; link = link->next)
            link->guarded = true;
        pthread_mutex_unlock(&e->lock);
        links_age(e, 1, e->config.peer_timeout_ns / 8);
        UNTIL(peer_of_slot(e, 1)->lost);
    }
    add(e, 2);
    for (uint32_t i = 0; i < 3; i++)
        acp_engine_close(c.engines[i]);
    for (uint32_t i = 0; i < 3; i++)
        acp_engine_free(c.engines[i]);
    proxy_stop(&proxies[0]);
    proxy_stop(&proxies[2]);
}

int main(void)
{
    static const char *const names[] = {[ACP_LINKS_CRC] = "sums", [ACP_LINKS_MAC] = "codes",
                                        [ACP_LINKS_ENCRYPT] = "encryption"};
    struct libcrypto crypto = {.handle = NULL};
    uint32_t last = libcrypto_open(&crypto) ? ACP_LINKS_ENCRYPT : ACP_LINKS_MAC;
    for (cluster_links = ACP_LINKS_CRC; cluster_links <= last; cluster_links++) {
        printf("frames with %s\n", names[cluster_links]);
        fflush(stdout);
        closings();
    }
    cluster_links = ACP_LINKS_MAC;
    at_rest_nothing_is_due();
    all_with_all();
    an_outage_at_rest();
    the_dead_are_noticed(true);
    the_dead_are_noticed(false);
    libcrypto_close(&crypto);
    return 0;
}
