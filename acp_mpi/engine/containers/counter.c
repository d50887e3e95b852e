/* Counters. */
#include "containers/counter.h"
#include "containers/container.h"
#include "core/backoff.h"
#include "memory/heap.h"
#include "memory/transaction.h"

static int counter_create(struct hold *hold, struct container *container, const uint64_t words[4])
{
    transaction_set(hold, &((struct counter *)container)->value, words[0]);
    return ACP_OK;
}

const struct container_type counter_type = {.size = sizeof(struct counter), .create = counter_create};

int counter_method_add(acp_lane *lane, struct acp_call *c)
{
    struct heap *h;
    struct counter *k = (struct counter *)container_find(lane, c, KIND_COUNTER, &h);
    if (unlikely(!k))
        return lane->fault.status;
    if (unlikely(lane->others_count))
        backoff_contended(lane, &k->value, 1);
    backoff_visit(lane, &k->value);
    uint64_t found = c->result[0] = __atomic_fetch_add(&k->value, c->b, __ATOMIC_ACQ_REL);
    lane->others_count = found != lane->counted;
    lane->counted = found + c->b;
    if (likely(container_lives(&k->head, c)))
        return ACP_OK;
    __atomic_fetch_sub(&k->value, c->b, __ATOMIC_ACQ_REL); /* the head may belong to another counter by now */
    return container_gone(lane, c);
}

int counter_method_set(acp_lane *lane, struct acp_call *c)
{
    struct hold hold;
    struct container *container;
    int rc = container_enter(&hold, lane, c, KIND_COUNTER, &container);
    if (rc != ACP_OK)
        return rc;
    c->result[0] = __atomic_exchange_n(&((struct counter *)container)->value, c->b,
                                       __ATOMIC_ACQ_REL);
    transaction_leave(&hold);
    return ACP_OK;
}
