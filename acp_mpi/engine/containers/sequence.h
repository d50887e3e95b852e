/* Sequences: elements of one size in a row, by index: vectors, and deques, of which the row goes around the end of its
 * block. Every change is a splice: some elements out, some in, at one place. */
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

int sequence_method_look(acp_lane *lane, struct acp_call *call);
int sequence_method_read(acp_lane *lane, struct acp_call *call);
int sequence_method_reserve(acp_lane *lane, struct acp_call *call); /* `b` elements */
int sequence_method_splice(acp_lane *lane, struct acp_call *call);

#endif
