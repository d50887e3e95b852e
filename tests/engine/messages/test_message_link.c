/* Messages by link: whole and in their order whatever happens to connections, and with an end if a
 * process dies in the middle. */
#include "cluster/ageing.h"
#include "cluster/posting.h"
#include "cluster/proxy.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "messages/flow.h"
#include "messages/mailbox.h"
#include "peers/peer.h"

#define RANKS 2u
#define SHORT_NS 1000000000u /* only when the peer is dead: it may get no processor for as long */

static struct proxy proxies[RANKS];

/* Every engine reaches the others through their proxies. */
static void start(struct cluster *c, uint64_t peer_timeout_ns)
{
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    cluster_create(c, RANKS, RANKS, ACP_PATH_LINK, CLUSTER_SHARED, peer_timeout_ns, rows);
    for (uint32_t i = 0; i < RANKS; i++)
        proxy_start(&proxies[i], ((struct row *)(void *)rows[i])->port, i + 1);
    for (uint32_t i = 0; i < RANKS; i++) {
        uint8_t seen[CLUSTER_MOST][ACP_ROW_SIZE];
        memcpy(seen, rows, sizeof seen);
        for (uint32_t other = 0; other < RANKS; other++)
            if (other != i)
                ((struct row *)(void *)seen[other])->port = proxies[other].port;
        CHECK(acp_table_add(c->engines[i], 0, seen[0], RANKS) == ACP_OK);
        CHECK(acp_engine_join(c->engines[i], RANKS, i) == ACP_OK);
    }
}

static void spoil(uint64_t cut_mean, uint64_t flip_mean)
{
    for (uint32_t i = 0; i < RANKS; i++) {
        proxies[i].flip_mean = flip_mean;
        proxies[i].cut_mean = cut_mean;
    }
}

static void stall(bool on)
{
    proxies_stall(proxies, RANKS, on);
}

static void stop(struct cluster *c)
{
    spoil(0, 0);
    cluster_stop(c);
    for (uint32_t i = 0; i < RANKS; i++)
        proxy_stop(&proxies[i]);
}

static void end_unequal(struct cluster *c)
{
    for (uint32_t i = 0; i < RANKS; i++)
        acp_engine_close(c->engines[i]);
    for (uint32_t i = 0; i < RANKS; i++)
        acp_engine_free(c->engines[i]);
    for (uint32_t i = 0; i < RANKS; i++)
        proxy_stop(&proxies[i]);
}

static const uint64_t sizes[] = {0,        1,        MAIL_INLINE, MAIL_INLINE + 1, 5000,
                                 PART - 1, PART,     PART + 1,    3 * PART + 17,   1500000};
#define SIZES (sizeof sizes / sizeof *sizes)
#define LONGEST 1500000u

/* To the next rank and from the one before, some receives posted before their messages come. */
static void every_size(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint32_t next = (rank + 1) % c->count, before = (rank + c->count - 1) % c->count;
    unsigned char *out = malloc(SIZES * LONGEST), *in = malloc(SIZES * LONGEST);
    acp_request *sends[SIZES], *receives[SIZES];
    (void)lane;
    for (uint64_t turn = 0; turn < 4; turn++) {
        for (uint64_t i = 0; i < SIZES && turn % 2; i++)
            receives[i] = irecv(e, before, (int64_t)i, in + i * LONGEST, LONGEST);
        if (turn < 2)
            meet(e);
        for (uint64_t i = 0; i < SIZES; i++) {
            fill(out + i * LONGEST, sizes[i], i + turn + rank);
            sends[i] = isend(e, next, (int64_t)i, out + i * LONGEST, sizes[i]);
        }
        if (turn < 2)
            for (uint64_t i = 0; i < SIZES; i++)
                end(e, sends[i]);
        if (turn < 2)
            meet(e);
        for (uint64_t i = SIZES; i-- > 0 && turn % 2 == 0;)
            receives[i] = irecv(e, before, (int64_t)i, in + i * LONGEST, LONGEST);
        for (uint64_t i = 0; i < SIZES; i++) {
            acp_envelope envelope = got(e, receives[i], ACP_OK);
            CHECK(envelope.size == sizes[i] && envelope.note == sizes[i] + i &&
                  envelope.source == before && envelope.tag == (int64_t)i);
            check(in + i * LONGEST, sizes[i], i + turn + before);
        }
        for (uint64_t i = 0; i < SIZES && turn >= 2; i++)
            end(e, sends[i]);
    }
    free(out);
    free(in);
}

/* Messages of one sender arrive in the order of their sends, whatever their sizes. */
static void order(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { COUNT = 120 };
    uint32_t others = c->count - 1;
    unsigned char *out = malloc(COUNT * 3 * PART), *in = malloc(3 * PART);
    acp_request *sends[COUNT * CLUSTER_MOST];
    uint64_t used = 0, next[CLUSTER_MOST] = {0};
    (void)lane;
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t size = i % 7 == 3 ? 2 * PART + i : i % 3 ? 8 : 1000;
        fill(out + i * 3 * PART, size, i);
        for (uint32_t to = 0; to < c->count; to++)
            if (to != rank)
                sends[used++] = isend(e, to, (int64_t)i, out + i * 3 * PART, size);
    }
    for (uint64_t i = 0; i < COUNT * others; i++) {
        acp_envelope envelope = got(e, irecv(e, ACP_ANY, ACP_ANY, in, 3 * PART), ACP_OK);
        CHECK(envelope.tag == (int64_t)next[envelope.source]++);
        check(in, envelope.size, (uint64_t)envelope.tag);
    }
    for (uint64_t i = 0; i < used; i++)
        end(e, sends[i]);
    meet(e);
    free(out);
    free(in);
}

/* What there is no room for is cut off, and the next message is not touched by it. */
static void too_long(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    unsigned char *out = malloc(LONGEST), *in = calloc(1, LONGEST);
    uint32_t other = (rank + 1) % c->count;
    (void)lane;
    fill(out, LONGEST, 5);
    for (uint64_t i = 1; i < SIZES; i++) {
        acp_request *one = isend(e, other, 1, out, sizes[i]), *two = isend(e, other, 2, out, 9);
        uint64_t room = sizes[i] / 2;
        in[room] = 77;
        acp_envelope envelope = got(e, irecv(e, ACP_ANY, 1, in, room), ACP_E_TRUNCATED);
        CHECK(envelope.size == sizes[i] && in[room] == 77);
        check(in, room, 5);
        CHECK(got(e, irecv(e, ACP_ANY, 2, in, 9), ACP_OK).size == 9);
        check(in, 9, 5);
        end(e, one);
        end(e, two);
    }
    meet(e);
    free(out);
    free(in);
}

static const cluster_body bodies[] = {every_size, order, too_long};
#define BODIES (sizeof bodies / sizeof *bodies)

static void by_every_road(void)
{
    cluster_by_every_road(bodies, BODIES);
}

static void whatever_happens_to_connections(void)
{
    static const struct {
        uint64_t cut, flip;
    } networks[] = {{0, 0}, {1000000, 0}, {0, 1500000}, {2000000, 2000000}};
    struct cluster c;
    start(&c, 20000000000u);
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++) {
        spoil(networks[i].cut, networks[i].flip);
        for (size_t b = 0; b < BODIES; b++)
            cluster_run(&c, bodies[b]);
        spoil(0, 0);
        uint64_t cuts = proxies[0].cuts + proxies[1].cuts;
        uint64_t flips = proxies[0].flips + proxies[1].flips;
        printf("  %llu cuts and %llu flips so far\n", (unsigned long long)cuts,
               (unsigned long long)flips);
        fflush(stdout);
        CHECK(!networks[i].cut || cuts);
        CHECK(!networks[i].flip || flips);
    }
    stop(&c);
}

/* No address space is left for the heap of another rank. */
static void *map_no_heap(void *context, const void *row, uint64_t offset, size_t length)
{
    struct cluster *c = context;
    return offset == c->engines[0]->control->heap_position
               ? NULL
               : cluster_map(context, row, offset, length);
}

/* Nobody but rank 0 maps other heaps: the answers to what came by link are stored. */
static void a_heap_that_cannot_be_mapped(void)
{
    struct cluster c;
    cluster_start(&c, 3, 1, ACP_PATH_ANY, true);
    for (uint32_t i = 1; i < c.count; i++)
        c.engines[i]->config.map = map_no_heap;
    for (size_t b = 0; b < BODIES; b++)
        cluster_run(&c, bodies[b]);
    for (uint32_t i = 1; i < c.count; i++)
        for (uint32_t other = 0; other < c.count; other++)
            CHECK(peer_of_slot(c.engines[i], other)->mail.far == (other != i));
    cluster_stop(&c);
}

/* One dies in the middle of a long message: that receive ends, and what had come stays. */
static void death_in_the_middle(void)
{
    struct cluster c;
    uint64_t size = (uint64_t)30 << 20;
    unsigned char *out = calloc(1, size), *in = malloc(size);
    start(&c, CLUSTER_PATIENCE_NS);
    acp_engine *from = c.engines[1], *to = c.engines[0];
    uint64_t word = 5, read = 0;
    CHECK(!isend(from, 0, 1, &word, 8));
    acp_request *early = irecv(to, 1, 1, &read, 8);
    got(to, early, ACP_OK);
    CHECK(!isend(from, 0, 2, &word, 8));
    acp_request *receive = irecv(to, 1, 3, in, size), *never = irecv(to, 1, 4, in, size);
    proxies_stall_after(proxies, RANKS, 1 << 20);
    acp_request *send = isend(from, 0, 3, out, size);
    CHECK(send && !acp_request_done(send));
    while (!proxies[0].stalled)
        CHECK(acp_request_wait(from, send, 1000000) == ACP_E_TIMEOUT);
    stall(true);
    cluster_patience(&c, SHORT_NS);
    got(to, receive, ACP_E_LOST);
    got(to, never, ACP_E_LOST);
    CHECK(got(to, irecv(to, 1, 2, &read, 8), ACP_OK).size == 8 && read == 5);
    CHECK(acp_request_wait(from, send, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(acp_engine_lane(from), send, NULL) == ACP_E_LOST);
    acp_envelope envelope = {.size = 8};
    CHECK(acp_send(acp_engine_lane(to), 1, &envelope, &word, &send) == ACP_E_LOST);
    stall(false);
    end_unequal(&c);
    free(out);
    free(in);
}

/* All bytes of a message are on their way when its receiver dies, which has not said that it has them. */
static void death_before_the_last_word(void)
{
    struct cluster c;
    uint64_t size = 300000, word = 5;
    unsigned char *out = calloc(1, size);
    bool gone = false;
    start(&c, 60000000000u);
    acp_engine *from = c.engines[1], *to = c.engines[0];
    CHECK(!isend(from, 0, 1, &word, 8));
    got(to, irecv(to, 1, 1, &word, 8), ACP_OK);
    stall(true);
    acp_request *send = isend(from, 0, 2, out, size);
    CHECK(send);
    while (!gone) {
        CHECK(acp_request_wait(from, send, 1000000) == ACP_E_TIMEOUT);
        pthread_mutex_lock(&from->lock);
        gone = from->mail.flows->outgoing->done == size;
        pthread_mutex_unlock(&from->lock);
    }
    peer_mark_lost(from, peer_of_slot(from, 0));
    CHECK(acp_request_wait(from, send, 20000000000) == ACP_OK);
    CHECK(acp_request_end(acp_engine_lane(from), send, NULL) == ACP_E_LOST);
    stall(false);
    end_unequal(&c);
    free(out);
}

/* Who waits for one that never said anything hears of its death. */
static void a_silent_peer_that_dies(void)
{
    struct cluster c;
    uint64_t word;
    start(&c, CLUSTER_PATIENCE_NS);
    acp_engine *e = c.engines[0];
    acp_request *receive = irecv(e, 1, 1, &word, 8);
    CHECK(acp_request_wait(e, receive, 100000000) == ACP_E_TIMEOUT);
    stall(true);
    cluster_patience(&c, SHORT_NS);
    got(e, receive, ACP_E_LOST);
    stall(false);
    end_unequal(&c);
}

/* A send of two frames is over, and its bytes are free, though nobody has taken any of it. */
static void a_receiver_that_does_not_read(void)
{
    struct cluster c;
    uint64_t size = 2 * PART;
    unsigned char *out = malloc(size), *in = malloc(size);
    start(&c, 20000000000u);
    acp_engine *from = c.engines[1], *to = c.engines[0];
    uint64_t word = 5;
    CHECK(!isend(from, 0, 1, &word, 8));
    got(to, irecv(to, 1, 1, &word, 8), ACP_OK);
    stall(true);
    fill(out, size, 3);
    end(from, isend(from, 0, 2, out, size));
    pthread_mutex_lock(&from->lock);
    CHECK(from->mail.flows->copied == size);
    pthread_mutex_unlock(&from->lock);
    memset(out, 0, size);
    stall(false);
    CHECK(got(to, irecv(to, 1, 2, in, size), ACP_OK).size == size);
    check(in, size, 3);
    stop(&c);
    free(out);
    free(in);
}

int main(void)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"messages by every road", by_every_road},
                 {"whatever happens to connections", whatever_happens_to_connections},
                 {"a heap that cannot be mapped", a_heap_that_cannot_be_mapped},
                 {"a receiver that does not read", a_receiver_that_does_not_read},
                 {"death in the middle", death_in_the_middle},
                 {"death before the last word", death_before_the_last_word},
                 {"a silent peer that dies", a_silent_peer_that_dies}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        printf("%s\n", tests[i].name);
        fflush(stdout);
        tests[i].run();
    }
    return 0;
}
