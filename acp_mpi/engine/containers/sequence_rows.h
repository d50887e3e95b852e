#ifndef ACP_SEQUENCE_ROWS_H
#define ACP_SEQUENCE_ROWS_H

#include "core/engine.h"

struct heap;
struct row_of;

/* Where elements are */
int sequence_rows_check(acp_lane *lane, const struct heap *h, const struct row_of *r);
uint64_t sequence_rows_place(const struct row_of *r, uint64_t i); /* offset in the heap */
bool sequence_rows_straight(const struct row_of *r, uint64_t at, uint64_t count); /* not around the end */
void sequence_rows_copy(const struct heap *h, const struct row_of *r, uint64_t at, uint64_t count,
                        unsigned char *out);
void sequence_rows_fill(const struct heap *h, const struct row_of *r, uint64_t at, uint64_t count,
                        const unsigned char *in, bool repeats);
bool sequence_rows_locate(const struct row_of *r, int64_t *at, uint64_t *count, bool clips);

#endif
