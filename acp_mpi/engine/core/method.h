/* The numbers of all methods, and their arguments and results. They travel, so one keeps its meaning. */
#ifndef ACP_METHOD_H
#define ACP_METHOD_H

#include "base/address.h"

#include <stdint.h>

enum method {
    METHOD_MALLOC = 1, METHOD_FREE, METHOD_HEAP_LOOK, METHOD_HEAP_TIDY, METHOD_FREE_HELD,
    METHOD_CREATE = 0x08, METHOD_DESTROY, METHOD_DESCRIBE,
    METHOD_COUNTER_ADD = 0x10, METHOD_COUNTER_SET,
    METHOD_SEQUENCE_LOOK = 0x20, METHOD_SEQUENCE_READ, METHOD_SEQUENCE_RESERVE,
    METHOD_SEQUENCE_SPLICE,
    METHOD_LIST_PUT = 0x90, METHOD_LIST_TAKE, METHOD_LIST_WALK, METHOD_LIST_STEP,
    METHOD_LIST_CHECK, METHOD_LIST_ERASE, METHOD_LIST_CLEAR, METHOD_LIST_BURY, METHOD_LIST_ORDER,
    METHOD_LIST_REVERSE, METHOD_LIST_SPLICE, METHOD_LIST_SWAP,
    METHOD_MAP_FIND = 0x60, METHOD_MAP_PIECE, METHOD_MAP_PUT, METHOD_MAP_ERASE, METHOD_MAP_SCAN,
    METHOD_MAP_LOOK, METHOD_MAP_CLEAR, METHOD_MAP_RESERVE, METHOD_MAP_FIND_MANY,
    METHOD_MAP_PUT_MANY, METHOD_MAP_ERASE_MANY,
    METHOD_WORKSPACE_ADD = 0xc0, METHOD_WORKSPACE_LOOK, METHOD_WORKSPACE_READ,
    METHOD_WORKSPACE_WRITE, METHOD_WORKSPACE_ZERO,
};

/* Argument of METHOD_CREATE, with the note behind it; `a` is the kind, the object any address of the rank. Results:
 * the address and the serial. */
struct container_plan {
    uint64_t words[4]; /* meaning: as the container's type defines */
};

#define WORKSPACE_LETTER 56u /* from this bit on, METHOD_WORKSPACE_ADD has its letter */

#define SPLICE_CLIPS 1u   /* `at` and `erase` are clipped to the sequence, as in Python's slices */
#define SPLICE_REPEATS 2u /* one element comes, and goes in `insert` times */
#define SPLICE_BRINGS 4u  /* removed elements come back */
#define SPLICE_BLOCK 8u   /* in a block of its own, at address result[1] */
#define SPLICE_RESIZES 16u /* `insert` elements are to be there afterwards, new ones at the end */

#define RESERVE_FITS UINT64_MAX /* METHOD_SEQUENCE_RESERVE: no room but for those that are there */

/* Argument of METHOD_SEQUENCE_SPLICE, with the new elements behind it, or in a block of the same heap, which the
 * method keeps or gives back. `at` counts from the end if negative. result[0] is 1; 0: the position does not exist,
 * and nothing has happened, to the block neither. */
struct splice {
    int64_t at;
    uint64_t erase, insert, flags;
    acp_ga_t block;
};

/* Argument of METHOD_SEQUENCE_READ; `b` is the first element, from the end if negative. The method returns the
 * elements, or a block of them, and in result[0] their number: more than came if the room was too small, 0 if the
 * position does not exist. */
struct stretch {
    uint64_t count, flags; /* SPLICE_CLIPS, SPLICE_BLOCK */
};

struct sequence_look {
    uint64_t size, room, width, bytes;
    acp_ga_t data; /* 0: no block, or one that goes around */
};

#endif
