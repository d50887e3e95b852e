/* Something writes over cells of a ring while a command, or its answer, lies there. The caller asks the owner: the
 * call ends with an error that names the owner, or as if nothing had been, and later ones work. */
#include "cluster/cluster.h"
#include "core/state/peer.h"
#include "operations/op_table.h"
#include "peers/peer.h"
#include "progress/progress.h"
#include "transport/shm_ring.h"

#include <errno.h>
#include <sched.h>

#define LONG (300u << 10) /* several parts */

/* Of the ring of `e`: the message of that cell. */
struct damage {
    void (*write_over)(acp_engine *e, struct cell *cell, uint64_t at);
    bool loses; /* the message */
};

static void rubbish_in_its_state(acp_engine *e, struct cell *cell, uint64_t at)
{
    (void)e;
    (void)at;
    atomic_store(&cell->state, 0x2020202020202020u);
}

/* As if nobody had claimed it yet. */
static void free_again(acp_engine *e, struct cell *cell, uint64_t at)
{
    (void)e;
    atomic_store(&cell->state, at / INBOX_CELLS << 32 | (uint64_t)CELL_FREE << 30);
}

/* By a process that lives; by its owner, if that has a line there. */
static void claimed_by(const acp_engine *e, struct cell *cell, uint64_t at, bool own)
{
    uint32_t line = 0;
    while (line < ATTACH_LINES - 1 &&
           (!e->doors->lines[line].holder || (e->doors->lines[line].holder == e->self + 1) != own))
        line++;
    atomic_store(&cell->state, at / INBOX_CELLS << 32 | (uint64_t)CELL_CLAIMED << 30 | line);
}

static void claimed_again(acp_engine *e, struct cell *cell, uint64_t at)
{
    claimed_by(e, cell, at, false);
}

static void claimed_by_its_owner(acp_engine *e, struct cell *cell, uint64_t at)
{
    claimed_by(e, cell, at, true);
}

static void rubbish_in_its_message(acp_engine *e, struct cell *cell, uint64_t at)
{
    (void)e;
    (void)at;
    cell->message.kind = 0;
}

static void another_sender(acp_engine *e, struct cell *cell, uint64_t at)
{
    (void)e;
    (void)at;
    cell->message.from = 0x20202020;
}

static void another_number(acp_engine *e, struct cell *cell, uint64_t at)
{
    (void)e;
    (void)at;
    cell->message.id += 2 * OPS;
}

static void far_tail(acp_engine *e, struct cell *cell, uint64_t at)
{
    (void)cell;
    atomic_store(&e->doors->tail, at + (1u << 30));
}

static void near_tail(acp_engine *e, struct cell *cell, uint64_t at)
{
    (void)cell;
    atomic_store(&e->doors->tail, at + 100);
}

static void tail_of_the_beginning(acp_engine *e, struct cell *cell, uint64_t at)
{
    (void)cell;
    (void)at;
    atomic_store(&e->doors->tail, 0);
}

static const struct damage damages[] = {
    {rubbish_in_its_state, true}, {free_again, true}, {claimed_again, true}, {claimed_by_its_owner, true},
    {rubbish_in_its_message, true}, {another_sender, true}, {another_number, true}, {far_tail, false},
    {near_tail, false}, {tail_of_the_beginning, false},
};

static uint64_t word;
static unsigned char bytes[LONG];

static int put(acp_lane *lane, acp_ga_t there, acp_handle_t *pending)
{
    return acp_put(lane, there, bytes, 8, pending);
}

static int put_much(acp_lane *lane, acp_ga_t there, acp_handle_t *pending)
{
    return acp_put(lane, there, bytes, sizeof bytes, pending);
}

static int get_much(acp_lane *lane, acp_ga_t there, acp_handle_t *pending)
{
    return acp_get(lane, bytes, there, sizeof bytes, pending);
}

static int add(acp_lane *lane, acp_ga_t there, acp_handle_t *pending)
{
    return acp_fetch(lane, ACP_ADD8, there, 1, 0, &word, pending);
}

static int malloc_there(acp_lane *lane, acp_ga_t there, acp_handle_t *pending)
{
    static struct acp_call c;
    (void)there;
    return acp_malloc(lane, 0, 100, &c, pending);
}

typedef int operation_of(acp_lane *lane, acp_ga_t there, acp_handle_t *pending);
static operation_of *const operations[] = {put, put_much, get_much, add, malloc_there};

/* From then on no thread reads its ring. */
static void lead(acp_engine *e)
{
    while (!progress_leader_try(e))
        sched_yield();
}

/* Where the command lies, or its answer: questions may be on their way, too. */
static uint64_t await_message(const acp_engine *e)
{
    for (uint64_t at = e->shm.inbox_head;; at = e->shm.inbox_head) {
        for (; at < e->shm.inbox_head + INBOX_CELLS; at++) {
            const struct cell *cell = &e->doors->cells[at % INBOX_CELLS];
            uint64_t state = atomic_load(&cell->state);
            if (state >> 30 == (at / INBOX_CELLS << 2 | CELL_FULL) && cell->message.kind != ACP_DOUBT)
                return at;
        }
        sched_yield();
    }
}

static acp_handle_t begin(acp_lane *lane, operation_of *operation, acp_ga_t there)
{
    acp_handle_t pending;
    int rc;
    while ((rc = operation(lane, there, &pending)) == ACP_E_BUSY)
        CHECK(acp_wait_room(lane->engine, ACP_FOREVER) == ACP_OK);
    CHECK(rc == ACP_OK && pending);
    return pending;
}

static int end_of(acp_engine *e, acp_handle_t pending)
{
    acp_failure failure;
    uint64_t more;
    CHECK(acp_wait(e, pending, ACP_FOREVER) == ACP_OK);
    if (!acp_failures_take(e, pending, true, &failure, 1, &more))
        return ACP_OK;
    CHECK(failure.fault.rank == 0 && failure.fault.error == EBADMSG);
    return failure.fault.status;
}

static void lose(struct cluster *c, const struct damage *damage, operation_of *operation, acp_ga_t there, bool answer)
{
    acp_engine *owner = c->engines[0], *caller = c->engines[1], *ring = answer ? caller : owner;
    acp_lane *lane = acp_engine_lane(caller);
    CHECK(end_of(caller, begin(lane, put, there)) == ACP_OK); /* nothing else is under way */
    lead(ring);
    acp_handle_t pending = begin(lane, operation, there);
    uint64_t at = await_message(ring);
    damage->write_over(ring, &ring->doors->cells[at % INBOX_CELLS], at);
    progress_leader_release(ring);
    int rc = end_of(caller, pending);
    CHECK(rc == ACP_E_DAMAGED || (rc == ACP_OK && !damage->loses));
    for (uint32_t i = 0; i < 3; i++) {
        CHECK(end_of(caller, begin(lane, put, there)) == ACP_OK);
        CHECK(end_of(caller, begin(lane, get_much, there)) == ACP_OK);
    }
}

/* An owner that answers late has lost nothing, however often it is asked. */
static void answer_late(struct cluster *c, acp_ga_t there)
{
    acp_engine *owner = c->engines[0], *caller = c->engines[1];
    lead(owner);
    acp_handle_t pending = begin(acp_engine_lane(caller), put_much, there);
    while (peer_of_slot(caller, 0)->ops.silences < 5)
        CHECK(acp_wait(caller, pending, 100000000) == ACP_E_TIMEOUT);
    progress_leader_release(owner);
    CHECK(end_of(caller, pending) == ACP_OK);
}

/* Of names, which rank 0 keeps: the thread that calls waits. */
static const uint64_t name[2] = {0, 7}, unknown[2] = {0, 8}, value[2] = {5, 6};

static int publish(acp_engine *e)
{
    int64_t whose;
    int rc = acp_publish(e, name, value, 0, &whose, ACP_FOREVER);
    CHECK(rc == ACP_OK || whose == 0);
    return rc;
}

static int look_up(acp_engine *e)
{
    uint64_t found[2];
    int rc = acp_lookup(e, name, found, ACP_FOREVER);
    CHECK(rc == ACP_OK ? found[0] == value[0] && found[1] == value[1] : found[0] == 0);
    return rc;
}

static int withdraw(acp_engine *e)
{
    int64_t whose;
    int rc = acp_withdraw(e, name, &whose, ACP_FOREVER);
    CHECK(rc == ACP_OK || whose == 0);
    return rc;
}

static int (*const calls[])(acp_engine *) = {publish, look_up, withdraw};

struct asking {
    acp_engine *engine;
    int (*call)(acp_engine *);
    int rc;
};

static void *ask(void *argument)
{
    struct asking *a = argument;
    a->rc = a->call(a->engine);
    return NULL;
}

static void lose_about_a_name(struct cluster *c, const struct damage *damage, int (*call)(acp_engine *), bool answer)
{
    acp_engine *owner = c->engines[0], *caller = c->engines[1], *ring = answer ? caller : owner;
    struct asking a = {.engine = caller, .call = call};
    pthread_t thread;
    lead(ring);
    CHECK(pthread_create(&thread, NULL, ask, &a) == 0);
    uint64_t at = await_message(ring);
    damage->write_over(ring, &ring->doors->cells[at % INBOX_CELLS], at);
    progress_leader_release(ring);
    pthread_join(thread, NULL);
    CHECK(a.rc == ACP_E_DAMAGED || (a.rc == ACP_OK && !damage->loses));
    CHECK(publish(caller) == ACP_OK && look_up(caller) == ACP_OK);
}

static int look_up_later(acp_engine *e)
{
    uint64_t found[2];
    return acp_lookup(e, unknown, found, ACP_FOREVER);
}

/* A lookup waits at its keeper, which is asked again and again and knows of it. */
static void a_name_that_comes_late(struct cluster *c)
{
    struct asking a = {.engine = c->engines[1], .call = look_up_later};
    pthread_t thread;
    int64_t whose;
    CHECK(pthread_create(&thread, NULL, ask, &a) == 0);
    uint64_t first = 0;
    for (uint32_t changes = 0; changes < 3; sched_yield()) {
        pthread_mutex_lock(&c->engines[1]->lock);
        uint64_t doubted = c->engines[1]->ops.doubted_at;
        pthread_mutex_unlock(&c->engines[1]->lock);
        changes += doubted != first;
        first = doubted;
    }
    CHECK(acp_publish(c->engines[0], unknown, value, 0, &whose, ACP_FOREVER) == ACP_OK);
    pthread_join(thread, NULL);
    CHECK(a.rc == ACP_OK);
}

static void chunks_are_back(const acp_engine *e)
{
    uint32_t count = 0;
    for (const struct bounce *b = e->ops.bounce_pool; b; b = b->next)
        count++;
    CHECK(count && count == e->ops.bounce_count && count <= BOUNCE_CHUNKS);
}

int main(void)
{
    struct cluster c;
    uint8_t rows[CLUSTER_MOST][ACP_ROW_SIZE];
    cluster_create(&c, 2, 1, ACP_PATH_OWNER, CLUSTER_SHARED, 200000000, rows);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(acp_table_add(c.engines[i], 0, rows[0], 2) == ACP_OK);
        CHECK(acp_engine_join(c.engines[i], 2, i) == ACP_OK);
    }
    acp_ga_t there;
    void *address;
    CHECK(acp_memory_alloc(acp_engine_lane(c.engines[0]), LONG, 0, &there, &address) == ACP_OK);
    for (uint32_t i = 0; i < sizeof damages / sizeof *damages; i++)
        for (uint32_t o = 0; o < sizeof operations / sizeof *operations; o++)
            for (uint32_t answer = 0; answer < 2; answer++)
                lose(&c, &damages[i], operations[o], there, answer);
    answer_late(&c, there);
    CHECK(publish(c.engines[1]) == ACP_OK);
    for (uint32_t i = 0; i < sizeof damages / sizeof *damages; i++)
        for (uint32_t call = 0; call < sizeof calls / sizeof *calls; call++)
            for (uint32_t answer = 0; answer < 2; answer++)
                lose_about_a_name(&c, &damages[i], calls[call], answer);
    a_name_that_comes_late(&c);
    chunks_are_back(c.engines[1]);
    cluster_stop(&c);
    return 0;
}
