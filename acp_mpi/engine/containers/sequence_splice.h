#ifndef ACP_SEQUENCE_SPLICE_H
#define ACP_SEQUENCE_SPLICE_H

#include <stdbool.h>
#include <stdint.h>

struct hold;
struct sequence;
struct splice;

struct source {
    const unsigned char *bytes;
    uint64_t block; /* where they are; 0: with the call */
    bool repeats;
};

int sequence_splice(struct hold *hold, struct sequence *s, const struct splice *p,
                    const struct source *from);
int sequence_splice_reserve(struct hold *hold, struct sequence *s, uint64_t room);
int sequence_splice_fit(struct hold *hold, struct sequence *s); /* room for its elements, no more */

#endif
