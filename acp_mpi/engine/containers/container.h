/* The common head of all containers, in the heap of one rank, and their common rules.
 *
 * A handle is the address of the head and its serial. A head never goes back to the heap, but is spared for the next
 * container of its kind: a caller that waits for the lock of a container that is being destroyed still finds a lock,
 * and sees another serial. One store ends the serial, before anything is given back; after a death in the middle the
 * next caller that destroys the container goes on. */
#ifndef ACP_CONTAINER_H
#define ACP_CONTAINER_H

#include "memory/heap.h"
#include "memory/transaction.h"
#include "memory/translate.h"

#include <assert.h>

enum container_kind {
    KIND_ANY, KIND_COUNTER, KIND_DEQUE, KIND_LIST, KIND_MAP, KIND_MULTISET, KIND_SET, KIND_VECTOR,
    KIND_WORKSPACE, KINDS
};

#define SERIAL_LIVES ((uint64_t)1 << 63) /* cleared: the container is being destroyed */

struct container {
    uint64_t serial; /* of this container and no other; 0: destroyed */
    uint64_t kind;
    uint64_t era;   /* the nonce of the heap: another after a reset */
    uint64_t spare; /* the next one of this kind that is destroyed */
    uint64_t note;  /* a block: its creator's description of its types, for other ranks */
    uint64_t note_size;
    struct section section;
};

/* Type of a container. `make`, if any, prepares a new head once, its own sections above all. In the section of the
 * head, `create` sets all but the common part within a change that is under way, and `clear`, if there is any, gives
 * back all blocks in changes of its own. */
struct container_type {
    uint64_t size; /* of the head */
    void (*make)(struct container *container);
    int (*create)(struct hold *hold, struct container *container, const uint64_t words[4]);
    int (*clear)(struct hold *hold, struct container *container);
};

/* The head that may lie at an address; NULL, with a fault. */
static inline struct container *container_place(acp_lane *lane, acp_ga_t ga, struct heap **heap)
{
    const struct translation *t = translate_find(lane, ROLE_SRC, ga, sizeof(struct container));
    if (unlikely(!t || t->kind != SEGMENT_HEAP || ga % 16)) {
        if (t)
            lane_fail(lane, ACP_E_DESTROYED, ga, 0);
        return NULL;
    }
    *heap = atomic_load_explicit(&t->peer->memory.heap, memory_order_acquire);
    return (struct container *)(void *)(t->base + (ga - t->low));
}

/* The container that a call names by object and `a`, of that kind; NULL, with a fault. Its serial may change as soon
 * as this returns. */
struct container *container_find(acp_lane *lane, const struct acp_call *call, uint64_t kind,
                                 struct heap **heap);
bool container_lives(const struct container *container, const struct acp_call *call);
int container_gone(acp_lane *lane, const struct acp_call *call); /* the status, with its fault */
/* container_find, and enters its section. */
int container_enter(struct hold *hold, acp_lane *lane, const struct acp_call *call, uint64_t kind,
                    struct container **container);

/* Is [at, at + size) inside the heap? Values in shared memory are not trusted. */
static inline bool container_inside(const struct heap *h, uint64_t at, uint64_t size)
{
    return size <= h->span && at <= h->span - size && at >= h->first;
}

static inline acp_ga_t container_ga(const struct acp_call *call, const struct heap *h, uint64_t at)
{
    return acp_ga((uint32_t)acp_ga_rank(call->object), 0, h->position + at);
}

static_assert(KINDS <= HEAP_KINDS, "the spare heads of each kind have a list");

#endif
