/* Spare nodes of a list: short lists have none, longer ones take a row, and a heap without room for a row gives one. */
#include "support/stage.h"
#include "containers/container.h"
#include "containers/container_head.h"
#include "containers/list.h"
#include "containers/list_call.h"
#include "containers/list_insert.h"
#include "core/method.h"
#include "memory/heap.h"

#define MANY 60u

static struct acp_call list_new(struct stage *s)
{
    const struct container_plan plan = {{0}};
    struct acp_call c = {.object = acp_ga(0, 0, 64), .a = KIND_LIST, .in = &plan, .in_size = sizeof plan};
    call(s, &c, container_head_method_create);
    return (struct acp_call){.object = c.result[0], .a = c.result[1]};
}

static void put(struct stage *s, struct acp_call list, uint64_t count)
{
    struct {
        struct list_put put;
        uint64_t words[MANY];
    } in = {.put.width = 8};
    list.b = LIST_BACK;
    list.in = &in;
    list.in_size = sizeof in.put + 8 * count;
    call(s, &list, list_insert_method_put);
    CHECK(list.result[0] == LIST_DONE && list.result[1] == count);
}

static uint64_t spares(const struct stage *s, const struct acp_call *list)
{
    const struct heap *h = &s->actor.heap;
    const struct list *l = (const struct list *)(const void *)(h->base + acp_ga_offset(list->object));
    return l->spare ? heap_kept(h, l->spare)->count : 0;
}

/* At the front; false: it was empty. */
static bool take(struct stage *s, struct acp_call list)
{
    uint64_t out[40];
    list.b = LIST_FRONT | 1 << 8 | (uint64_t)LIST_FETCH << 32;
    list.out = out;
    list.out_room = sizeof out;
    call(s, &list, list_insert_method_take);
    CHECK(list.result[0] == LIST_DONE || list.result[0] == LIST_EMPTY);
    return list.result[0] == LIST_DONE;
}

static void one_by_one(struct stage *s)
{
    struct acp_call list = list_new(s);
    for (uint64_t size = 0; size < 2 * HEAP_ROW; size++) { /* before */
        put(s, list, 1);
        CHECK(spares(s, &list) == (size < HEAP_ROW ? 0 : 2 * HEAP_ROW - 1 - size));
    }
}

/* Those of one call count as if they were there. */
static void together(struct stage *s)
{
    struct acp_call few = list_new(s), many = list_new(s);
    put(s, few, HEAP_ROW - 1);
    put(s, many, HEAP_ROW + 1);
    CHECK(spares(s, &few) == 0 && spares(s, &many) == HEAP_ROW - 1);
}

/* What was the size of a list says nothing of it when it is short. */
static void short_again(struct stage *s)
{
    struct acp_call list = list_new(s);
    put(s, list, 1);
    put(s, list, MANY);
    while (take(s, list))
        continue;
    uint64_t left = spares(s, &list);
    CHECK(left <= HEAP_ROW + 1);
    for (uint64_t i = 0; i <= left; i++)
        put(s, list, 1);
    CHECK(spares(s, &list) == 0 || left >= HEAP_ROW);
}

/* A row goes back as soon as there are more than an eighth of the list and a row, and not before. */
static void as_many_as_may_stay(struct stage *s)
{
    struct acp_call list = list_new(s);
    uint32_t rows = 0;
    put(s, list, 1);
    put(s, list, MANY);
    put(s, list, MANY);
    for (uint64_t size = 2 * MANY; size > 0; size--) { /* afterwards */
        uint64_t before = spares(s, &list), most = size / 8 + HEAP_ROW;
        CHECK(take(s, list));
        rows += before + 1 > most;
        CHECK(before + 1 > most ? spares(s, &list) <= most : spares(s, &list) == before + 1);
    }
    CHECK(rows > 2);
}

static void without_room_for_a_row(struct stage *s)
{
    struct acp_call list = list_new(s);
    struct heap *h = &s->actor.heap;
    uint64_t nodes[8], rest;
    put(s, list, HEAP_ROW);
    for (uint32_t i = 0; i < 8; i++)
        CHECK(heap_take(s->actor.lane, h, LIST_NODE + 8, &nodes[i], 0) == ACP_OK);
    for (uint64_t size = CRASH_SPAN; size >= 16; size /= 2)
        while (heap_take(s->actor.lane, h, size, &rest, 0) == ACP_OK)
            ;
    for (uint32_t i = 1; i < 8; i += 2) /* apart from each other */
        CHECK(heap_give(s->actor.lane, h, &nodes[i], 0) == ACP_OK);
    for (uint32_t i = 0; i < 4; i++) {
        put(s, list, 1);
        CHECK(spares(s, &list) == 0);
    }
}

int main(void)
{
    struct stage s = {0};
    stage_start(&s, crash_memory(8 << 20));
    one_by_one(&s);
    together(&s);
    short_again(&s);
    as_many_as_may_stay(&s);
    without_room_for_a_row(&s);
    actor_end(&s.actor);
    return 0;
}
