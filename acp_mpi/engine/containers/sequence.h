/* Elements of one size in a row, by index: vectors, and deques, whose row goes around the end of
 * its block. Every change is a splice: some elements out, some in, at one place. */
#ifndef ACP_SEQUENCE_H
#define ACP_SEQUENCE_H

#include "containers/container.h"

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

int method_sequence_look(acp_lane *lane, struct acp_call *call);
int method_sequence_read(acp_lane *lane, struct acp_call *call);
int method_sequence_reserve(acp_lane *lane, struct acp_call *call); /* `b` elements */
int method_sequence_splice(acp_lane *lane, struct acp_call *call);

/* sequence_rows.c: where elements are */
int row_check(acp_lane *lane, const struct heap *h, const struct row_of *r);
uint64_t row_place(const struct row_of *r, uint64_t i); /* offset in the heap */
bool row_straight(const struct row_of *r, uint64_t at, uint64_t count); /* not around the end */
void row_copy(const struct heap *h, const struct row_of *r, uint64_t at, uint64_t count,
              unsigned char *out);
void row_fill(const struct heap *h, const struct row_of *r, uint64_t at, uint64_t count,
              const unsigned char *in, bool repeats);
bool row_locate(const struct row_of *r, int64_t *at, uint64_t *count, bool clips);

/* sequence_splice.c */
struct source {
    const unsigned char *bytes;
    uint64_t block; /* where they are; 0: with the call */
    bool repeats;
};
int sequence_splice(struct hold *hold, struct sequence *s, const struct splice *p,
                    const struct source *from);
int sequence_reserve(struct hold *hold, struct sequence *s, uint64_t room);
int sequence_fit(struct hold *hold, struct sequence *s); /* room for its elements, no more */

#endif
