/* Calls that take many elements of a map, and meet a stripe that somebody else holds: they stop short of it,
 * or a signal ends them there. */
#include "support/stage.h"
#include "containers/container.h"
#include "containers/container_head.h"
#include "containers/map.h"
#include "containers/map_bucket.h"
#include "containers/map_bulk.h"
#include "core/method.h"
#include "memory/transaction.h"

#include <pthread.h>

struct record_of_one {
    uint64_t hash, key, value;
};

static struct {
    struct stage *stage;
    struct section *section;
    _Atomic bool inside, over;
} holder;

/* In the middle of a change, so that readers need the lock as well. */
static void *hold_stripe(void *unused)
{
    struct hold hold;
    struct actor *a = &holder.stage->actor;
    acp_lane lane = *a->lane;
    (void)unused;
    CHECK(transaction_enter(&hold, &lane, holder.section, &a->heap, ACP_FOREVER) == ACP_OK);
    transaction_begin(&hold);
    atomic_store(&holder.inside, true);
    while (!atomic_load(&holder.over))
        sched_yield();
    transaction_commit(&hold);
    transaction_leave(&hold);
    return NULL;
}

static int raise_at_once(void *context, int reason)
{
    (void)context;
    return reason == ACP_TICK_SIGNAL;
}

static struct acp_call make_map(struct stage *s)
{
    const struct container_plan plan = {{8, 8}};
    struct acp_call c = {.object = acp_ga(0, 0, 64), .a = KIND_MAP, .in = &plan, .in_size = sizeof plan};
    call(s, &c, container_head_method_create);
    return (struct acp_call){.object = c.result[0], .a = c.result[1]};
}

static void calls_meet_a_stripe_that_is_held(struct stage *s)
{
    static const acp_method methods[] = {map_bulk_method_put_many, map_bulk_method_find_many,
                                         map_bulk_method_erase_many};
    const struct record_of_one records[] = {{8, 1, 2}, {9, 3, 4}};
    unsigned char out[64];
    pthread_t thread;
    acp_lane *lane = s->actor.lane;
    const struct acp_call map = make_map(s);
    struct map_part *part = (struct map_part *)(void *)(s->actor.heap.base + acp_ga_offset(map.object));
    holder.stage = s;
    holder.section = &part->stripes[1].section;
    lane->engine->config.tick = raise_at_once;
    CHECK(pthread_create(&thread, NULL, hold_stripe, NULL) == 0);
    while (!atomic_load(&holder.inside))
        sched_yield();
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t words[2][2] = {{8, 1}, {9, 3}};
        struct acp_call c = map;
        c.b = KIND_MAP | (i ? 0 : PUT_ASSIGN << 8);
        c.in = i ? (const void *)words : records;
        c.in_size = i ? sizeof words : sizeof records;
        c.out = out;
        c.out_room = sizeof out;
        lane->patience_ns = 0;
        c.out_size = 0;
        CHECK(methods[i](lane, &c) == ACP_OK && c.result[0] == c.in_size / 2 && c.result[1] == 1);
        lane->patience_ns = ACP_FOREVER;
        c.out_size = 0;
        CHECK(methods[i](lane, &c) == ACP_E_INTERRUPTED);
    }
    atomic_store(&holder.over, true);
    CHECK(pthread_join(thread, NULL) == 0);
}

/* Nothing of a container is taken for a part of a map because the call says so. */
static void calls_of_another_kind(struct stage *s)
{
    static const acp_method methods[] = {map_method_put, map_method_find, map_method_erase, map_bulk_method_put_many,
                                         map_bulk_method_find_many, map_bulk_method_erase_many};
    const struct container_plan plan = {{0}};
    const uint64_t words[8] = {8, 8, 8};
    struct acp_call c = {.object = acp_ga(0, 0, 64), .a = KIND_LIST, .in = &plan, .in_size = sizeof plan};
    call(s, &c, container_head_method_create);
    const struct acp_call list = {.object = c.result[0], .a = c.result[1], .in = words, .in_size = sizeof words};
    for (uint32_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        for (uint64_t kind = KIND_ANY; kind < KINDS; kind++) {
            c = list;
            c.b = kind;
            int rc = methods[i](s->actor.lane, &c);
            CHECK(kind == KIND_MAP || kind == KIND_SET || kind == KIND_MULTISET ? rc == ACP_E_DESTROYED
                                                                                : rc == ACP_E_ARGUMENT);
        }
    }
}

/* A request says how long its key and its value are: no more of either than it brings. */
static void a_request_brings_what_it_says(struct stage *s)
{
    static const acp_method methods[] = {map_method_put, map_method_find, map_method_erase};
    static const uint64_t wrong[][2] = {{17, 0}, {16, 1}, {9, 8}, {8, 9}, {0, 17}, {SIZE_ANY, 0},
                                        {SIZE_ANY - 8, 32}, {0, SIZE_ANY}, {24, SIZE_ANY}};
    const struct container_plan plan = {{SIZE_ANY, SIZE_ANY}};
    struct {
        struct map_request request;
        uint64_t key, value;
    } in = {{.hash = 9, .key_size = 8, .value_size = 8}, 1, 2};
    struct acp_call c = {.object = acp_ga(0, 0, 64), .a = KIND_MAP, .in = &plan, .in_size = sizeof plan};
    call(s, &c, container_head_method_create);
    const struct acp_call map = {.object = c.result[0], .a = c.result[1], .b = KIND_MAP, .in = &in,
                                 .in_size = sizeof in};
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
            bool valued = i == 0;
            in.request.key_size = wrong[k][0];
            in.request.value_size = wrong[k][1];
            if (!valued && in.request.key_size <= 16)
                continue; /* the value is none of its business */
            c = map;
            CHECK(methods[i](s->actor.lane, &c) == ACP_E_ARGUMENT);
        }
        in.request.key_size = in.request.value_size = 8;
        c = map;
        call(s, &c, methods[i]);
    }
}

int main(void)
{
    struct stage s = {0};
    stage_start(&s, crash_memory(48 << 20));
    calls_meet_a_stripe_that_is_held(&s);
    a_request_brings_what_it_says(&s);
    calls_of_another_kind(&s);
    actor_end(&s.actor);
    return 0;
}
