/* Messages by link: whole and in their order whatever happens to connections, within the bound of
 * whoever receives, and with an end if a process dies in the middle. */
#include "cluster.h"
#include "courier.h"
#include "proxy.h"

#define RANKS 2u
#define PART ((uint64_t)FRAME_PAYLOAD_MOST)

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
    for (uint32_t i = 0; i < RANKS; i++)
        proxies[i].stalled = on;
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

static void meet(acp_engine *e)
{
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static acp_request *isend(acp_engine *e, uint32_t to, int64_t tag, const void *data, uint64_t size)
{
    acp_lane *lane = acp_engine_lane(e);
    acp_envelope envelope = {.tag = tag, .size = size, .note = size + (uint64_t)tag};
    acp_request *request = NULL;
    int rc;
    while ((rc = acp_send(lane, to, &envelope, data, &request)) == ACP_E_BUSY)
        continue;
    CHECK(rc == ACP_OK);
    return request;
}

static void end(acp_engine *e, acp_request *request)
{
    if (!request)
        return;
    CHECK(acp_request_wait(e, request, ACP_FOREVER) == ACP_OK);
    CHECK(acp_request_end(acp_engine_lane(e), request, NULL) == ACP_OK);
}

static acp_request *irecv(acp_engine *e, int64_t from, int64_t tag, void *buffer, uint64_t room)
{
    acp_envelope want = {.source = from, .tag = tag, .size = room};
    acp_request *request = NULL;
    int rc;
    while ((rc = acp_receive(acp_engine_lane(e), &want, buffer, &request)) == ACP_E_BUSY)
        continue;
    CHECK(rc == ACP_OK);
    return request;
}

static acp_envelope got(acp_engine *e, acp_request *request, int status)
{
    acp_envelope envelope;
    CHECK(acp_request_wait(e, request, ACP_FOREVER) == ACP_OK);
    int rc = acp_request_end(acp_engine_lane(e), request, &envelope);
    if (rc != status)
        fprintf(stderr, "a receive: %s\n", acp_status_name(rc));
    CHECK(rc == status);
    return envelope;
}

static void fill(unsigned char *data, uint64_t size, uint64_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        data[i] = (unsigned char)((i + seed) * 2654435761u >> 13);
}

static void check(const unsigned char *data, uint64_t size, uint64_t seed)
{
    for (uint64_t i = 0; i < size; i++)
        CHECK(data[i] == (unsigned char)((i + seed) * 2654435761u >> 13));
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
            CHECK(peer_of_slot(c.engines[i], other)->mail_far == (other != i));
    cluster_stop(&c);
}

static struct mailbox *box_of(acp_engine *e)
{
    return &mail_heap(e, e->own)->head->mailbox;
}

static uint64_t kept(acp_engine *e)
{
    return __atomic_load_n(&box_of(e)->bytes, __ATOMIC_RELAXED);
}

#define BOUND ((uint64_t)1 << 20)
#define TIGHT ((uint64_t)100000)

/* Many more bytes than a receiver keeps: they stay with their senders, and all arrive. */
static void past_the_bound(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { COUNT = 150 };
    static const uint64_t lengths[] = {40000, 8, 300, 100000, 200000};
    unsigned char *data = malloc(200000);
    acp_request *sends[COUNT];
    (void)lane;
    for (uint64_t i = 0; i < COUNT && rank; i++) {
        fill(data, lengths[i % 5], i);
        sends[i] = isend(e, 0, (int64_t)i, data, lengths[i % 5]);
        end(e, sends[i]); /* nobody receives, and it is over all the same */
    }
    meet(e);
    if (!rank) {
        uint64_t most = kept(e);
        CHECK(most > BOUND / 2 && most <= BOUND + BOUND / 8);
        for (uint64_t i = COUNT; i-- > 0;)
            for (uint32_t from = 1; from < c->count; from++) {
                acp_envelope envelope = got(e, irecv(e, from, (int64_t)i, data, 200000), ACP_OK);
                CHECK(envelope.size == lengths[i % 5]);
                check(data, envelope.size, i);
            }
        CHECK(kept(e) == 0);
    }
    meet(e);
    free(data);
}

/* Not even the envelopes have room: their senders wait, and go on when there is. */
static void a_flood(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { COUNT = 20000 };
    uint64_t next[CLUSTER_MOST] = {0}, most = 0;
    (void)lane;
    for (uint64_t i = 0; i < COUNT && rank; i++)
        end(e, isend(e, 0, 0, &i, 8));
    for (uint64_t i = 0; i < (uint64_t)COUNT * (c->count - 1) && !rank; i++) {
        uint64_t value;
        acp_envelope envelope = got(e, irecv(e, ACP_ANY, 0, &value, 8), ACP_OK);
        CHECK(value == next[envelope.source]++);
        most = kept(e) > most ? kept(e) : most;
    }
    /* What was under way by the links when it was full is taken, too. */
    uint64_t under_way = (HELD_MOST / frame_bytes(8) + 1) * sizeof(struct letter);
    CHECK(most <= TIGHT + TIGHT / 8 + sizeof(struct letter) + (c->count - 1) * under_way);
    meet(e);
}

enum { FLOOD_TAG = 1, EARLY_TAG, WORD_TAG, LONG_TAG, MET_TAG };
#define AHEAD 100000u

/* Sends numbers until one waits because rank 0 has no room for it; the last number. */
static acp_request *flood(acp_engine *e, uint64_t *count)
{
    for (*count = 0;; ++*count) {
        acp_request *r = isend(e, 0, FLOOD_TAG, count, 8);
        if (r && acp_request_wait(e, r, 50000000) == ACP_E_TIMEOUT)
            return r;
        end(e, r);
    }
}

/* Behind what waits for room stand messages that rank 0 receives: they come, in their order. */
static void what_is_received_passes_a_flood(struct cluster *c, uint32_t rank, acp_engine *e,
                                            acp_lane *lane)
{
    enum { WORDS = 20 };
    unsigned char *data = malloc(AHEAD);
    acp_request *sends[WORDS + 3];
    uint64_t word, last, lasts[CLUSTER_MOST], next[CLUSTER_MOST] = {0}, used = 0;
    (void)lane;
    if (!rank) {
        uint64_t early[CLUSTER_MOST];
        acp_request *receives[CLUSTER_MOST];
        for (uint32_t from = 1; from < c->count; from++)
            receives[from] = irecv(e, from, EARLY_TAG, &early[from], 8);
        meet(e);
        for (uint32_t from = 1; from < c->count; from++) {
            CHECK(got(e, receives[from], ACP_OK).tag == EARLY_TAG && early[from] == from);
            got(e, irecv(e, from, LONG_TAG, data, AHEAD), ACP_OK);
            check(data, AHEAD, from);
        }
        for (uint64_t i = 0; i < (uint64_t)WORDS * (c->count - 1); i++) { /* two at once, in turns */
            acp_request *one = irecv(e, ACP_ANY, WORD_TAG, &word, 8);
            acp_request *none = irecv(e, ACP_ANY, WORD_TAG, data, 8);
            CHECK(acp_request_cancel(acp_engine_lane(e), none) == ACP_OK || acp_request_done(none));
            acp_envelope envelope = got(e, one, ACP_OK);
            CHECK(word == next[envelope.source]++);
            acp_envelope second;
            CHECK(acp_request_wait(e, none, ACP_FOREVER) == ACP_OK);
            if (acp_request_end(acp_engine_lane(e), none, &second) == ACP_OK) {
                memcpy(&word, data, 8);
                CHECK(word == next[second.source]++);
                i++;
            }
        }
        for (uint32_t from = 1; from < c->count; from++)
            CHECK(next[from] == WORDS);
        for (uint32_t to = 1; to < c->count; to++)
            end(e, isend(e, to, MET_TAG, &word, 8));
        for (uint32_t from = 1; from < c->count; from++) /* still past the flood */
            got(e, irecv(e, from, MET_TAG, &lasts[from], 8), ACP_OK);
        for (uint32_t from = 1; from < c->count; from++)
            for (uint64_t i = 0; i <= lasts[from]; i++) {
                CHECK(got(e, irecv(e, from, FLOOD_TAG, &word, 8), ACP_OK).size == 8);
                CHECK(word == i);
            }
    } else {
        meet(e);
        acp_request *waiting = flood(e, &last);
        word = rank;
        sends[used++] = isend(e, 0, EARLY_TAG, &word, 8);
        fill(data, AHEAD, rank);
        sends[used++] = isend(e, 0, LONG_TAG, data, AHEAD);
        uint64_t words[WORDS];
        for (uint64_t i = 0; i < WORDS; i++) {
            words[i] = i;
            sends[used++] = isend(e, 0, WORD_TAG, &words[i], 8);
        }
        got(e, irecv(e, 0, MET_TAG, &word, 8), ACP_OK);
        CHECK(!acp_request_done(waiting)); /* nobody has received one of those */
        sends[used++] = isend(e, 0, MET_TAG, &last, 8);
        for (uint64_t i = 0; i < used; i++)
            end(e, sends[i]);
        end(e, waiting);
    }
    meet(e);
    free(data);
}

static void bounded(acp_path path, uint32_t nodes, uint64_t bound, cluster_body body)
{
    struct cluster c;
    cluster_start(&c, 3, nodes, path, CLUSTER_SHARED);
    box_of(c.engines[0])->bound = bound; /* nothing has been said yet */
    cluster_run(&c, body);
    cluster_stop(&c);
}

static void within_the_bound(void)
{
    bounded(ACP_PATH_ANY, 1, BOUND, past_the_bound);
    bounded(ACP_PATH_LINK, 1, BOUND, past_the_bound);
    bounded(ACP_PATH_ANY, 2, BOUND, past_the_bound);
    bounded(ACP_PATH_LINK, 1, TIGHT, a_flood);
    bounded(ACP_PATH_ANY, 2, TIGHT, a_flood);
    bounded(ACP_PATH_ANY, 1, TIGHT, what_is_received_passes_a_flood);
    bounded(ACP_PATH_LINK, 1, TIGHT, what_is_received_passes_a_flood);
    bounded(ACP_PATH_ANY, 2, TIGHT, what_is_received_passes_a_flood);
    bounded(ACP_PATH_ANY, 3, TIGHT, what_is_received_passes_a_flood);
}

/* One dies in the middle of a long message: that receive ends, and what had come stays. */
static void death_in_the_middle(void)
{
    struct cluster c;
    uint64_t size = (uint64_t)30 << 20;
    unsigned char *out = calloc(1, size), *in = malloc(size);
    start(&c, 1000000000u);
    acp_engine *from = c.engines[1], *to = c.engines[0];
    uint64_t word = 5, read = 0;
    CHECK(!isend(from, 0, 1, &word, 8));
    acp_request *early = irecv(to, 1, 1, &read, 8);
    got(to, early, ACP_OK);
    CHECK(!isend(from, 0, 2, &word, 8));
    acp_request *receive = irecv(to, 1, 3, in, size), *never = irecv(to, 1, 4, in, size);
    acp_request *send = isend(from, 0, 3, out, size);
    CHECK(send && !acp_request_done(send));
    while (proxies[0].relayed < 1 << 20)
        CHECK(acp_request_wait(from, send, 1000000) == ACP_E_TIMEOUT);
    stall(true);
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

/* Who waits for one that never said anything hears of its death. */
static void a_silent_peer_that_dies(void)
{
    struct cluster c;
    uint64_t word;
    start(&c, 1000000000u);
    acp_engine *e = c.engines[0];
    acp_request *receive = irecv(e, 1, 1, &word, 8);
    CHECK(acp_request_wait(e, receive, 100000000) == ACP_E_TIMEOUT);
    stall(true);
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
    CHECK(from->couriers->copied == size);
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
                 {"within the bound", within_the_bound},
                 {"a receiver that does not read", a_receiver_that_does_not_read},
                 {"death in the middle", death_in_the_middle},
                 {"a silent peer that dies", a_silent_peer_that_dies}};
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        printf("%s\n", tests[i].name);
        fflush(stdout);
        tests[i].run();
    }
    return 0;
}
