/* More messages than their receiver has room for, by each road: it keeps to its bound, and all arrive
 * in their order. */
#include "cluster/posting.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "memory/transaction_lock.h"
#include "messages/mailbox.h"
#include "transport/frame.h"
#include "transport/link.h"

static struct mailbox *box_of(acp_engine *e)
{
    return mailbox_of(mailbox_heap(e, e->job.own));
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
    uint64_t under_way = (HELD_MOST / frame_bytes(8) + 1) * sizeof(struct mail_entry);
    CHECK(most <= TIGHT + TIGHT / 8 + sizeof(struct mail_entry) + (c->count - 1) * under_way);
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

#ifdef __SANITIZE_THREAD__ /* what others do in between takes as much longer */
#define BETWEEN_NS 100000u
#else
#define BETWEEN_NS 3000u
#endif

struct holder {
    acp_engine *engine;
    _Atomic bool over;
};

/* Somebody is in the mailbox every now and then, for longer than a leader looks at its lock. */
static void *hold_now_and_then(void *argument)
{
    struct holder *holder = argument;
    struct section *s = &box_of(holder->engine)->section;
    acp_lane *lane = acp_engine_lane(holder->engine);
    for (uint64_t i = 1; !atomic_load(&holder->over); i++) {
        uint64_t until = linux_now_ns() + i * 2654435761u % 150000;
        while (!transaction_lock_try(lane, s))
            linux_cpu_relax();
        while (linux_now_ns() < until)
            linux_cpu_relax();
        transaction_lock_release(s);
        for (until += i * 40503u % BETWEEN_NS; linux_now_ns() < until;)
            linux_cpu_relax();
    }
    return NULL;
}

/* Behind some that nobody receives all others wait for their receives: where the mailbox was held when one was
 * tried, the next one must not take its receive. */
static void a_mailbox_that_is_held(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    enum { AHEAD_OF = 20, COUNT = 300 };
    static uint64_t words[COUNT];
    struct holder holder = {.engine = e};
    acp_request *sends[COUNT];
    pthread_t thread;
    uint64_t word;
    (void)c;
    (void)lane;
    for (uint64_t i = 0; i < COUNT && rank == 1; i++) {
        words[i] = i;
        sends[i] = isend(e, 0, i < AHEAD_OF ? FLOOD_TAG : WORD_TAG, &words[i], 8);
        CHECK(sends[i]);
    }
    meet(e);
    if (rank == 0)
        CHECK(pthread_create(&thread, NULL, hold_now_and_then, &holder) == 0);
    for (uint64_t i = AHEAD_OF; i < COUNT && rank == 0; i++) {
        got(e, irecv(e, 1, WORD_TAG, &word, 8), ACP_OK);
        CHECK(word == i);
    }
    if (rank == 0) {
        atomic_store(&holder.over, true);
        pthread_join(thread, NULL);
    }
    for (uint64_t i = 0; i < AHEAD_OF && rank == 0; i++)
        got(e, irecv(e, 1, FLOOD_TAG, &word, 8), ACP_OK);
    for (uint64_t i = 0; i < COUNT && rank == 1; i++)
        end(e, sends[i]);
    meet(e);
}

static void bounded(acp_path path, uint32_t nodes, uint64_t bound, cluster_body body)
{
    struct cluster c;
    cluster_start(&c, 3, nodes, path, CLUSTER_SHARED);
    box_of(c.engines[0])->bound = bound; /* nothing has been said yet */
    cluster_run(&c, body);
    cluster_stop(&c);
}

int main(void)
{
    bounded(ACP_PATH_ANY, 1, BOUND, past_the_bound);
    bounded(ACP_PATH_ANY, 1, 0, a_mailbox_that_is_held);
    bounded(ACP_PATH_LINK, 1, BOUND, past_the_bound);
    bounded(ACP_PATH_ANY, 2, BOUND, past_the_bound);
    bounded(ACP_PATH_LINK, 1, TIGHT, a_flood);
    bounded(ACP_PATH_ANY, 2, TIGHT, a_flood);
    bounded(ACP_PATH_ANY, 1, TIGHT, what_is_received_passes_a_flood);
    bounded(ACP_PATH_LINK, 1, TIGHT, what_is_received_passes_a_flood);
    bounded(ACP_PATH_ANY, 2, TIGHT, what_is_received_passes_a_flood);
    bounded(ACP_PATH_ANY, 3, TIGHT, what_is_received_passes_a_flood);
    return 0;
}
