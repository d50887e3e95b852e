/* What a message of 8 B by a channel costs from C, between two threads, each with an engine of its own. Prints, in ns,
 * the medians over the rounds: half a round trip by two channels, by two lines of memory; a message of a stream by a
 * channel, by a ring of lines with one sender and one receiver. */
#include "core/channels.h"
#include "engine_pair.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { SIDES = 4, SLOTS = 8 };

/* A message in a line of its own; `number` is stored last. */
struct line {
    _Alignas(128) _Atomic uint64_t number;
    uint64_t word;
};

static struct bare {
    struct line lines[2];
    struct line ring[SLOTS];
    _Alignas(128) _Atomic uint64_t taken;
} bare;

struct rank {
    acp_engine *engine;
    acp_channel *out, *in;
    int number;
    uint64_t sent, received; /* by lines, and by the ring */
};

static pthread_barrier_t both;
static int rounds;
static long count;
static double ns[SIDES][ROUNDS_MOST];

static void expect(uint64_t word, uint64_t expected)
{
    if (word != expected) {
        fprintf(stderr, "a message says %llu, not %llu\n", (unsigned long long)word, (unsigned long long)expected);
        exit(1);
    }
}

static void channel_send(struct rank *r, uint64_t word)
{
    check(acp_channel_open(r->out, ACP_FOREVER), "acp_channel_open");
    check(acp_channel_commit(r->out, &word, sizeof word, sizeof word, true, ACP_FOREVER), "acp_channel_commit");
    acp_channel_give_turn(r->out);
}

static uint64_t channel_receive(struct rank *r)
{
    acp_piece piece;
    uint64_t word;
    check(acp_channel_take(r->in, ACP_FOREVER, &piece), "acp_channel_take");
    memcpy(&word, piece.data, sizeof word);
    acp_channel_release(r->in, piece.number);
    acp_channel_give_turn(r->in);
    return word;
}

static void spin_once(void)
{
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

static void line_send(struct line *line, uint64_t number, uint64_t word)
{
    line->word = word;
    atomic_store_explicit(&line->number, number, memory_order_release);
}

static uint64_t line_receive(const struct line *line, uint64_t number)
{
    while (atomic_load_explicit(&line->number, memory_order_acquire) < number)
        spin_once();
    return line->word;
}

static void trips(struct rank *r)
{
    for (long i = 0; i < count; i++) {
        if (r->number == 0)
            channel_send(r, (uint64_t)i);
        expect(channel_receive(r), (uint64_t)i);
        if (r->number == 1)
            channel_send(r, (uint64_t)i);
    }
}

static void bare_trips(struct rank *r)
{
    for (long i = 0; i < count; i++) {
        r->sent++;
        if (r->number == 0)
            line_send(&bare.lines[1], r->sent, (uint64_t)i);
        expect(line_receive(&bare.lines[r->number], r->sent), (uint64_t)i);
        if (r->number == 1)
            line_send(&bare.lines[0], r->sent, (uint64_t)i);
    }
}

static void stream(struct rank *r)
{
    for (long i = 0; i < count; i++) {
        if (r->number == 0)
            channel_send(r, (uint64_t)i);
        else
            expect(channel_receive(r), (uint64_t)i);
    }
}

static void bare_stream(struct rank *r)
{
    for (long i = 0; i < count; i++) {
        struct line *slot = &bare.ring[r->received++ % SLOTS];
        if (r->number == 0) {
            while (r->received > atomic_load_explicit(&bare.taken, memory_order_acquire) + SLOTS)
                spin_once();
            line_send(slot, r->received, (uint64_t)i);
        } else {
            expect(line_receive(slot, r->received), (uint64_t)i);
            if (r->received % (SLOTS / 2) == 0)
                atomic_store_explicit(&bare.taken, r->received, memory_order_release);
        }
    }
}

static void *measure(void *argument)
{
    static void (*const sides[SIDES])(struct rank *) = {trips, bare_trips, stream, bare_stream};
    static const int messages[SIDES] = {2, 2, 1, 1};
    struct rank *r = argument;
    for (int round = -1; round < rounds; round++) /* the first warms up */
        for (int turn = 0; turn < SIDES; turn++) {
            int side = (round + 1 + turn) % SIDES;
            pthread_barrier_wait(&both);
            uint64_t start = acp_now();
            sides[side](r);
            pthread_barrier_wait(&both);
            if (r->number == 0 && round >= 0)
                ns[side][round] = (double)(acp_now() - start) / (double)(count * messages[side]);
        }
    return NULL;
}

static acp_channel *channel_of(struct rank *r, bool sends)
{
    acp_channel_shape shape = {.size = sizeof(uint64_t), .slots = SLOTS, .sends = sends};
    acp_lane *lane = acp_engine_lane(r->engine);
    struct acp_call ring = {0};
    acp_handle_t pending;
    acp_channel *end;
    int rc = ACP_OK;
    while (!sends && (rc = acp_malloc(lane, (uint32_t)r->number, acp_channel_bytes(shape.size, SLOTS), &ring,
                                      &pending)) == ACP_E_BUSY)
        sched_yield();
    check(rc, "acp_malloc");
    check(acp_channel_new(lane, (uint32_t)(1 - r->number), &shape, ring.result[0], &end), "acp_channel_new");
    return end;
}

int main(int argc, char **argv)
{
    acp_engine *engines[2];
    struct rank ranks[2];
    pthread_t other;

    count = 200000;
    engine_pair_arguments(argc, argv, &rounds, &count);
    engine_pair_start(engines);
    for (int i = 0; i < 2; i++) {
        struct rank *r = &ranks[i];
        *r = (struct rank){.engine = engines[i], .number = i};
        r->out = channel_of(r, true);
        r->in = channel_of(r, false);
    }
    pthread_barrier_init(&both, NULL, 2);
    if (pthread_create(&other, NULL, measure, &ranks[1])) {
        fprintf(stderr, "no thread\n");
        return 1;
    }
    measure(&ranks[0]);
    pthread_join(other, NULL);
    engine_pair_print(ns, SIDES, rounds);
    for (int i = 0; i < 2; i++) {
        acp_channel_free(ranks[i].out);
        acp_channel_free(ranks[i].in);
    }
    engine_pair_end(engines);
    return 0;
}
