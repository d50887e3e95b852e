/* Others hold the heap for longer than those wait who hold another section: that goes on later, nothing
 * is lost, and nobody waits for a heap that is in the own hands. */
#include "support/blocks_of_actors.h"
#include "support/stage.h"
#include "containers/container.h"
#include "containers/container_head.h"
#include "containers/map_bucket.h"
#include "containers/map_slots.h"
#include "containers/sequence.h"
#include "containers/workspace.h"
#include "core/method.h"
#include "memory/heap.h"
#include "memory/heap_pages.h"
#include "memory/transaction.h"
#include "memory/transaction_lock.h"

#include <pthread.h>

struct intruder {
    struct actor *a;
    struct section *section;
    _Atomic bool inside, over;
    pthread_t thread;
};

/* Keeps the heap, or its sweeper, until somebody's patience is over. */
static void *keep_busy(void *argument)
{
    struct intruder *intruder = argument;
    struct actor *a = intruder->a;
    struct hold hold;
    acp_lane lane = *a->lane;
    CHECK(transaction_enter(&hold, &lane, intruder->section, &a->heap, ACP_FOREVER) == ACP_OK);
    atomic_store(&intruder->inside, true);
    while (!atomic_load(&intruder->over))
        sched_yield();
    transaction_leave(&hold);
    return NULL;
}

static void intrude(struct intruder *intruder)
{
    CHECK(pthread_create(&intruder->thread, NULL, keep_busy, intruder) == 0);
    while (!atomic_load(&intruder->inside))
        sched_yield();
}

static void withdraw(struct intruder *intruder)
{
    atomic_store(&intruder->over, true);
    CHECK(pthread_join(intruder->thread, NULL) == 0);
}

/* A change that drops a block while the heap is busy, and another by the same holder. */
static void busy_heap_loses_nothing(struct actor *a)
{
    struct intruder intruder = {.a = a, .section = &a->heap.head->section};
    struct hold hold;
    uint64_t place = take(a, sizeof(struct section) + 16), block, other;
    struct section *s = (struct section *)(void *)(a->heap.base + place);
    uint64_t *word = (uint64_t *)(void *)(s + 1);
    *word = 0;
    transaction_lock_create(s);
    CHECK(transaction_enter(&hold, a->lane, s, &a->heap, ACP_FOREVER) == ACP_OK);
    transaction_begin(&hold);
    CHECK(transaction_take(&hold, 100, &block) == ACP_OK && transaction_take(&hold, 5, &other) == ACP_OK);
    transaction_commit(&hold);
    intrude(&intruder);
    transaction_begin(&hold);
    transaction_drop(&hold, block);
    transaction_commit(&hold);
    CHECK(s->version & 1);
    withdraw(&intruder);
    transaction_begin(&hold);
    transaction_set(&hold, word, 4711);
    transaction_drop(&hold, other);
    transaction_commit(&hold);
    CHECK(!(s->version & 1) && *word == 4711);
    transaction_leave(&hold);
    CHECK(give(a, block) == ACP_E_BLOCK && give(a, other) == ACP_E_BLOCK);
    CHECK(give(a, place) == ACP_OK && check_heap(a) == 0);
}

/* That there is no memory stays said while others sweep. */
static void sweepers_do_not_hide_why(struct actor *a)
{
    struct intruder intruder = {.a = a, .section = &a->heap.head->sweeper};
    struct hold hold;
    uint64_t first = take(a, 12 << 20), between = take(a, 100), second = take(a, 12 << 20), block;
    uint64_t place = take(a, sizeof(struct section));
    struct section *s = (struct section *)(void *)(a->heap.base + place);
    transaction_lock_create(s);
    CHECK(give(a, first) == ACP_OK && give(a, second) == ACP_OK && heap_pages_sweep_due(&a->heap));
    CHECK(transaction_enter(&hold, a->lane, s, &a->heap, ACP_FOREVER) == ACP_OK);
    transaction_begin(&hold);
    CHECK(transaction_take(&hold, CRASH_SPAN - (1 << 20), &block) == ACP_E_FULL);
    transaction_cancel(&hold);
    intrude(&intruder);
    transaction_leave(&hold);
    CHECK(a->lane->fault.status == ACP_E_FULL);
    withdraw(&intruder);
    CHECK(give(a, between) == ACP_OK && give(a, place) == ACP_OK && check_heap(a) == 0);
}

/* Runs between two tries of somebody who waits for ever: that is how often, and how they end. */
struct visitor {
    struct intruder *intruder;
    uint32_t calls;
    int answer;
};

static int called_between(void *context, int reason)
{
    struct visitor *visitor = context;
    CHECK(reason == ACP_TICK_SIGNAL);
    visitor->calls++;
    if (!visitor->answer)
        withdraw(visitor->intruder);
    return visitor->answer;
}

static int sweep_whole(struct actor *a, struct section *unused)
{
    (void)unused;
    return heap_pages_sweep(a->lane, &a->heap, true, ACP_FOREVER);
}

static int enter_and_leave(struct actor *a, struct section *s)
{
    struct hold hold;
    int rc = transaction_enter(&hold, a->lane, s, &a->heap, ACP_FOREVER);
    if (rc == ACP_OK)
        transaction_leave(&hold);
    return rc;
}

/* What a dead process left half-way needs the heap, as the sweeper does, and others keep that for longer than those
 * wait who hold a section: who waits for ever leaves the section, hears of signals, and comes again. */
static void patience_without_end_outlasts_the_heap(struct actor *a, int (*what)(struct actor *, struct section *))
{
    acp_engine *e = a->engine;
    uint64_t place = take(a, sizeof(struct section));
    struct section *s = (struct section *)(void *)(a->heap.base + place);
    transaction_lock_create(s);
    for (int answer = 0; answer < 2; answer++) {
        struct intruder intruder = {.a = a, .section = &a->heap.head->section};
        struct visitor visitor = {.intruder = &intruder, .answer = answer};
        e->config.tick = called_between;
        e->config.tick_context = &visitor;
        s->version = 1;
        intrude(&intruder);
        CHECK(what(a, s) == (answer ? ACP_E_INTERRUPTED : ACP_OK) && visitor.calls == 1);
        if (answer) {
            e->stopping = true;
            CHECK(what(a, s) == ACP_E_CLOSED && visitor.calls == 1);
            e->stopping = false;
            withdraw(&intruder);
        }
        CHECK(transaction_lock_try(a->lane, s) && transaction_lock_try(a->lane, &a->heap.head->sweeper));
        transaction_lock_release(s);
        transaction_lock_release(&a->heap.head->sweeper);
        e->config.tick = NULL;
    }
    s->version = 0;
    CHECK(give(a, place) == ACP_OK && check_heap(a) == 0);
}

static struct {
    struct actor *a;
    uint64_t stores; /* until it begins */
    _Atomic bool inside;
    bool began;
    pthread_t thread;
} brief;

static void *keep_busy_for_a_while(void *unused)
{
    struct hold hold;
    acp_lane lane = *brief.a->lane;
    struct heap *h = &brief.a->heap;
    (void)unused;
    CHECK(transaction_enter(&hold, &lane, &h->head->section, h, ACP_FOREVER) == ACP_OK);
    atomic_store(&brief.inside, true);
    usleep(3 * HEAP_PATIENCE_NS / 2 / 1000);
    transaction_leave(&hold);
    return NULL;
}

/* Somebody else comes first, unless the sweeper is in the heap just now. */
static void come_in_between(void)
{
    struct section *s = &brief.a->heap.head->section;
    if (!brief.stores || --brief.stores || !transaction_lock_try(brief.a->lane, s))
        return;
    transaction_lock_release(s);
    brief.began = true;
    brief.inside = false;
    CHECK(pthread_create(&brief.thread, NULL, keep_busy_for_a_while, NULL) == 0);
    while (!atomic_load(&brief.inside))
        sched_yield();
}

/* Others hold the heap for longer than a sweeper waits, at whichever of its stores. */
static void sweepers_leave_busy_heaps(struct actor *a)
{
    uint32_t met = 0;
    brief.a = a;
    for (uint64_t store = 1; store <= 150; store++) {
        uint64_t first = take(a, 12 << 20), between = take(a, 100), second = take(a, 12 << 20);
        CHECK(between && give(a, first) == ACP_OK && give(a, second) == ACP_OK);
        brief.stores = store;
        brief.began = false;
        at_each_store = come_in_between;
        int rc = heap_pages_sweep(a->lane, &a->heap, true, ACP_FOREVER);
        at_each_store = NULL;
        CHECK(rc == ACP_OK);
        met += brief.began;
        if (brief.began)
            CHECK(pthread_join(brief.thread, NULL) == 0);
        CHECK(a->heap.head->fragments == 2 && give(a, between) == ACP_OK && check_heap(a) == 0);
    }
    CHECK(met > 4);
}

/* So for containers that end: their blocks go back before their heads do. */
static void containers_end_in_busy_heaps(const struct actor *a, uint64_t kind, uint64_t stores,
                                         uint64_t step)
{
    struct stage s = {0};
    uint64_t plan[4] = {kind == KIND_MAP ? SIZE_ANY : 100000, 8};
    uint32_t met = 0;
    stage_set(&s, a);
    brief.a = &s.actor;
    uint64_t others = check_heap(&s.actor); /* heads for the next ones */
    for (uint64_t store = 1; store <= stores; store += step) {
        struct acp_call c = {.object = acp_ga(0, 0, 64), .a = kind, .in = plan, .in_size = sizeof plan};
        call(&s, &c, container_head_method_create);
        struct acp_call end = {.object = c.result[0], .a = c.result[1]};
        if (kind == KIND_MAP)
            fill_map(&s, &end, 2 * STRIPES);
        brief.stores = store;
        brief.began = false;
        at_each_store = come_in_between;
        int rc = container_head_method_destroy(s.actor.lane, &end);
        at_each_store = NULL;
        CHECK(rc == ACP_OK || (rc == ACP_E_BUSY && brief.began));
        met += brief.began;
        if (brief.began)
            CHECK(pthread_join(brief.thread, NULL) == 0);
        if (rc == ACP_E_BUSY)
            call(&s, &end, container_head_method_destroy);
        CHECK(container_head_method_destroy(s.actor.lane, &end) == ACP_E_DESTROYED);
        CHECK(check_heap(&s.actor) == others + 1);
    }
    CHECK(met > 4);
}

/* A heap that others keep is not waited for in the container's section. */
static void ends_leave_heaps_that_stay_busy(const struct actor *a)
{
    struct stage s = {0};
    const struct {
        struct container_plan plan;
        unsigned char note[40];
    } in = {.plan.words = {100000}};
    struct acp_call c = {.object = acp_ga(0, 0, 64), .a = KIND_WORKSPACE, .in = &in, .in_size = sizeof in};
    stage_set(&s, a);
    struct intruder intruder = {.a = &s.actor, .section = &s.actor.heap.head->section};
    call(&s, &c, container_head_method_create);
    struct acp_call end = {.object = c.result[0], .a = c.result[1]};
    intrude(&intruder);
    CHECK(container_head_method_destroy(s.actor.lane, &end) == ACP_E_BUSY);
    withdraw(&intruder);
    uint64_t blocks = check_heap(&s.actor);
    call(&s, &end, container_head_method_destroy);
    CHECK(check_heap(&s.actor) == blocks - 2); /* the bytes and the note */
}

/* There is no memory for a call, during which somebody holds the heap for a while from that store on. */
static void refuse_beside(struct stage *s, struct acp_call *c, int (*method)(acp_lane *, struct acp_call *),
                          uint64_t store)
{
    brief.stores = store;
    brief.began = false;
    at_each_store = come_in_between;
    int rc = method(s->actor.lane, c);
    at_each_store = NULL;
    CHECK(s->actor.lane->fault.status == rc && (rc == ACP_E_FULL || (rc == ACP_E_BUSY && brief.began)));
    if (brief.began)
        CHECK(pthread_join(brief.thread, NULL) == 0);
}

/* Calls that find no memory say so, and keep nothing. */
static void refusals_lose_nothing(const struct actor *a)
{
    struct stage s = {0};
    struct {
        struct container_plan plan;
        unsigned char note[40];
    } in = {.plan.words = {1}};
    struct {
        struct splice splice;
        unsigned char element;
    } more = {.splice = {.insert = 24, .flags = SPLICE_REPEATS}};
    struct acp_call c = {.object = acp_ga(0, 0, 64), .a = KIND_VECTOR, .in = &in, .in_size = sizeof in};
    stage_set(&s, a);
    brief.a = &s.actor;
    call(&s, &c, container_head_method_create);
    const struct acp_call named = {.object = c.result[0], .a = c.result[1]};
    struct acp_call change = named, look = named;
    change.in = &more;
    change.in_size = sizeof more;
    call(&s, &change, sequence_method_splice);
    more.splice = (struct splice){.erase = 24, .insert = CRASH_SPAN - (1 << 20),
                                  .flags = SPLICE_REPEATS | SPLICE_BRINGS | SPLICE_BLOCK};
    in.plan.words[0] = CRASH_SPAN - (1 << 20);
    c.a = KIND_WORKSPACE;
    uint64_t blocks = check_heap(&s.actor);
    for (uint64_t store = 1; store <= 60; store++) {
        refuse_beside(&s, &change, sequence_method_splice, store);
        call(&s, &look, sequence_method_look);
        CHECK(look.result[0] == 24 && check_heap(&s.actor) == blocks);
    }
    for (uint64_t store = 1; store <= 60; store++)
        refuse_beside(&s, &c, container_head_method_create, store);
}

static int enter_stripe(struct actor *a, struct stripe *s, struct hold *hold)
{
    return transaction_enter(hold, a->lane, &s->section, &a->heap, ACP_FOREVER);
}

/* A change of a stripe that could not give its block back: nothing else is changed before it is over. */
static void stripes_wait_for_the_end_of_a_change(struct actor *a)
{
    struct hold hold;
    struct shape shape;
    struct answer answer = {.out = NULL};
    uint64_t place = take(a, sizeof(struct stripe)), key = 3, value = 4, block;
    struct stripe *s = (struct stripe *)(void *)(a->heap.base + place);
    const struct element e = {.hash = 8, .key = &key, .key_size = 8, .value = &value, .value_size = 8};
    bool more = true;
    memset(s, 0, sizeof *s);
    transaction_lock_create(&s->section);
    CHECK(map_slots_shape(&shape, SIZE_ANY, 8, 'Q', 0) == ACP_OK);
    for (uint32_t dying = 0; dying < 2; dying++) {
        struct intruder intruder = {.a = a, .section = &a->heap.head->section};
        CHECK(enter_stripe(a, s, &hold) == ACP_OK);
        CHECK(map_bucket_put(&hold, &shape, s, &e, PUT_ASSIGN, &answer) == ACP_OK);
        transaction_begin(&hold);
        CHECK(transaction_take(&hold, 100, &block) == ACP_OK);
        transaction_commit(&hold);
        if (dying)
            CHECK(map_slots_clear(&hold, &shape, s) == ACP_OK && s->dying);
        intrude(&intruder);
        transaction_begin(&hold);
        transaction_drop(&hold, block);
        transaction_commit(&hold);
        CHECK(s->section.version & 1);
        CHECK(map_slots_clear(&hold, &shape, s) == ACP_E_BUSY);
        CHECK(dying ? map_slots_sweep(&hold, &shape, s, &more) == ACP_E_BUSY
                    : map_slots_reserve(&hold, &shape, s, 1000) == ACP_E_BUSY);
        withdraw(&intruder);
        transaction_leave(&hold);
        CHECK(enter_stripe(a, s, &hold) == ACP_OK && !(s->section.version & 1));
        CHECK(map_slots_clear(&hold, &shape, s) == ACP_OK);
        while (s->dying)
            CHECK(map_slots_sweep(&hold, &shape, s, &more) == ACP_OK);
        transaction_leave(&hold);
    }
    CHECK(give(a, place) == ACP_OK && check_heap(a) == 0);
}

/* In the middle of a change, whose bytes are half there. */
static void *change_for_a_while(void *argument)
{
    struct intruder *intruder = argument;
    struct actor *a = intruder->a;
    struct hold hold;
    acp_lane lane = *a->lane;
    CHECK(transaction_enter(&hold, &lane, intruder->section, &a->heap, ACP_FOREVER) == ACP_OK);
    transaction_begin(&hold);
    atomic_store(&intruder->inside, true);
    while (!atomic_load(&intruder->over))
        sched_yield();
    transaction_commit(&hold);
    transaction_leave(&hold);
    return NULL;
}

static void who_reads_a_workspace_waits_for_a_change(const struct actor *a)
{
    struct stage s = {0};
    uint64_t plan[4] = {100}, bytes[2] = {7, 7};
    stage_set(&s, a);
    struct acp_call c = {.object = acp_ga(0, 0, 64), .a = KIND_WORKSPACE, .in = plan, .in_size = sizeof plan};
    call(&s, &c, container_head_method_create);
    const struct acp_call named = {.object = c.result[0], .a = c.result[1], .out = bytes, .out_room = sizeof bytes};
    struct container *k = (struct container *)(void *)(s.actor.heap.base + acp_ga_offset(named.object));
    struct intruder intruder = {.a = &s.actor, .section = &k->section};
    CHECK(pthread_create(&intruder.thread, NULL, change_for_a_while, &intruder) == 0);
    while (!atomic_load(&intruder.inside))
        sched_yield();
    s.actor.lane->patience_ns = 0;
    struct acp_call read = named;
    CHECK(workspace_method_read(s.actor.lane, &read) == ACP_E_BUSY && bytes[0] == 7);
    s.actor.lane->patience_ns = ACP_FOREVER;
    withdraw(&intruder);
    read = named;
    CHECK(workspace_method_read(s.actor.lane, &read) == ACP_OK && read.out_size == sizeof bytes);
    struct acp_call end = named;
    call(&s, &end, container_head_method_destroy);
}

int main(void)
{
    struct actor a;
    actor_start(&a, crash_memory(48 << 20));
    busy_heap_loses_nothing(&a);
    sweepers_do_not_hide_why(&a);
    patience_without_end_outlasts_the_heap(&a, enter_and_leave);
    patience_without_end_outlasts_the_heap(&a, sweep_whole);
    stripes_wait_for_the_end_of_a_change(&a);
    sweepers_leave_busy_heaps(&a);
    containers_end_in_busy_heaps(&a, KIND_WORKSPACE, 60, 1);
    containers_end_in_busy_heaps(&a, KIND_MAP, 400, 7);
    ends_leave_heaps_that_stay_busy(&a);
    refusals_lose_nothing(&a);
    who_reads_a_workspace_waits_for_a_change(&a);
    actor_end(&a);
    return 0;
}
