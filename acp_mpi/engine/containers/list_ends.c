/* One short element at an end of a list, the most frequent change of lists: its node comes from the spare blocks and
 * goes back there. The change is a job, because that takes half as many stores as a journal. Every other case takes
 * the general way, which does the same. */
#include "containers/list_ends.h"
#include "containers/container.h"
#include "containers/list.h"
#include "containers/list_call.h"
#include "containers/list_nodes.h"
#include "memory/heap.h"
#include "memory/transaction.h"

#define FEW ((uint64_t)64) /* bytes */

/* An element comes to an end of the list, or goes from there. */
struct end_change {
    struct list *list;
    bool front;
    uint64_t at, beside; /* its node; the one beside it, 0: none */
    struct list_node *n, *other;
};

static inline bool end_find(const struct hold *hold, struct end_change *e)
{
    e->n = list_node(hold->heap, e->at);
    e->other = e->beside ? list_node(hold->heap, e->beside) : NULL;
    return likely(e->n && (!e->beside || e->other));
}

static inline uint64_t *end_word(const struct end_change *e)
{
    return e->front ? &e->list->first : &e->list->last;
}

/* The word of its neighbour that names the element; without a neighbour, of the list. */
static inline uint64_t *inner_of(const struct end_change *e)
{
    if (e->other)
        return e->front ? &e->other->previous : &e->other->next;
    return e->front ? &e->list->last : &e->list->first;
}

/* From the kind of the job on it happens. `size`: of the list, then. */
static inline void decide(struct hold *hold, const struct end_change *e, enum list_job_kind kind,
                          uint64_t size)
{
    struct list *l = e->list;
    transaction_open(hold);
    transaction_store(&l->job.first, e->at);
    transaction_store(&l->job.count, size);
    transaction_store(&l->job.kind, kind);
}

static inline void end_changed(struct hold *hold, const struct end_change *e, uint64_t size)
{
    struct list *l = e->list;
    transaction_store(&l->size, size);
    transaction_store(&l->changes, l->changes + 1); /* once more if another one finishes it: no harm */
    transaction_store(&l->job.kind, JOB_NONE);
    transaction_close(hold);
}

/* When this is repeated the words of its node are overwritten already: the list has their former values. */
static inline void finish_put(struct hold *hold, const struct end_change *e, uint64_t spare,
                              uint64_t size)
{
    transaction_store(&e->list->spare, spare);
    transaction_store(&e->n->next, e->front ? e->beside : 0);
    transaction_store(&e->n->previous, e->front ? 0 : e->beside);
    transaction_store(inner_of(e), e->at);
    transaction_store(end_word(e), e->at);
    end_changed(hold, e, size);
}

/* `spares`: number of spare blocks with the node's included; 0: it is one of them already. */
static inline void finish_take(struct hold *hold, const struct end_change *e, uint64_t spares,
                               uint64_t size)
{
    struct list *l = e->list;
    struct heap_kept *kept = heap_kept(hold->heap, e->at);
    transaction_store(inner_of(e), 0);
    transaction_store(end_word(e), e->beside);
    transaction_store(&e->n->name, 0);
    if (likely(spares)) {
        transaction_store(&kept->count, spares);
        transaction_store(&kept->next, l->spare);
        transaction_store(&l->spare, e->at);
    }
    end_changed(hold, e, size);
}

int list_ends_finish(struct hold *hold, struct list *l)
{
    enum list_job_kind kind = (enum list_job_kind)l->job.kind;
    struct end_change e = {.list = l, .at = l->job.first,
                           .front = kind == JOB_PUT_FRONT || kind == JOB_TAKE_FRONT};
    uint64_t end = *end_word(&e);
    bool kept = l->spare == e.at;
    if (end_find(hold, &e) && end == e.at) /* its node comes last, or is still there */
        end = e.front ? e.n->next : e.n->previous;
    e.beside = end;
    if (!end_find(hold, &e))
        return ACP_E_DAMAGED;
    transaction_open(hold);
    if (kind == JOB_PUT_FRONT || kind == JOB_PUT_BACK)
        finish_put(hold, &e, kept ? heap_kept(hold->heap, e.at)->next : l->spare, l->job.count);
    else
        finish_take(hold, &e, kept ? 0 : list_nodes_spares(hold, l) + 1, l->job.count);
    return ACP_OK;
}

bool list_ends_put(struct hold *hold, struct list *l, bool front, const void *data, uint64_t size,
                   struct list_id *id)
{
    struct end_change e = {.list = l, .front = front, .at = l->spare,
                           .beside = front ? l->first : l->last};
    if (!e.at || size > FEW || l->spare_size != heap_size_for(sizeof(struct list_node) + size))
        return false;
    if (!end_find(hold, &e))
        return false;
    uint64_t number = list_new_number(l), spare = heap_kept(hold->heap, e.at)->next;
    transaction_store(&e.n->name, list_name(l, number, size)); /* not visible yet */
    words_in(e.n + 1, data, size);
    size = l->size + 1;
    decide(hold, &e, front ? JOB_PUT_FRONT : JOB_PUT_BACK, size);
    finish_put(hold, &e, spare, size);
    id->node = e.at;
    id->number = number;
    return true;
}

bool list_ends_take(struct hold *hold, struct list *l, struct acp_call *c, bool front)
{
    struct heap *h = hold->heap;
    struct end_change e = {.list = l, .front = front, .at = front ? l->first : l->last};
    struct list_node *n = list_node(h, e.at);
    if (unlikely(!n || (uintptr_t)c->out % 8) || list_nameless(n->name) > FEW)
        return false;
    e.beside = front ? n->next : n->previous;
    uint64_t width = list_nameless(n->name), length = 8 * words_of(width);
    uint64_t number = list_number(l, n->name), size = l->size - 1;
    uint64_t block = word_load(&heap_block(h, e.at - BLOCK_HEAD)->size) & ~BLOCK_FLAGS;
    uint64_t head = sizeof(struct list_answer) + sizeof(struct list_record);
    if (!end_find(hold, &e) || !container_inside(h, e.at + sizeof *n, length) || !l->spare_size ||
        block - l->spare_size > BLOCK_HEAD || c->out_room < head + length)
        return false;
    uint64_t *out = c->out;
    uint64_t spares = list_nodes_spares(hold, l) + 1;
    words_out((unsigned char *)out + head, n + 1, length);
    decide(hold, &e, front ? JOB_TAKE_FRONT : JOB_TAKE_BACK, size);
    finish_take(hold, &e, spares, size);
    const uint64_t words[] = {1, l->changes, l->orders, size, 0, 0, e.beside,
                              e.other ? list_number(l, e.other->name) : 0, e.at, number, width,
                              0, 0};
    static_assert(sizeof words == sizeof(struct list_answer) + sizeof(struct list_record), "both");
#pragma GCC unroll 13
    for (uint32_t i = 0; i < sizeof words / 8; i++) /* word by word: a processor forwards those */
        __atomic_store_n(out + i, words[i], __ATOMIC_RELAXED);
    c->out_size = sizeof words + length;
    if (spares > size / 8 + HEAP_ROW && list_nodes_settled(hold))
        list_nodes_trim(hold, l);
    return true;
}
