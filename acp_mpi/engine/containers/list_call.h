/* Arguments and results of calls of lists. */
#ifndef ACP_LIST_CALL_H
#define ACP_LIST_CALL_H

#include "core/engine.h"

struct list_id { /* names an element */
    uint64_t node, number; /* 0: none, the end */
};

struct list_put { /* then elements of `width` bytes; 0: each a list_record and its bytes */
    struct list_id at;
    uint64_t width;
};

struct list_record {
    struct list_id id;
    uint64_t size, payload, block; /* both 0: the bytes follow, padded to words */
};

struct list_answer { /* with records behind it */
    uint64_t count, changes, orders, size, ended;
    acp_ga_t origin;     /* of the offsets of nodes */
    struct list_id next; /* of the last one */
};

#define LIST_NODE ((uint64_t)24) /* bytes of a node before its element */

struct list_order { /* with `count` offsets of nodes behind it, unless they are in `block` */
    uint64_t changes, count, kept, block; /* the first `kept` stay, in this order */
};

struct list_span { /* of elements; for a splice, where to and from which list as well */
    /* Before which; from; up to and without. None: all. The same: of a splice it alone. */
    struct list_id at, first, last;
    acp_ga_t from;
    uint64_t from_serial, changes; /* of the list `from`; UINT64_MAX: whatever they are */
};

enum list_outcome {
    LIST_DONE = 0,
    LIST_STALE,   /* the element that was named is not in the list any more */
    LIST_CHANGED, /* by another, since the caller looked */
    LIST_EMPTY,
};
enum list_where { LIST_FRONT = 0, LIST_BACK, LIST_AT };

enum list_take {
    LIST_DROP = 0, /* the element goes back to the heap; a block of another rank is named */
    LIST_FETCH,    /* its bytes come with it; a block of its own is the caller's from now on */
    LIST_KEEP,     /* its node is the caller's, too, if the bytes are in there */
};
enum list_walk { LIST_BACKWARD = 1, LIST_BEHIND = 2 }; /* not the named one, but those behind it */

/* Of an element's bytes: the most that follow its node; more lie in a block of their own. */
#define LIST_INLINE (ACP_CALL_MOST - sizeof(struct list_answer) - sizeof(struct list_record))

#endif
