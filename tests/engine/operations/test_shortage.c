/* An engine without memory for a while: nobody waits for ever for what it could not say, hear or keep then, and
 * nobody is held for dead because of that. */
#include "cluster/mailing.h"
#include "support/methods.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"
#include "operations/protocol_shm.h"
#include "peers/peer.h"
#include "progress/progress.h"
#include "transport/link.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Atomic bool none; /* is there for the thread of this engine: */
static acp_engine *_Atomic victim;
static _Atomic uint64_t refused;
static _Atomic size_t only; /* memory of this size; 0: of any */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static bool refuses(size_t size)
{
    bool is = none && (!only || size == only) && pthread_equal(pthread_self(), victim->progress.thread);
    refused += is;
    return is;
}

void *__wrap_malloc(size_t size)
{
    return refuses(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refuses(count * size) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return refuses(size) ? NULL : __real_realloc(old, size);
}

static _Atomic uint64_t machine = UINT64_MAX; /* has so many bytes left at most */

uint64_t __real_cgroup_available(void);
uint64_t __wrap_cgroup_available(void);

uint64_t __wrap_cgroup_available(void)
{
    uint64_t left = __real_cgroup_available();
    return left < machine ? left : machine;
}

static _Atomic uint32_t interruptions; /* so many times a signal ends it */

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    if (interruptions) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

static void choose(acp_engine *e)
{
    refused = 0;
    victim = e;
}

static void take_memory(acp_engine *e)
{
    choose(e);
    none = true;
}

static void begin(struct cluster *c, uint32_t nodes, acp_path path)
{
    uint64_t value = 7;
    acp_handle_t pending;
    cluster_start(c, 2, nodes, path, CLUSTER_SHARED);
    for (uint32_t i = 0; i < 2; i++)
        c->engines[i]->config.methods = test_methods;
    CHECK(acp_put(acp_engine_lane(c->engines[0]), acp_starter(c->engines[0], 1) + 64, &value, 8, &pending) ==
          ACP_OK);
    CHECK(acp_wait(c->engines[0], pending, ACP_FOREVER) == ACP_OK);
}

/* As many as one may have under way, of each kind, with as much as they may bring. */
enum { ATOMICS = 100, GETS = 20, CALLS = 20, GET = 60000 };

struct asked {
    struct acp_call calls[CALLS];
    unsigned char *bytes;
};

static void ask_all(acp_engine *e, struct asked *a)
{
    acp_lane *lane = acp_engine_lane(e);
    acp_ga_t there = acp_starter(e, 1), block;
    void *address;
    CHECK(acp_memory_alloc(acp_engine_lane(victim), GET, 0, &block, &address) == ACP_OK);
    a->bytes = calloc(GETS + 2 * CALLS, GET);
    pthread_mutex_lock(&victim->lock); /* none is served before all are asked */
    for (uint32_t i = 0; i < ATOMICS; i++)
        CHECK(acp_atomic(lane, ACP_ADD8, acp_starter(e, 0), there, 1, 0, ACP_HANDLE_NULL));
    for (uint32_t i = 0; i < GETS; i++)
        CHECK(acp_iget(lane, a->bytes + i * GET, block, GET, ACP_HANDLE_NULL));
    for (uint32_t i = 0; i < CALLS; i++) {
        unsigned char *in = a->bytes + (GETS + 2 * i) * GET;
        memset(in, (int)i + 1, GET);
        a->calls[i] = (struct acp_call){.method = ECHO, .object = there, .in = in, .in_size = GET,
                                        .out = in + GET, .out_room = GET};
        CHECK(acp_icall(lane, &a->calls[i], ACP_HANDLE_NULL));
    }
    none = true;
    pthread_mutex_unlock(&victim->lock);
}

static void check_all(acp_engine *e, struct asked *a)
{
    acp_failure failure;
    uint64_t more;
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    CHECK(!acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more));
    for (uint32_t i = 0; i < CALLS; i++)
        CHECK(a->calls[i].out_size == GET && !memcmp(a->calls[i].in, a->calls[i].out, GET));
    free(a->bytes);
}

static void all_answers_come(void)
{
    struct cluster c;
    struct asked a;
    begin(&c, 2, ACP_PATH_ANY);
    acp_engine *e = c.engines[0];
    choose(c.engines[1]);
    ask_all(e, &a);
    UNTIL(refused > 20);
    CHECK(acp_complete(e, ACP_HANDLE_ALL, 100000000) == ACP_E_TIMEOUT);
    none = false;
    check_all(e, &a);
    cluster_stop(&c);
}

/* The ring of who asks is full, and nobody reads it. */
static void all_answers_come_through_a_full_ring(void)
{
    struct cluster c;
    begin(&c, 1, ACP_PATH_OWNER);
    acp_engine *e = c.engines[0], *owner = c.engines[1];
    acp_lane *lane = acp_engine_lane(e);
    struct peer *p = peer_of_slot(owner, 0);
    const struct message nothing = {.kind = ACP_REPLY, .from = 1, .id = 1ull << 62};
    acp_failure failure;
    uint64_t more, *words;
    void *address;
    UNTIL(progress_leader_try(e));
    pthread_mutex_lock(&owner->lock);
    for (uint32_t i = 0; i < INBOX_CELLS; i++)
        CHECK(road_ring.send(&owner->lanes[LANE_LOCKED], p, 0, &nothing) == ACP_OK && !p->ring.backlog);
    pthread_mutex_unlock(&owner->lock);
    take_memory(owner);
    for (uint32_t i = 0; i < ATOMICS; i++)
        CHECK(acp_atomic(lane, ACP_ADD8, ACP_GA_NULL, acp_starter(e, 1), 1, 0, ACP_HANDLE_NULL));
    UNTIL(refused > 20);
    progress_leader_release(e);
    usleep(20000); /* it reads what there is */
    none = false;
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    CHECK(!acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more));
    CHECK(acp_query_address(acp_engine_lane(owner), acp_starter(e, 1), 8, &address) == ACP_OK);
    words = address;
    CHECK(words[0] == ATOMICS);
    cluster_stop(&c);
}

static void *meet_all(void *engine)
{
    CHECK(acp_barrier(engine, NULL, 0, 0, ACP_FOREVER) == ACP_OK);
    return NULL;
}

static void who_has_come_to_a_barrier_has_come(void)
{
    struct cluster c;
    pthread_t other;
    begin(&c, 2, ACP_PATH_ANY);
    pthread_mutex_lock(&c.engines[1]->lock);
    free(c.engines[1]->sync.signals); /* as if those that have come had all the room there is */
    c.engines[1]->sync.signals = NULL;
    c.engines[1]->sync.signal_room = c.engines[1]->sync.signal_used = 0;
    take_memory(c.engines[1]);
    pthread_mutex_unlock(&c.engines[1]->lock);
    CHECK(pthread_create(&other, NULL, meet_all, c.engines[0]) == 0);
    UNTIL(refused);
    usleep(20000);
    none = false;
    meet_all(c.engines[1]);
    pthread_join(other, NULL);
    cluster_stop(&c);
}

/* Who cannot keep a name says so; a name that is asked for is not kept from who asks. */
static void a_name_that_is_not_kept_is_not_published(void)
{
    struct cluster c;
    const uint64_t key[2] = {1, 1}, value[2] = {5, 6};
    uint64_t found[2];
    begin(&c, 2, ACP_PATH_ANY);
    take_memory(c.engines[1]);
    CHECK(acp_publish(c.engines[0], key, value, 0, NULL, ACP_FOREVER) == ACP_E_SYSTEM);
    none = false;
    CHECK(acp_publish(c.engines[0], key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    CHECK(acp_lookup(c.engines[0], key, found, ACP_FOREVER) == ACP_OK && found[1] == value[1]);
    cluster_stop(&c);
}

static void who_calls_is_not_lost(size_t size)
{
    struct cluster c;
    uint64_t value = 7;
    acp_handle_t pending;
    cluster_start(&c, 2, 2, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_engine *e = c.engines[0];
    only = size;
    take_memory(c.engines[1]);
    CHECK(acp_put(acp_engine_lane(e), acp_starter(e, 1), &value, 8, &pending) == ACP_OK);
    UNTIL(refused);
    CHECK(acp_wait(e, pending, 100000000) == ACP_E_TIMEOUT);
    none = false;
    only = 0;
    CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK && acp_quiet(e) && !e->job.outcast);
    cluster_stop(&c);
}

/* An error that there is no memory for is not told, but counted. */
static void an_error_that_is_not_kept_is_counted(void)
{
    struct cluster c;
    uint64_t value = 7, more;
    acp_failure failure;
    begin(&c, 2, ACP_PATH_ANY);
    acp_engine *e = c.engines[0];
    choose(e);
    pthread_mutex_lock(&c.engines[1]->lock); /* it answers later */
    CHECK(acp_iput(acp_engine_lane(e), acp_starter(e, 1) + (1 << 20), &value, 8, ACP_HANDLE_NULL));
    none = true;
    pthread_mutex_unlock(&c.engines[1]->lock);
    UNTIL(refused);
    none = false;
    CHECK(acp_complete(e, ACP_HANDLE_ALL, ACP_FOREVER) == ACP_OK);
    CHECK(acp_failures_take(e, ACP_HANDLE_ALL, false, &failure, 1, &more) == 0 && more == 1);
    cluster_stop(&c);
}

/* What has begun is brought to its end. */
static void a_long_message_arrives_whole(uint32_t without)
{
    enum { LONG = 24 << 20 };
    struct cluster c;
    unsigned char *from = malloc(LONG), *to = calloc(1, LONG);
    for (uint32_t i = 0; i < LONG; i++)
        from[i] = (unsigned char)(i * 2654435761u >> 23);
    begin(&c, 2, ACP_PATH_ANY);
    acp_lane *sender = acp_engine_lane(c.engines[0]), *receiver = acp_engine_lane(c.engines[1]);
    acp_request *r = ireceive(receiver, 0, 3, to, LONG), *s = isend(sender, 1, 3, from, LONG);
    for (uint32_t i = 0; i < 50; i++) {
        take_memory(c.engines[without]);
        usleep(1000);
        none = false;
        usleep(200);
    }
    send_end_of(sender, s);
    CHECK(receive_end_of(receiver, r).size == LONG && !memcmp(from, to, LONG));
    cluster_stop(&c);
    free(from);
    free(to);
}

/* Nor is who sends to it, though nobody can keep what comes until its mailbox is free. */
static void messages_come_to_a_mailbox_that_is_held(void)
{
    enum { MESSAGES = 20, SIZE = 60000 };
    struct cluster c;
    struct hold hold;
    unsigned char *from = malloc(MESSAGES * SIZE), *to = malloc(SIZE);
    begin(&c, 2, ACP_PATH_ANY);
    acp_engine *e = c.engines[1];
    acp_lane *sender = acp_engine_lane(c.engines[0]), *receiver = acp_engine_lane(e);
    acp_request *sends[MESSAGES];
    struct heap *h = mailbox_heap(e, e->job.own);
    CHECK(transaction_enter(&hold, receiver, &mailbox_of(h)->section, h, ACP_FOREVER) == ACP_OK);
    pthread_mutex_lock(&e->lock); /* none is taken before all are sent */
    choose(e);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        paint(from + i * SIZE, SIZE, i);
        sends[i] = isend(sender, 1, i, from + i * SIZE, SIZE);
    }
    none = true;
    pthread_mutex_unlock(&e->lock);
    UNTIL(refused > 20);
    transaction_leave(&hold);
    usleep(20000);
    none = false;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        CHECK(take_message(receiver, 0, i, to, SIZE).size == SIZE && painted(to, SIZE, i));
        send_end_of(sender, sends[i]);
    }
    cluster_stop(&c);
    free(from);
    free(to);
}

/* What the machine has not is refused before anybody is killed for want of it, and said to be so much. */
static void what_the_machine_has_not_is_refused(void)
{
    const uint64_t left = (uint64_t)5 << 20;
    struct cluster c;
    cluster_start(&c, 1, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    acp_lane *lane = acp_engine_lane(c.engines[0]);
    acp_ga_t ga;
    void *data;
    machine = left;
    CHECK(acp_memory_alloc(lane, left + 1, 0, &ga, &data) == ACP_E_FULL);
    CHECK(acp_lane_fault(lane)->high == left);
    CHECK(acp_memory_alloc(lane, left, 0, &ga, &data) == ACP_OK);
    acp_memory_drop(lane, data, left);
    machine = UINT64_MAX;
    CHECK(acp_memory_alloc(lane, left + 1, 0, &ga, &data) == ACP_OK);
    cluster_stop(&c);
}

/* Large blocks that are kept are for answers, where there is no memory for more. */
static void what_is_kept_for_answers_is_theirs(void)
{
    enum { LARGEST = 68 << 10 };
    static acp_engine here;
    struct outbox_spares spares = {0};
    struct outbox o = {.spares = &spares};
    here.progress.thread = pthread_self();
    choose(&here);
    CHECK(tcp_send_queue_provide(&spares) && spares.count == 2);
    CHECK(tcp_send_queue_add(&o, LARGEST, false) && tcp_send_queue_add(&o, LARGEST, true) && spares.count == 2);
    none = true;
    unsigned char *kept = tcp_send_queue_add(&o, LARGEST, false), *too_large = tcp_send_queue_add(&o, LARGEST + 1, true);
    unsigned char *first = tcp_send_queue_add(&o, LARGEST, true), *second = tcp_send_queue_add(&o, 100, true);
    unsigned char *third = tcp_send_queue_add(&o, LARGEST, true);
    none = false;
    CHECK(!kept && first && second && !third && !too_large && spares.count == 0);
    tcp_send_queue_sent(&o, o.unsent);
    CHECK(tcp_send_queue_ack(&o, 4) && spares.count == 4 && !o.head); /* more than are kept for answers */
    none = true;
    kept = tcp_send_queue_add(&o, LARGEST, false);
    none = false;
    CHECK(kept && spares.count == 3);
    CHECK(tcp_send_queue_add(&o, 100, false) && spares.count == 3); /* which needs no large one */
    tcp_send_queue_free(&o);
    tcp_send_queue_spares_free(&spares);
}

static void a_growth_that_a_signal_interrupts_goes_on(void)
{
    struct cluster c;
    acp_ga_t ga;
    void *address;
    cluster_start(&c, 1, 1, ACP_PATH_ANY, CLUSTER_SHARED);
    interruptions = 3;
    CHECK(acp_memory_alloc(acp_engine_lane(c.engines[0]), 8 << 20, 0, &ga, &address) == ACP_OK);
    CHECK(!interruptions);
    memset(address, 1, 8 << 20);
    cluster_stop(&c);
}

int main(void)
{
    a_growth_that_a_signal_interrupts_goes_on();
    what_is_kept_for_answers_is_theirs();
    what_the_machine_has_not_is_refused();
    all_answers_come();
    all_answers_come_through_a_full_ring();
    who_has_come_to_a_barrier_has_come();
    a_name_that_is_not_kept_is_not_published();
    an_error_that_is_not_kept_is_counted();
    who_calls_is_not_lost(0);
    who_calls_is_not_lost(sizeof(struct link));
    a_long_message_arrives_whole(0);
    a_long_message_arrives_whole(1);
    messages_come_to_a_mailbox_that_is_held();
    return 0;
}
