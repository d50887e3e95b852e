/* Lists: every operation against an array of what should be in them, and after processes were
 * killed at any store of one: all of it has happened, or nothing, and no memory is lost.
 *
 * CRASHES=10000: so many processes; without it few enough for every day. */
#include "support/crash.h"
#include "support/list_model.h"
#include "support/stage.h"
#include "containers/container.h"
#include "containers/container_head.h"
#include "containers/list.h"
#include "containers/list_bulk.h"
#include "containers/list_call.h"
#include "containers/list_insert.h"
#include "containers/list_sort.h"
#include "containers/list_splice.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#define FAR 400u /* stores before a death */

struct book {
    struct record record;
    struct list_id lists[LISTS]; /* where, and the serial */
};

static struct acp_call call_of(const struct book *b, uint32_t list, uint64_t argument)
{
    return (struct acp_call){.object = b->lists[list].node, .a = b->lists[list].number,
                             .b = argument};
}

static struct list *list_of(const struct stage *s, const struct book *b, uint32_t i)
{
    return (struct list *)(void *)(s->actor.heap.base + acp_ga_offset(b->lists[i].node));
}

static struct list_id id_of(const struct stage *s, const struct book *b, uint32_t i, uint64_t at)
{
    const struct list *l = list_of(s, b, i);
    uint64_t node = l->first;
    while (at-- && node)
        node = list_node(&s->actor.heap, node)->next;
    const struct list_node *n = node ? list_node(&s->actor.heap, node) : NULL;
    return (struct list_id){node, n ? list_number(l, n->name) : 0};
}

/* Elements of 8 to 320 bytes, all words the same; most of them as long as each other. */
static uint64_t width_of(uint64_t value)
{
    return value % 8 ? 24 : 8 + value / 8 % 40 * 8;
}

static void put(struct stage *s, const struct book *b, const struct step *t, uint64_t where)
{
    uint64_t in[(sizeof(struct list_put) + 320) / 8], width = width_of(t->value);
    struct list_put head = {id_of(s, b, t->list, t->at), width};
    struct acp_call c = call_of(b, t->list, where);
    memcpy(in, &head, sizeof head);
    for (uint64_t i = 0; i < width / 8; i++)
        in[sizeof head / 8 + i] = t->value;
    c.in = in;
    c.in_size = sizeof head + width;
    call(s, &c, list_insert_method_put);
    CHECK(c.result[0] == LIST_DONE && c.result[1] == 1);
}

static void put_many(struct stage *s, const struct book *b, const struct step *t)
{
    uint64_t in[(sizeof(struct list_put) + TOGETHER * (sizeof(struct list_record) + 320)) / 8];
    uint64_t values[TOGETHER], count = together(t->value, values), *at = in;
    struct list_put head = {id_of(s, b, t->list, t->at), 0};
    struct acp_call c = call_of(b, t->list, LIST_AT);
    memcpy(at, &head, sizeof head);
    at += sizeof head / 8;
    for (uint64_t i = 0; i < count; i++) {
        struct list_record r = {.size = width_of(values[i])};
        memcpy(at, &r, sizeof r);
        at += sizeof r / 8;
        for (uint64_t j = 0; j < r.size / 8; j++)
            *at++ = values[i];
    }
    c.in = in;
    c.in_size = (uint64_t)(at - in) * 8;
    call(s, &c, list_insert_method_put);
    CHECK(c.result[0] == LIST_DONE && c.result[1] == count);
}

static void take(struct stage *s, const struct book *b, const struct step *t, uint64_t where)
{
    uint64_t out[200];
    struct list_id id = id_of(s, b, t->list, t->at);
    struct acp_call c = call_of(b, t->list, where | 1 << 8 | (uint64_t)LIST_FETCH << 32);
    c.out = out;
    c.out_room = sizeof out;
    if (where == LIST_AT) {
        c.in = &id;
        c.in_size = sizeof id;
    }
    call(s, &c, list_insert_method_take);
    CHECK(c.result[0] == LIST_DONE && out[0] == 1);
}

static void reorder(struct stage *s, const struct book *b, const struct step *t)
{
    const struct list *l = list_of(s, b, t->list);
    uint64_t in[sizeof(struct list_order) / 8 + MOST], *order = in + sizeof(struct list_order) / 8;
    for (uint64_t i = 0; i < l->size; i++)
        order[i] = id_of(s, b, t->list, i).node;
    struct list_order head = {.changes = l->changes, .count = l->size};
    head.kept = shuffle(order, l->size, t->value);
    memcpy(in, &head, sizeof head);
    struct acp_call c = call_of(b, t->list, 0);
    c.in = in;
    c.in_size = sizeof head + head.count * 8;
    call(s, &c, list_sort_method_order);
    CHECK(c.result[0] == LIST_DONE);
}

static void span(struct stage *s, const struct book *b, const struct step *t,
                 int (*method)(acp_lane *, struct acp_call *))
{
    bool moves = method == list_splice_method_splice && t->kind == MOVE;
    uint32_t from = t->kind == SPLICE || t->kind == SWAP ? !t->list : t->list;
    uint64_t first = t->kind == SPLICE ? t->to : t->at;
    struct list_span in = {.at = id_of(s, b, t->list, moves ? t->to : t->at),
                           .first = id_of(s, b, from, first),
                           .last = id_of(s, b, from, first + t->count),
                           .from = b->lists[from].node, .from_serial = b->lists[from].number,
                           .changes = UINT64_MAX};
    struct acp_call c = call_of(b, t->list, 0);
    c.in = &in;
    c.in_size = sizeof in;
    call(s, &c, method);
    CHECK(c.result[0] == LIST_DONE);
}

static void bury(struct stage *s, const struct book *b, uint32_t list)
{
    uint64_t out[8];
    struct acp_call c = call_of(b, list, 0);
    c.out = out;
    c.out_room = sizeof out;
    do
        call(s, &c, list_bulk_method_bury);
    while (c.result[1]);
    CHECK(c.out_size == 0);
}

static void perform(struct stage *s, const struct book *b, uint64_t k)
{
    uint64_t size[LISTS] = {list_of(s, b, 0)->size, list_of(s, b, 1)->size};
    struct step t = step_of(k, size);
    struct acp_call c = call_of(b, t.list, 0);
    switch (t.kind) {
    case PUSH:
        put(s, b, &t, at_front(t.value) ? LIST_FRONT : LIST_BACK);
        break;
    case INSERT:
        put(s, b, &t, LIST_AT);
        break;
    case EXTEND:
        put_many(s, b, &t);
        break;
    case POP:
        take(s, b, &t, at_front(t.value) ? LIST_FRONT : LIST_BACK);
        break;
    case ERASE:
        take(s, b, &t, LIST_AT);
        break;
    case RANGE:
        span(s, b, &t, list_bulk_method_erase);
        break;
    case CLEAR:
        call(s, &c, list_bulk_method_clear);
        break;
    case ORDER:
        reorder(s, b, &t);
        break;
    case REVERSE:
        call(s, &c, list_sort_method_reverse);
        break;
    case SPLICE:
    case MOVE:
        if (t.count) /* else it would mean all */
            span(s, b, &t, list_splice_method_splice);
        break;
    case SWAP:
        t.at = t.count = t.to = 0;
        span(s, b, &t, list_splice_method_swap);
        break;
    default:
        bury(s, b, t.list);
        break;
    }
}

static void mend_list(struct stage *s, const struct book *b, uint32_t i)
{
    struct hold hold;
    struct list *l;
    struct acp_call c = call_of(b, i, 0);
    CHECK(list_enter(&hold, s->actor.lane, &c, &l) == ACP_OK);
    transaction_leave(&hold);
    check_section(&l->head.section);
    CHECK(!l->partner && !l->job.kind);
}

/* What is kept for nodes is of one size, and counted; how many. */
static uint64_t spares(const struct stage *s, const struct list *l)
{
    const struct heap *h = &s->actor.heap;
    uint64_t count = 0, left = l->spare ? heap_kept(h, l->spare)->count : 0;
    for (uint64_t at = l->spare; at; at = heap_kept(h, at)->next, count++) {
        CHECK(count < MOST && heap_kept(h, at)->count == left - count);
        CHECK(heap_block_size(h, at - BLOCK_HEAD) - l->spare_size <= BLOCK_HEAD);
    }
    CHECK(count == left && count <= MOST / 8 + 2 * HEAP_ROW);
    return count;
}

/* Everything that must hold of a list, and whether it is as foreseen; counts its nodes. */
static bool agrees(struct stage *s, const struct book *b, const struct model *m, uint32_t i,
                   uint64_t *nodes)
{
    const struct list *l = list_of(s, b, i);
    uint64_t at = l->first, previous = 0, count = 0;
    bool good = l->size == m->size[i];
    for (; at; count++) {
        const struct list_node *n = list_node(&s->actor.heap, at);
        CHECK(n && n->previous == previous && n->name >> 16 && count < MOST);
        CHECK(list_number(l, n->name));
        uint64_t size = list_nameless(n->name);
        good = good && size == width_of(m->values[i][count]);
        for (uint64_t j = 0; good && j < size / 8; j++)
            good = ((const uint64_t *)(const void *)(n + 1))[j] == m->values[i][count];
        previous = at;
        at = n->next;
    }
    CHECK(count == l->size && l->last == previous);
    *nodes += count;
    for (at = l->dead; at; at = list_node(&s->actor.heap, at)->next)
        ++*nodes;
    *nodes += spares(s, l);
    return good;
}

static bool all_agree(struct stage *s, const struct book *b, const struct model *m,
                      uint64_t *nodes)
{
    *nodes = 0;
    bool first = agrees(s, b, m, 0, nodes);
    return agrees(s, b, m, 1, nodes) && first;
}

static void lists_create(struct stage *s, struct book *b)
{
    uint64_t plan[4] = {0};
    for (uint32_t i = 0; i < LISTS; i++) {
        struct acp_call c = {.object = acp_ga(0, 0, 64), .a = KIND_LIST, .in = plan,
                             .in_size = sizeof plan};
        call(s, &c, container_head_method_create);
        b->lists[i] = (struct list_id){c.result[0], c.result[1]};
    }
    b->record.begun = b->record.ended = 0;
}

static void whole_life(struct book *b, uint64_t steps)
{
    static struct model m;
    struct stage s = {0};
    uint64_t nodes, kept, before[LISTS] = {0}, rows = 0, trims = 0;
    stage_start(&s, crash_memory(48 << 20));
    lists_create(&s, b);
    for (uint64_t k = 1; k <= steps; k++) {
        perform(&s, b, k);
        foresee(&m, k);
        CHECK(all_agree(&s, b, &m, &nodes));
        for (uint32_t i = 0; i < LISTS; i++) {
            kept = spares(&s, list_of(&s, b, i));
            rows += kept + 1 == before[i] + HEAP_ROW;
            trims += kept + 4 < before[i];
            before[i] = kept;
        }
    }
    CHECK(rows > steps / 100 && trims > steps / 100);
    CHECK(check_heap(&s.actor) == LISTS + nodes);
    for (uint32_t i = 0; i < LISTS; i++) {
        struct acp_call c = call_of(b, i, 0);
        call(&s, &c, container_head_method_destroy);
        CHECK(list_bulk_method_clear(s.actor.lane, &c) == ACP_E_DESTROYED);
    }
    CHECK(check_heap(&s.actor) == LISTS); /* heads are kept for the next ones */
    actor_end(&s.actor);
}

static struct stage *stage_of(struct actor *a)
{
    static struct stage stage; /* of a child */
    if (!stage.generation)
        stage_set(&stage, a);
    return &stage;
}

static void act(struct actor *a, struct record *record, uint64_t k)
{
    perform(stage_of(a), (struct book *)record, k);
}

static void mend_lists(struct actor *a, struct record *record)
{
    for (uint32_t i = 0; i < LISTS; i++)
        mend_list(stage_of(a), (struct book *)record, i);
}

static const struct roles roles = {act, mend_lists, 60, 300000};

/* The one that is entered first is whole before anybody has entered the other. */
static void settle(struct stage *s, struct book *b, struct model *m, uint64_t *done, uint32_t first)
{
    static struct model next;
    uint64_t nodes = 0;
    mend(&s->actor, &s->actor.heap.head->section);
    mend_list(s, b, first);
    while (*done < b->record.ended)
        foresee(m, ++*done);
    next = *m;
    if (b->record.begun > b->record.ended)
        foresee(&next, b->record.begun);
    CHECK(agrees(s, b, m, first, &nodes) || agrees(s, b, &next, first, &nodes));
    mend_list(s, b, !first);
    if (!all_agree(s, b, m, &nodes)) {
        *m = next;
        *done = b->record.ended = b->record.begun;
    }
    CHECK(all_agree(s, b, m, &nodes));
    CHECK(check_heap(&s->actor) == LISTS + nodes);
}

static void deaths(struct book *b, uint64_t crashes)
{
    static struct model m;
    struct stage s = {0};
    int fd = crash_memory(48 << 20);
    uint64_t state = 3, done = 0, killed = 0, jobs = 0;
    stage_start(&s, fd);
    lists_create(&s, b);
    for (uint64_t i = 0; i < crashes; i++) {
        killed += was_killed(worker_start(fd, &roles, &b->record, 1 + i % FAR, roles.steps));
        for (uint32_t list = 0; list < LISTS; list++)
            jobs |= 1ull << list_of(&s, b, list)->job.kind;
        for (uint64_t more = crash_random(&state) % 4 / 2; more; more--)
            mender(fd, &roles, &b->record, 1 + crash_random(&state) % 60);
        settle(&s, b, &m, &done, (uint32_t)(i % 2));
    }
    CHECK(killed > crashes / 2 && jobs == (2ull << JOB_GATHER) - 1); /* in each of them */
    actor_end(&s.actor);
    close(fd);
}

/* Whoever has a cursor of one of the elements that were moving uses it before anybody has entered the
 * list that they move to. */
static void moving_under_a_cursor(struct book *b)
{
    bool died = true;
    uint64_t stays = 0, moves = 0;
    for (uint64_t fault = 1; died; fault++) {
        uint64_t out[200], nodes;
        struct stage s = {0};
        struct model m = {.size = {0}};
        int fd = crash_memory(48 << 20);
        stage_start(&s, fd);
        lists_create(&s, b);
        for (uint64_t i = 1; i <= 4; i++)
            put(&s, b, &(struct step){.list = 1, .value = i}, LIST_BACK);
        struct list_id second = id_of(&s, b, 1, 1);
        pid_t child = child_start();
        if (!child) {
            struct stage there = {0};
            stage_start(&there, fd);
            fault_left = fault;
            span(&there, b, &(struct step){.kind = SPLICE, .count = 3}, list_splice_method_splice);
            _exit(0);
        }
        died = was_killed(child);
        struct acp_call c = call_of(b, 1, LIST_AT | 1 << 8 | (uint64_t)LIST_FETCH << 32);
        c.in = &second;
        c.in_size = sizeof second;
        c.out = out;
        c.out_room = sizeof out;
        call(&s, &c, list_insert_method_take);
        bool stayed = c.result[0] == LIST_DONE;
        for (uint64_t i = 1; i <= 4; i++) {
            uint32_t list = stayed || i == 4;
            if (!stayed || i != 2)
                m.values[list][m.size[list]++] = i;
        }
        for (uint32_t i = 0; i < LISTS; i++)
            mend_list(&s, b, i);
        CHECK(all_agree(&s, b, &m, &nodes) && check_heap(&s.actor) == LISTS + nodes);
        stays += stayed;
        moves += !stayed;
        actor_end(&s.actor);
        close(fd);
    }
    CHECK(stays > 3 && moves > 3);
}

int main(void)
{
    struct book *b = shared_memory(sizeof *b);
    whole_life(b, 20000);
    moving_under_a_cursor(b);
    memset(b, 0, sizeof *b);
    deaths(b, crashes_wanted(1000));
    return 0;
}
