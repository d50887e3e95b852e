/* Messages of a stream by link leave together, and none of them stays behind: not if its sender computes, whether its
 * receiver waits or not, nor if the connection breaks or the sender ends. */
#include "base/linux.h"
#include "cluster/channel_end.h"
#include "cluster/posting.h"
#include "cluster/relayed.h"
#include "core/state/peer.h"
#include "peers/peer.h"
#include "transport/link.h"

enum { FROM = 1, TO = 0, RANKS = 2, SLOTS = 8 };

static struct proxy proxies[RANKS];
static struct cluster cluster;
static acp_engine *from, *to;

static void start(void)
{
    relayed_start(&cluster, proxies, RANKS, 20000000000u, NULL);
    from = cluster.engines[FROM];
    to = cluster.engines[TO];
}

static void stop_unequal(void)
{
    acp_engine_close(to);
    for (uint32_t i = 0; i < RANKS; i++) {
        acp_engine_free(cluster.engines[i]);
        proxy_stop(&proxies[i]);
    }
}

static bool holds_back(acp_engine *e, uint32_t other)
{
    pthread_mutex_lock(&e->lock);
    const struct link *link = peer_of_slot(e, other)->tcp.links[FLOW_COLOR];
    bool held = link && link->held;
    pthread_mutex_unlock(&e->lock);
    return held;
}

static void receive(uint64_t number)
{
    uint64_t word = 0;
    CHECK(got(to, irecv(to, FROM, 1, &word, sizeof word), ACP_OK).size == sizeof word && word == number);
}

/* Sends numbers until some are held back; the next one. */
static uint64_t stream(uint64_t number)
{
    uint64_t until = linux_now_ns() + 20000000000u;
    bool held = false;
    while (!held && linux_now_ns() < until) {
        for (int i = 0; i < 20; i++, number++)
            CHECK(!isend(from, TO, 1, &number, sizeof number));
        held = holds_back(from, TO);
    }
    CHECK(held);
    return number;
}

/* The connection is there. */
static void begin(void)
{
    uint64_t word = 7;
    CHECK(!isend(from, TO, 1, &word, sizeof word));
    receive(7);
}

static void the_receiver_waits(void)
{
    start();
    begin();
    for (uint64_t turn = 0, number = 0, sent; turn < 50; turn++)
        for (sent = stream(number); number < sent; number++)
            receive(number);
    relayed_stop(&cluster, proxies);
}

static void nobody_waits(void)
{
    start();
    begin();
    for (uint64_t turn = 0, number = 0, sent; turn < 10; turn++) {
        uint64_t last = 0;
        sent = stream(number);
        for (; number + 1 < sent; number++)
            receive(number);
        acp_request *r = irecv(to, FROM, 1, &last, sizeof last);
        while (!acp_request_done(r))
            sched_yield();
        got(to, r, ACP_OK);
        CHECK(last == number++);
    }
    relayed_stop(&cluster, proxies);
}

static void the_connection_breaks(void)
{
    start();
    begin();
    for (uint64_t turn = 0, number = 0, sent; turn < 5; turn++) {
        sent = stream(number);
        relayed_cut(&cluster, proxies);
        for (; number < sent; number++)
            receive(number);
    }
    relayed_stop(&cluster, proxies);
}

static void the_sender_ends(void)
{
    start();
    begin();
    uint64_t sent = stream(0);
    acp_engine_close(from);
    for (uint64_t number = 0; number < sent; number++)
        receive(number);
    stop_unequal();
}

static void the_receiver_dies(void)
{
    start();
    begin();
    relayed_stall(&cluster, proxies, true);
    uint64_t number = stream(0);
    peer_mark_lost(from, peer_of_slot(from, TO));
    acp_envelope envelope = {.tag = 1, .size = sizeof number};
    acp_request *request;
    int rc;
    while ((rc = acp_send(acp_engine_lane(from), TO, &envelope, &number, &request)) == ACP_OK)
        sched_yield();
    CHECK(rc == ACP_E_LOST);
    while (from->tcp.held_links)
        sched_yield();
    relayed_stall(&cluster, proxies, false);
    acp_engine_close(from);
    stop_unequal();
}

static void put(acp_channel *end, uint64_t number)
{
    CHECK(acp_channel_open(end, 20000000000) == ACP_OK);
    CHECK(acp_channel_commit(end, &number, sizeof number, sizeof number, true, ACP_FOREVER) == ACP_OK);
    acp_channel_give_turn(end);
}

static void take(acp_channel *end, uint64_t number)
{
    acp_piece p;
    CHECK(acp_channel_take(end, ACP_FOREVER, &p) == ACP_OK);
    CHECK(p.size == sizeof number && memcmp(p.data, &number, sizeof number) == 0);
    acp_channel_release(end, p.number);
    acp_channel_give_turn(end);
}

/* The sender learns of slots that are back when it needs them, without any call at the other end. */
static void slots_come_back(void)
{
    acp_channel_shape shape = {sizeof(uint64_t), 1, SLOTS, 0, false};
    start();
    acp_channel *there = channel_end_open(acp_engine_lane(from), TO, shape, true);
    acp_channel *here = channel_end_open(acp_engine_lane(to), FROM, shape, false);
    uint64_t sent = 0, taken = 0;
    for (int turn = 0; turn < 50; turn++) {
        while (sent - taken < SLOTS / 2)
            put(there, sent++);
        while (taken < sent)
            take(here, taken++);
        for (int i = 0; i < SLOTS; i++)
            put(there, sent++);
        while (taken < sent)
            take(here, taken++);
    }
    acp_channel_free(there);
    acp_channel_free(here);
    relayed_stop(&cluster, proxies);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"the receiver waits", the_receiver_waits},
                 {"nobody waits", nobody_waits},
                 {"the connection breaks", the_connection_breaks},
                 {"the sender ends", the_sender_ends},
                 {"the receiver dies", the_receiver_dies},
                 {"slots come back", slots_come_back}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        printf("%s\n", tests[i].name);
        fflush(stdout);
        tests[i].run();
    }
    return 0;
}
