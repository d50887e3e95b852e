/* Lists: entering one, and its links. */
#include "containers/list.h"
#include "containers/container.h"
#include "containers/list_bulk.h"
#include "containers/list_call.h"
#include "containers/list_nodes.h"
#include "core/lane.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#include <string.h>

bool list_has(const struct heap *h, const struct list *list, struct list_id id)
{
    const struct list_node *n = list_node(h, id.node);
    return n && id.number && list_number(list, word_load(&n->name)) == id.number;
}

/* Heads are never given back: of a list and a number no other makes the same. */
static uint64_t number_mixed(const struct hold *hold, const struct list *list, uint64_t number)
{
    uint64_t offset = (uint64_t)((const unsigned char *)list - hold->heap->base);
    uint64_t x = offset * 0x9e3779b97f4a7c15ull + number;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return (x ^ x >> 31) & LIST_NUMBERS;
}

uint64_t list_new_era(const struct hold *hold, struct list *list)
{
    return number_mixed(hold, list, ++list->names);
}

uint64_t list_apart(const struct hold *hold, const struct list *one, const struct list *other)
{
    return number_mixed(hold, one, 0) ^ number_mixed(hold, other, 0);
}

int list_done(struct hold *hold, const struct acp_call *c, int rc)
{
    if (unlikely(rc == ACP_E_DAMAGED))
        hold->lane->fault = (acp_fault){.status = rc, .ga = c->object,
                                        .rank = acp_ga_rank(c->object)};
    transaction_leave(hold);
    return rc;
}

/* A change of two lists was under way when a process died: the other one's journal comes first, and the moving
 * elements, which look like elements of this one until they have other numbers. */
static int mend_partner(struct hold *hold, struct list *list)
{
    struct hold other;
    struct heap *h = hold->heap;
    if (list->partner % 16 || !container_inside(h, list->partner, sizeof *list))
        return ACP_E_DAMAGED;
    struct list *partner = (struct list *)(void *)(h->base + list->partner);
    int rc = transaction_enter(&other, hold->lane, &partner->head.section, h, HEAP_PATIENCE_NS);
    if (rc != ACP_OK)
        return rc;
    if (partner->job.kind)
        list_bulk_finish(&other, partner); /* damage that it finds is not here */
    transaction_leave(&other);
    transaction_store(&list->partner, 0);
    return ACP_OK;
}

int list_mend(struct hold *hold, struct list *l)
{
    int rc = ACP_OK;
    if (unlikely(l->partner))
        rc = mend_partner(hold, l);
    if (unlikely(rc == ACP_OK && l->job.kind))
        rc = list_bulk_finish(hold, l);
    return unlikely(rc == ACP_OK && !list_nodes_settled(hold)) ? ACP_E_BUSY : rc;
}

int list_enter(struct hold *hold, acp_lane *lane, const struct acp_call *c, struct list **list)
{
    struct container *container;
    int rc = container_enter(hold, lane, c, KIND_LIST, &container);
    *list = (struct list *)container;
    if (likely(rc == ACP_OK) && unlikely((rc = list_mend(hold, *list)) != ACP_OK))
        list_done(hold, c, rc);
    return rc;
}

static int list_create(struct hold *hold, struct container *container, const uint64_t words[4])
{
    struct list *l = (struct list *)container;
    (void)words;
    transaction_set(hold, &l->first, 0);
    transaction_set(hold, &l->last, 0);
    transaction_set(hold, &l->size, 0);
    transaction_set(hold, &l->changes, 0);
    transaction_set(hold, &l->orders, 0);
    transaction_set(hold, &l->dead, 0);
    transaction_set(hold, &l->spare, 0);
    transaction_set(hold, &l->spare_size, 0);
    transaction_set(hold, &l->partner, 0);
    transaction_set(hold, &l->job.kind, JOB_NONE);
    transaction_set(hold, &l->era, list_new_era(hold, l));
    return ACP_OK;
}

/* `destroy`: blocks of other ranks have been given back before. */
static int empty(struct hold *hold, struct container *container)
{
    struct list *l = (struct list *)container;
    acp_ga_t elsewhere;
    int rc = list_mend(hold, l);
    if (rc == ACP_OK)
        rc = list_bulk_clear(hold, l);
    while (rc == ACP_OK && l->dead)
        rc = list_nodes_settled(hold) ? list_bulk_bury(hold, l, &elsewhere) : ACP_E_BUSY;
    while (rc == ACP_OK && l->spare)
        rc = list_nodes_settled(hold) ? list_nodes_trim(hold, l) : ACP_E_BUSY;
    return rc == ACP_OK && !list_nodes_settled(hold) ? ACP_E_BUSY : rc;
}

const struct container_type list_type = {
    .size = sizeof(struct list), .create = list_create, .clear = empty};

int list_link(struct hold *hold, struct list *l, uint64_t first, uint64_t last, uint64_t count,
              uint64_t before)
{
    const struct heap *h = hold->heap;
    struct list_node *head = list_node(h, first), *tail = first == last ? head : list_node(h, last);
    struct list_node *next = before ? list_node(h, before) : NULL;
    uint64_t behind = next ? next->previous : l->last;
    struct list_node *previous = behind ? list_node(h, behind) : NULL;
    if (unlikely(!head || !tail || (before && !next) || (behind && !previous)))
        return ACP_E_DAMAGED;
    const struct setting settings[] = {{&head->previous, behind},
                                       {&tail->next, before},
                                       {previous ? &previous->next : &l->first, first},
                                       {next ? &next->previous : &l->last, last},
                                       {&l->size, l->size + count},
                                       {&l->changes, l->changes + 1}};
    transaction_set_all(hold, settings, sizeof settings / sizeof *settings);
    return ACP_OK;
}

int list_unlink(struct hold *hold, struct list *l, uint64_t first, uint64_t last, uint64_t count)
{
    const struct heap *h = hold->heap;
    const struct list_node *head = list_node(h, first);
    const struct list_node *tail = first == last ? head : list_node(h, last);
    if (unlikely(!head || !tail))
        return ACP_E_DAMAGED;
    uint64_t behind = head->previous, before = tail->next;
    struct list_node *previous = behind ? list_node(h, behind) : NULL;
    struct list_node *next = before ? list_node(h, before) : NULL;
    if (unlikely((behind && !previous) || (before && !next)))
        return ACP_E_DAMAGED;
    const struct setting settings[] = {{previous ? &previous->next : &l->first, before},
                                       {next ? &next->previous : &l->last, behind},
                                       {&l->size, l->size - count},
                                       {&l->changes, l->changes + 1}};
    transaction_set_all(hold, settings, sizeof settings / sizeof *settings);
    return ACP_OK;
}
