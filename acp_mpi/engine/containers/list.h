/* Lists: a chain of nodes beside the head, in the heap of its rank. The bytes of an element follow its node, or lie in
 * a block of any rank that is named there.
 *
 * An element is known by its node's place and a number that its list gives to no other; whether it is in a list, by
 * that list's era. Nodes are short, since new memory costs more than the work on it: number, era and size are one
 * word. A change of many nodes is a job: one store decides on it, and the next holder of the section finishes it if
 * its process was killed. Erased nodes with blocks still to be given back are chained, so that none is lost either.
 *
 * Nodes come and go without the heap: a list keeps some that are not in use, of one size, up to an eighth of its own
 * and a few. They come from the heap by the row, and go back by the row. */
#ifndef ACP_LIST_H
#define ACP_LIST_H

#include "base/word.h"
#include "containers/container.h"
#include "containers/list_call.h"
#include "memory/heap_pages.h"

#include <assert.h>

struct heap;
struct hold;

enum list_job_kind {
    JOB_NONE = 0, JOB_ERASE, JOB_ORDER, JOB_REVERSE, JOB_SPLICE,
    JOB_PUT_FRONT, JOB_PUT_BACK, JOB_TAKE_FRONT, JOB_TAKE_BACK,
    JOB_GATHER
};

struct list_node {
    uint64_t next, previous; /* 0: none */
    uint64_t name; /* upper 48 bits: number ^ era of the list, 0: erased; lower 16: see LIST_FAR */
};

#define LIST_FAR ((uint64_t)0xffff) /* a list_far follows; any other value: the bytes of the element */
#define LIST_NUMBERS (((uint64_t)1 << 48) - 1) /* of elements and eras */

struct list_far {
    uint64_t size;    /* of the element, in bytes */
    uint64_t payload; /* the address of that */
    uint64_t block;   /* in which it lies: an address, or an offset in this very heap; 0: none */
};

struct list {
    struct container head;
    uint64_t first, last, size;
    uint64_t era;     /* of the nodes that are in it */
    uint64_t changes; /* counts them */
    uint64_t orders;  /* changes other than insertions and removals */
    uint64_t names;   /* given out, numbers and eras: grows only */
    uint64_t dead;    /* chain of erased nodes */
    uint64_t spare;   /* chain of blocks that are kept for nodes */
    uint64_t spare_size; /* of such a block */
    uint64_t partner; /* list with a journal that may hold words of this one, and its job elements */
    struct {
        uint64_t kind, first, last, count, before, block, kept;
    } job;
};

static_assert(sizeof(struct list_node) == LIST_NODE, "callers find the bytes of an element");
static_assert(LIST_INLINE < LIST_FAR, "the bytes that follow a node are counted in its name");

extern const struct container_type list_type;

/* NULL: there can be none. */
static inline struct list_node *list_node(const struct heap *h, uint64_t at)
{
    if (unlikely(at % 16 || !container_inside(h, at, sizeof(struct list_node)) ||
                 !heap_pages_committed(h, at)))
        return NULL;
    return (struct list_node *)(void *)(h->base + at);
}

/* Of a node that is in the list, or was: */
static inline uint64_t list_number(const struct list *list, uint64_t name) /* 0: erased */
{
    return name >> 16 ? name >> 16 ^ word_load(&list->era) : 0;
}

static inline uint64_t list_nameless(uint64_t name) /* of the same that is erased */
{
    return name & LIST_FAR;
}

/* `what`: the size, or LIST_FAR. */
static inline uint64_t list_name(const struct list *list, uint64_t number, uint64_t what)
{
    return (number ^ list->era) << 16 | what;
}

/* A number that no other element of the list ever had, even if it is used outside of a change. */
static inline uint64_t list_new_number(struct list *list)
{
    uint64_t number;
    do
        number = ++list->names & LIST_NUMBERS;
    while (unlikely(!number || number == list->era));
    return number;
}

/* The description of an element with its bytes elsewhere, behind its node; NULL: the bytes are there. */
static inline const struct list_far *list_far(const struct heap *h, const struct list_node *n,
                                              uint64_t name)
{
    const struct list_far *far = (const struct list_far *)(const void *)(n + 1);
    uint64_t at = (uint64_t)((const unsigned char *)far - h->base);
    return unlikely(list_nameless(name) == LIST_FAR) && container_inside(h, at, sizeof *far)
               ? far
               : NULL;
}

/* For the other files of lists */
bool list_has(const struct heap *heap, const struct list *list, struct list_id id);
int list_enter(struct hold *hold, acp_lane *lane, const struct acp_call *call, struct list **list);
int list_mend(struct hold *hold, struct list *list); /* the repairs of list_enter, in the section */
int list_done(struct hold *hold, const struct acp_call *call, int rc); /* leaves; `rc` */

static inline bool list_is_address(uint64_t block)
{
    return acp_ga_rank(block) >= 0;
}

uint64_t list_new_era(const struct hold *hold, struct list *list);
/* The bits in which the era of one list changes when its elements go to the other: cursors of either then miss
 * elements that came that way, until these go back. */
uint64_t list_apart(const struct hold *hold, const struct list *one, const struct list *other);
/* Within a change: the chain [first, last] goes in before `before`, 0 the end; goes out. */
int list_link(struct hold *hold, struct list *list, uint64_t first, uint64_t last, uint64_t count,
              uint64_t before);
int list_unlink(struct hold *hold, struct list *list, uint64_t first, uint64_t last,
                uint64_t count);

#endif
