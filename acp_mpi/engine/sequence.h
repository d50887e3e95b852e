/* Elements of one size in a row, by index: vectors, and deques, whose row goes around the end of
 * its block. Every change is a splice: some elements out, some in, at one place. */
#ifndef ACP_SEQUENCE_H
#define ACP_SEQUENCE_H

#include "container.h"

struct row_of {
    uint64_t data; /* the block of the elements; 0: none yet */
    uint64_t room; /* elements that it holds */
    uint64_t first; /* where in it element 0 is; 0 in a vector */
    uint64_t size;
    uint64_t width; /* bytes of an element */
};

struct sequence {
    struct container head;
    struct row_of row;
};

extern const struct container_type sequence_type; /* words: the width */

#define SPLICE_CLIPS 1u   /* `at` and `erase` are cut to what there is, as in Python's slices */
#define SPLICE_REPEATS 2u /* one element comes, and goes in as often as `insert` says */
#define SPLICE_BRINGS 4u  /* what goes out comes back */
#define SPLICE_BLOCK 8u   /* in a block of its own, whose address is result[1] */

/* What METHOD_SEQUENCE_SPLICE takes, with the new elements behind it, or in a block of the same
 * heap, which it keeps or gives back. `at` counts from the end if negative. result[0] is 1; 0:
 * there is no such place, and nothing has happened, to the block neither. */
struct splice {
    int64_t at;
    uint64_t erase, insert, flags;
    acp_ga_t block;
};

/* What METHOD_SEQUENCE_READ takes; `b` is the first one, from the end if negative. It brings the
 * elements, or a block of them, and in result[0] how many there are: more than came if the room
 * was too small, 0 if there is no such place. */
struct stretch {
    uint64_t count, flags; /* SPLICE_CLIPS, SPLICE_BLOCK */
};

struct sequence_look {
    uint64_t size, room, width, bytes;
    acp_ga_t data; /* 0: no block, or one that goes around */
};

int method_sequence_look(acp_lane *lane, struct acp_call *call);
int method_sequence_read(acp_lane *lane, struct acp_call *call);
int method_sequence_reserve(acp_lane *lane, struct acp_call *call); /* `b` elements */
int method_sequence_splice(acp_lane *lane, struct acp_call *call);

/* rows.c: where elements are */
int row_check(acp_lane *lane, const struct heap *h, const struct row_of *r);
uint64_t row_place(const struct row_of *r, uint64_t i); /* offset in the heap */
bool row_straight(const struct row_of *r, uint64_t at, uint64_t count); /* not around the end */
void row_copy(const struct heap *h, const struct row_of *r, uint64_t at, uint64_t count,
              unsigned char *out);
void row_fill(const struct heap *h, const struct row_of *r, uint64_t at, uint64_t count,
              const unsigned char *in, bool repeats);
bool row_locate(const struct row_of *r, int64_t *at, uint64_t *count, bool clips);

/* splice.c */
struct source {
    const unsigned char *bytes;
    uint64_t block; /* where they are; 0: with the call */
    bool repeats;
};
int sequence_splice(struct hold *hold, struct sequence *s, const struct splice *p,
                    const struct source *from);
int sequence_reserve(struct hold *hold, struct sequence *s, uint64_t room);

#endif
