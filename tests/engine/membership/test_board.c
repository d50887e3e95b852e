/* Names: what happens to the memory that goes with them, and who is woken. */
#include "cluster/bell.h"
#include "cluster/mailing.h"
#include "operations/op_table.h"

static atomic_bool over;

static void offer_memory(acp_lane *lane, uint64_t value[2])
{
    void *address;
    value[1] = 100;
    CHECK(acp_memory_alloc(lane, value[1], 0, &value[0], &address) == ACP_OK);
}

static bool no_offers(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool none = !e->sync.offers && !e->sync.ended;
    pthread_mutex_unlock(&e->lock);
    return none;
}

static void an_end_wakes_who_gives_memory_back(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    uint64_t key[2] = {rank, 7}, value[2];
    int64_t whose;
    (void)c;
    offer_memory(lane, value);
    CHECK(acp_publish(e, key, value, ACP_GIVEN, NULL, ACP_FOREVER) == ACP_OK);
    int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), before = change_bell(e, bell);
    CHECK(acp_withdraw(e, key, &whose, ACP_FOREVER) == ACP_OK);
    CHECK(was_rung(e, bell, before));
    UNTIL(no_offers(e));
}

struct asking {
    acp_engine *engine;
    uint64_t key[2], value[2];
    int rc;
};

static void *look_up(void *argument)
{
    struct asking *a = argument;
    a->rc = acp_lookup(a->engine, a->key, a->value, ACP_FOREVER);
    return NULL;
}

static bool is_asked(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool asked = e->ops.tasks && e->ops.tasks->kept && e->ops.tasks->state == OP_WAITING;
    pthread_mutex_unlock(&e->lock);
    return asked;
}

static void a_name_wakes_who_waits_for_it(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    struct asking a = {.engine = e, .key = {rank, 8}};
    const uint64_t value[2] = {5, 6};
    pthread_t thread;
    (void)c;
    (void)lane;
    CHECK(pthread_create(&thread, NULL, look_up, &a) == 0);
    UNTIL(is_asked(e));
    int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), before = change_bell(e, bell);
    CHECK(acp_publish(e, a.key, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    CHECK(was_rung(e, bell, before));
    pthread_join(thread, NULL);
    CHECK(a.rc == ACP_OK && a.value[0] == 5 && a.value[1] == 6);
}

static void *give(void *argument)
{
    struct asking *a = argument;
    a->rc = acp_publish(a->engine, a->key, a->value, ACP_GIVEN, NULL, ACP_FOREVER);
    return NULL;
}

static bool is_offered(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    bool offered = e->sync.offers && e->ops.tasks && e->ops.tasks->in_flight;
    pthread_mutex_unlock(&e->lock);
    return offered;
}

/* The keeper answers after the reset, which has taken the memory. */
static void reset_while_a_name_is_given(struct cluster *c, acp_engine *e, acp_lane *lane, const uint64_t key[2])
{
    struct asking a = {.engine = e, .key = {key[0], key[1]}};
    uint32_t slots[CLUSTER_MOST];
    pthread_t thread;
    for (uint32_t r = 0; r < c->count; r++)
        slots[r] = r;
    offer_memory(lane, a.value);
    pthread_mutex_lock(&c->engines[1]->lock);
    CHECK(pthread_create(&thread, NULL, give, &a) == 0);
    UNTIL(is_offered(e));
    CHECK(acp_engine_reset(e, slots, c->count) == ACP_OK);
    CHECK(no_offers(e));
    pthread_mutex_unlock(&c->engines[1]->lock);
    pthread_join(thread, NULL);
    CHECK(a.rc == ACP_OK); /* also if it was refused: else the caller gave its memory back once more */
    CHECK(no_offers(e));
}

static void reset_in_between(struct cluster *c, uint32_t rank, acp_engine *e, acp_lane *lane)
{
    const uint64_t taken[2] = {1, 9}, free_one[2] = {1, 10}, value[2] = {5, 6};
    uint32_t slots[CLUSTER_MOST];
    for (uint32_t r = 0; r < c->count; r++)
        slots[r] = r;
    if (rank == 1)
        CHECK(acp_publish(e, taken, value, 0, NULL, ACP_FOREVER) == ACP_OK);
    meet(e);
    if (rank == 0) {
        reset_while_a_name_is_given(c, e, lane, taken);
        reset_while_a_name_is_given(c, e, lane, free_one);
        atomic_store(&over, true);
    } else {
        UNTIL(atomic_load(&over));
        CHECK(acp_engine_reset(e, slots, c->count) == ACP_OK);
    }
    meet(e);
}

static void run(cluster_body body, uint32_t count, uint32_t nodes)
{
    struct cluster c;
    atomic_store(&over, false);
    cluster_start(&c, count, nodes, ACP_PATH_ANY, CLUSTER_SHARED);
    cluster_run(&c, body);
    cluster_stop(&c);
}

int main(void)
{
    run(an_end_wakes_who_gives_memory_back, 1, 1);
    run(a_name_wakes_who_waits_for_it, 1, 1);
    run(reset_in_between, 2, 1);
    run(reset_in_between, 2, 2);
    return 0;
}
