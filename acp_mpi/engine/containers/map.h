/* Maps, sets and multisets: hash tables with the keys spread over parts, each in the heap of a rank.
 *
 * A part is a container; one of them is known by its address, and its note names the others (the caller reads it
 * once). A key's hash alone decides its part and stripe: hash.h. */
#ifndef ACP_MAP_H
#define ACP_MAP_H

#include "containers/container.h"
#include "containers/map_bucket.h"

struct heap;
struct hold;

struct map_part {
    struct container head;
    struct shape shape;
    struct stripe stripes[STRIPES];
};

/* Precedes the key and, if the method takes one, the value. `b` of each call is the kind, and << 8 the argument given
 * below. */
struct map_request {
    uint64_t hash, key_size, value_size;
    uint64_t box;   /* 0, or the address of a block that key and value lie in, not behind */
    uint64_t stamp; /* erase: only this element; 0: any */
    uint64_t from;  /* a piece: bytes; a batch: the hash */
};

/* Result in place of a value that is larger than the room for it. */
struct map_large {
    uint64_t stamp, key_size, value_size;
};

/* Of one part; a `total` that would be larger is UINT64_MAX. */
struct map_statistics {
    uint64_t count, total, places, graves, bytes;
};

/* A record of a batch: the hash, the key, the value, from a word on each; if the elements are in boxes the hash, both
 * sizes, the value, the key. Parts that are not needed are left out, with their sizes. */
/* Of maps, sets and multisets. Created of: key size, value size, number, counts. */
extern const struct container_type map_type;

/* A part that a call names, and the form of its elements. */
struct part {
    struct map_part *map;
    struct heap *heap;
    struct shape shape;
};

int map_part_find(acp_lane *lane, const struct acp_call *call, struct part *part);
int map_part_enter(struct hold *hold, acp_lane *lane, const struct acp_call *call, struct part *part,
                   struct stripe *stripe);

int map_method_find(acp_lane *lane, struct acp_call *call); /* result: found, value's address */
int map_method_piece(acp_lane *lane, struct acp_call *call); /* result: found */
int map_method_put(acp_lane *lane, struct acp_call *call); /* b: put_how; found, box adopted */
int map_method_erase(acp_lane *lane, struct acp_call *call); /* result: found */
/* b: the stripe to begin in; result: the hash to go on from, the stripe | elements << 8. */
int map_method_scan(acp_lane *lane, struct acp_call *call);
int map_method_look(acp_lane *lane, struct acp_call *call); /* result: count, total */
int map_method_clear(acp_lane *lane, struct acp_call *call); /* result: again, to give more back */
int map_method_reserve(acp_lane *lane, struct acp_call *call); /* in: a word, for each stripe */

#endif
