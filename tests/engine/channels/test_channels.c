/* Channels by every road: messages come once, whole and in order, at whichever speed the two ends work; ends meet in the
 * order of their creation; the receiver's memory goes back when both are closed, in whichever order. Those of segmented
 * buffers meet one another only, and carry no bytes. */
#include "cluster/channel_end.h"
#include "base/linux.h"
#include "channels/channel.h"
#include "cluster/relayed.h"

enum { MESSAGES = 1000, ENDS = 40, SIZE = 100 };

static const acp_channel_shape shapes[] = {{8, 1, 1, 0, false}, {SIZE, 1, 2, 0, false}, {SIZE, 1, 8, 0, false},
                                           {70000, 1, 3, 0, false}};

static uint64_t used(acp_lane *lane, uint32_t rank)
{
    acp_heap_statistics s;
    struct acp_call call;
    acp_handle_t pending;
    int rc;
    while ((rc = acp_heap_look(lane, rank, &s, &call, &pending)) == ACP_E_BUSY)
        sched_yield();
    CHECK(rc == ACP_OK && !pending);
    return s.used;
}

static void send_one(acp_channel *end, const acp_channel_shape *shape, uint64_t n)
{
    static _Thread_local unsigned char bytes[70000];
    uint64_t size = n * 7919 % (shape->size + 1);
    memset(bytes, (int)(n % 251), size);
    CHECK(acp_channel_open(end, ACP_FOREVER) == ACP_OK);
    CHECK(acp_channel_commit(end, bytes, size, size, true, ACP_FOREVER) == ACP_OK);
    acp_channel_give_turn(end);
}

static void take_one(acp_channel *end, const acp_channel_shape *shape, uint64_t n)
{
    acp_piece p;
    CHECK(acp_channel_take(end, ACP_FOREVER, &p) == ACP_OK);
    CHECK(p.first && p.size == n * 7919 % (shape->size + 1) && p.rest == p.size);
    const unsigned char *bytes = p.data;
    for (uint64_t i = 0; i < p.size; i += 1 + p.size / 64)
        CHECK(bytes[i] == n % 251);
    acp_channel_release(end, p.number);
    acp_channel_give_turn(end);
}

/* Rank 0 sends to 1, and 2 takes no part. */
static void stream(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes && rank < 2; s++) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[s], rank == 0);
        uint64_t count = shapes[s].size > SIZE ? MESSAGES / 10 : MESSAGES;
        for (uint64_t n = 0; n < count; n++) {
            if (n % 97 == rank * 40)
                sched_yield();
            if (rank == 0)
                send_one(end, &shapes[s], n);
            else
                take_one(end, &shapes[s], n);
        }
        acp_piece p;
        if (rank == 1)
            CHECK(acp_channel_take(end, ACP_FOREVER, &p) == ACP_E_LEFT);
        acp_channel_close(end);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Each end sends or receives its number; half of them are closed before they meet, or before anything has come. */
static void many(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_channel *ends[ENDS];
    acp_channel_shape shape = shapes[1];
    (void)c;
    uint64_t before = used(lane, rank);
    if (rank < 2) {
        for (uint32_t i = 0; i < ENDS; i++) {
            ends[i] = channel_end_open(lane, 1 - rank, shape, (i % 3 == 0) == (rank == 0));
            if (i % 5 == 4)
                acp_channel_close(ends[i]);
        }
        for (uint32_t i = 0; i < ENDS; i++) {
            acp_piece p;
            bool sends = (i % 3 == 0) == (rank == 0);
            if (i % 5 == 4) {
                CHECK(acp_channel_open(ends[i], ACP_FOREVER) == ACP_E_DESTROYED);
            } else if (sends) {
                CHECK(acp_channel_open(ends[i], ACP_FOREVER) == ACP_OK);
                CHECK(acp_channel_commit(ends[i], &i, sizeof i, sizeof i, true, ACP_FOREVER) == ACP_OK);
                acp_channel_give_turn(ends[i]);
            } else if (i % 2) {
                CHECK(acp_channel_take(ends[i], ACP_FOREVER, &p) == ACP_OK && *(const uint32_t *)p.data == i);
                acp_channel_give_turn(ends[i]);
                acp_channel_release(ends[i], p.number);
            }
        }
        CHECK(acp_barrier(e, (const uint32_t[]){0, 1}, 2, 0, ACP_FOREVER) == ACP_OK);
        for (uint32_t i = 0; i < ENDS; i++)
            acp_channel_free(ends[(i + rank * 7) % ENDS]);
        for (uint64_t until = linux_now_ns() + 20000000000u; used(lane, rank) != before && linux_now_ns() < until;)
            sched_yield();
        CHECK(used(lane, rank) == before);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Views of messages keep their slots; a sender waits for the oldest. */
static void views(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_piece p[3];
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[1], rank == 0);
        if (rank == 0) {
            int rc;
            for (uint64_t n = 0; n < 4; n++)
                send_one(end, &shapes[1], n);
            while ((rc = acp_channel_open(end, ACP_FOREVER)) == ACP_OK) {
                rc = acp_channel_commit(end, NULL, 0, 0, true, ACP_FOREVER);
                acp_channel_give_turn(end);
                if (rc != ACP_OK) /* by link, the other end has closed since */
                    break;
            }
            CHECK(rc == ACP_E_LEFT);
        } else {
            for (int i = 0; i < 2; i++) {
                CHECK(acp_channel_take(end, ACP_FOREVER, &p[i]) == ACP_OK);
                acp_channel_give_turn(end);
            }
            CHECK(acp_channel_take(end, ACP_FOREVER, &p[2]) == ACP_E_FULL);
            acp_channel_release(end, p[1].number);
            CHECK(acp_channel_take(end, ACP_FOREVER, &p[2]) == ACP_E_FULL);
            acp_channel_release(end, p[0].number);
            take_one(end, &shapes[1], 2);
            CHECK(acp_channel_take(end, ACP_FOREVER, &p[2]) == ACP_OK);
            acp_channel_give_turn(end);
            acp_channel_close(end); /* with a view that lives */
            acp_channel_release(end, p[2].number);
        }
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* A slot of an end that was closed is not written any more: its memory may have gone back. */
static void written(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[1], rank == 0);
        if (rank == 0) {
            CHECK(acp_channel_open(end, ACP_FOREVER) == ACP_OK);
            acp_channel_close(end);
            CHECK(acp_channel_reserve(end, true) == ACP_E_DESTROYED);
            acp_channel_give_turn(end);
        } else {
            acp_piece p;
            CHECK(acp_channel_take(end, ACP_FOREVER, &p) == ACP_E_LEFT);
        }
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* A sender of the node hears of the end without a note. */
static void ended(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[1], rank == 0);
        if (rank == 0) {
            send_one(end, &shapes[1], 0);
        } else {
            take_one(end, &shapes[1], 0);
            acp_channel_close(end);
        }
        CHECK(acp_barrier(e, (const uint32_t[]){0, 1}, 2, 0, ACP_FOREVER) == ACP_OK);
        CHECK(rank == 1 || acp_channel_is_far(end) || acp_channel_open(end, 0) == ACP_E_LEFT);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static bool has_offers(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool any = e->channels.offers;
    pthread_mutex_unlock(&e->lock);
    return any;
}

/* Notes are read as soon as many lie there, also by a process that makes no calls. */
static void unasked(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_channel *ends[INBOX_CELLS / 2];
    (void)c;
    while (rank == 1 && !has_offers(e))
        sched_yield();
    for (uint32_t i = 0; i < INBOX_CELLS / 2 && rank < 2; i++)
        ends[i] = channel_end_open(lane, 1 - rank, shapes[0], rank == 0);
    for (uint32_t i = 0; i < INBOX_CELLS / 2 && rank < 2; i++)
        acp_channel_free(ends[i]);
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void *sends_on(void *end)
{
    int rc;
    while ((rc = acp_channel_send_short(end, &rc, sizeof rc)) == ACP_OK || rc == ACP_E_TIMEOUT || rc == ACP_E_BUSY)
        sched_yield();
    CHECK(rc == ACP_E_DESTROYED || rc == ACP_E_LEFT);
    return NULL;
}

static void *takes_on(void *end)
{
    acp_piece p;
    int rc;
    while ((rc = acp_channel_take(end, ACP_FOREVER, &p)) == ACP_OK) {
        acp_channel_give_turn(end);
        acp_channel_release(end, p.number);
    }
    CHECK(rc == ACP_E_DESTROYED || rc == ACP_E_LEFT);
    return NULL;
}

/* One thread closes the end at which another sends or receives: after that nothing touches the ring, whose memory goes
 * back at once. */
static void closed_by_another(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const uint32_t both[] = {0, 1};
    (void)c;
    for (uint32_t i = 0; i < 20 && rank < 2; i++) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[1], rank == 0);
        pthread_t thread;
        CHECK(acp_channel_await(end, ACP_CHANNEL_MET, ACP_FOREVER) == ACP_OK);
        CHECK(pthread_create(&thread, NULL, rank ? takes_on : sends_on, end) == 0);
        CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
        if (rank == i % 2)
            acp_channel_close(end);
        CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
        acp_channel_close(end);
        CHECK(pthread_join(thread, NULL) == 0);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static _Thread_local struct looker *held_up;

/* A thread that looks at a sender's end, and is held up before it notes what it has seen there. */
struct looker {
    acp_channel *end;
    bool by_state;
    _Atomic bool here, goes_on;
};

void transaction_fault_point(void)
{
    if (!held_up)
        return;
    held_up->here = true;
    while (!held_up->goes_on)
        sched_yield();
}

static void *look(void *context)
{
    struct looker *l = context;
    acp_channel_look out;
    held_up = l;
    if (l->by_state)
        acp_channel_state(l->end);
    else
        acp_channel_look_at(l->end, &out);
    l->here = true;
    return NULL;
}

/* Slots that have come back stay free when a thread that has seen fewer goes on late. */
static void late_looks(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const uint32_t both[] = {0, 1};
    (void)c;
    for (uint32_t i = 0; i < 2 && rank < 2; i++) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[1], rank == 0);
        struct looker l = {.end = end, .by_state = i};
        pthread_t thread;
        for (uint64_t n = 0; n < 2 - rank; n++)
            (rank ? take_one : send_one)(end, &shapes[1], n);
        CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
        if (rank == 0)
            CHECK(pthread_create(&thread, NULL, look, &l) == 0);
        while (rank == 0 && !l.here)
            sched_yield();
        for (uint64_t n = 2 - rank; n < 10; n++)
            (rank ? take_one : send_one)(end, &shapes[1], n);
        CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
        l.goes_on = true;
        if (rank == 0) {
            CHECK(pthread_join(thread, NULL) == 0);
            CHECK(acp_channel_open(end, 20000000000) == ACP_OK);
            acp_channel_give_turn(end);
        }
        CHECK(acp_barrier(e, both, 2, 0, ACP_FOREVER) == ACP_OK);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* A stamp has 24 bits of the number of its message. */
static void numbers_wrap(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const uint64_t begin = ((uint64_t)1 << 24) - 24;
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[2], rank == 0);
        void (*move)(acp_channel *, const acp_channel_shape *, uint64_t) = rank ? take_one : send_one;
        move(end, &shapes[2], 0);
        CHECK(acp_barrier(e, (const uint32_t[]){0, 1}, 2, 0, ACP_FOREVER) == ACP_OK);
        end->next = end->taken = end->credited = begin;
        if (rank == 1)
            end->ring->taken = begin;
        CHECK(acp_barrier(e, (const uint32_t[]){0, 1}, 2, 0, ACP_FOREVER) == ACP_OK);
        for (uint64_t n = begin; n < begin + 48; n++)
            move(end, &shapes[2], n);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Ends that differ are refused on both sides. */
static void unequal(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_piece p;
    (void)c;
    if (rank < 2) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[1 + rank], rank == 0);
        int rc = rank == 0 ? acp_channel_open(end, ACP_FOREVER) : acp_channel_take(end, ACP_FOREVER, &p);
        CHECK(rc == ACP_E_MISMATCH);
        CHECK(acp_barrier(e, (const uint32_t[]){0, 1}, 2, 0, ACP_FOREVER) == ACP_OK);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

/* Ends for segments, created before and behind a channel. */
static void segments(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    acp_piece p;
    acp_channel_look look;
    (void)c;
    if (rank < 2) {
        acp_channel_shape shape = {(uint64_t)1 << 50, rank ? 4242 : 0, 4, rank == 0, true};
        acp_channel *first = rank ? channel_end_open(lane, 0, shapes[1], false) : NULL, *end;
        struct acp_call call = {0};
        acp_handle_t pending;
        int rc = ACP_OK;
        while (rank && (rc = acp_malloc(lane, 1, acp_channel_bytes(0, 4), &call, &pending)) == ACP_E_BUSY)
            sched_yield();
        CHECK(rc == ACP_OK && acp_channel_new(lane, 1 - rank, &shape, call.result[0], &end) == ACP_OK);
        acp_channel *plain = rank ? first : channel_end_open(lane, 1, shapes[1], true);
        CHECK(acp_channel_await(end, ACP_CHANNEL_MET, ACP_FOREVER) == ACP_OK);
        acp_channel_look_at(end, &look);
        CHECK(look.connected && look.other.segments && look.other.type == (rank ? 0 : 4242));
        for (uint64_t n = 0; n < 1000; n++) {
            CHECK(acp_channel_await(end, ACP_CHANNEL_READY, ACP_FOREVER) == ACP_OK);
            if (rank == 0) {
                CHECK(acp_channel_open(end, 0) == ACP_OK);
                CHECK(acp_channel_commit(end, NULL, 0, 0, true, ACP_FOREVER) == ACP_OK);
            } else {
                CHECK(acp_channel_take(end, 0, &p) == ACP_OK && p.size == 0 && p.number == n);
                acp_channel_release(end, p.number);
            }
            acp_channel_give_turn(end);
            if (n % 100 == 99 && rank == 0) {
                CHECK(acp_channel_await(end, ACP_CHANNEL_EMPTY, ACP_FOREVER) == ACP_OK);
                acp_channel_look_at(end, &look);
                CHECK(look.messages == n + 1 && look.pending == 0);
            }
        }
        if (rank == 0)
            send_one(plain, &shapes[1], 1);
        else
            take_one(plain, &shapes[1], 1);
        if (rank == 0)
            acp_channel_close(end);
        else
            CHECK(acp_channel_await(end, ACP_CHANNEL_READY, ACP_FOREVER) == ACP_E_LEFT);
        CHECK(acp_channel_await(end, ACP_CHANNEL_MET, 0) == (rank ? ACP_OK : ACP_E_DESTROYED));
        acp_channel_free(end);
        acp_channel_free(plain);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static struct proxy proxies[2];

enum { LARGE = 64 << 10, DEEP = 200 };

/* A link without room ends a send at its time: nothing of that message comes, and the next one takes its slot. */
static void link_is_full(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    static unsigned char bytes[LARGE];
    acp_channel *end = channel_end_open(lane, 1 - rank, (acp_channel_shape){LARGE, 1, DEEP, 0, false}, rank == 0);
    unsigned char number = 0;
    acp_piece p;
    int rc = ACP_OK;
    if (rank == 0) {
        CHECK(acp_channel_await(end, ACP_CHANNEL_MET, ACP_FOREVER) == ACP_OK);
        relayed_stall(c, proxies, true);
        for (int again = 0; again < 3; again++) {
            for (rc = ACP_OK; rc == ACP_OK && acp_channel_open(end, 0) == ACP_OK;) {
                memset(bytes, ++number, LARGE);
                rc = acp_channel_commit(end, bytes, LARGE, LARGE, true, again * 1000000);
                acp_channel_give_turn(end);
            }
            CHECK(rc == ACP_E_TIMEOUT);
            number--;
        }
        relayed_stall(c, proxies, false);
        CHECK(acp_channel_open(end, ACP_FOREVER) == ACP_OK);
        memset(bytes, ++number, LARGE);
        CHECK(acp_channel_commit(end, bytes, LARGE, LARGE, true, ACP_FOREVER) == ACP_OK);
        acp_channel_give_turn(end);
        acp_channel_look l;
        acp_channel_look_at(end, &l);
        CHECK(l.messages == number);
        acp_channel_close(end);
    }
    while (rank == 1 && (rc = acp_channel_take(end, ACP_FOREVER, &p)) == ACP_OK) {
        const unsigned char *data = p.data;
        CHECK(p.size == LARGE && data[0] == ++number && memcmp(data, data + 1, LARGE - 1) == 0);
        acp_channel_release(end, p.number);
        acp_channel_give_turn(end);
    }
    CHECK(rank == 0 || (rc == ACP_E_LEFT && number > 1));
    acp_channel_free(end);
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void *map_no_heap(void *context, const void *row, uint64_t offset, size_t length)
{
    struct cluster *c = context;
    return offset == c->engines[0]->control->heap_position ? NULL : cluster_map(context, row, offset, length);
}

/* A message that is sent as soon as the ends have met, between processes of a node that cannot map each other's heaps: it
 * goes by link, and does not overtake its sender's offer in the ring of the node. */
static void early(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    (void)c;
    for (uint64_t n = 0; n < MESSAGES && rank < 2; n++) {
        acp_channel *end = channel_end_open(lane, 1 - rank, shapes[0], rank == 0);
        if (rank == 0)
            send_one(end, &shapes[0], n);
        else
            take_one(end, &shapes[0], n);
        acp_channel_free(end);
    }
    CHECK(acp_barrier(e, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
}

static void heaps_that_cannot_be_mapped(const cluster_body *bodies, size_t count)
{
    struct cluster c;
    cluster_start(&c, 3, 1, ACP_PATH_ANY, true);
    for (uint32_t i = 0; i < c.count; i++)
        c.engines[i]->config.map = map_no_heap;
    cluster_run(&c, early);
    for (size_t i = 0; i < count; i++)
        cluster_run(&c, bodies[i]);
    cluster_stop(&c);
}

int main(void)
{
    struct cluster c;
    relayed_start(&c, proxies, 2, CLUSTER_PATIENCE_NS, NULL);
    cluster_run(&c, link_is_full);
    relayed_stop(&c, proxies);
    static const cluster_body bodies[] = {stream, many, views, late_looks, written, ended, unasked, closed_by_another,
                                          numbers_wrap, unequal, segments};
    cluster_by_every_road(bodies, sizeof bodies / sizeof *bodies);
    heaps_that_cannot_be_mapped(bodies, sizeof bodies / sizeof *bodies);
    printf("channels by %u ways\n", (unsigned)CLUSTER_WAYS);
    return 0;
}
