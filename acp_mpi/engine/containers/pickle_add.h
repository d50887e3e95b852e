/* Pickles of ints, bools and floats are added as Python adds them: ints do not wrap. */
#ifndef ACP_PICKLE_ADD_H
#define ACP_PICKLE_ADD_H

#include <stdint.h>

/* Writes the sum of two pickles as one of `*size` bytes; returns FOUND. Of map_bucket.h as well: FOUND_LARGE, `*size`
 * bytes may be needed and `room` are less; FOUND_OTHER, one of them is not a number of protocol 2 or above;
 * FOUND_BEYOND, an int is too large for the float that is added to it. */
uint64_t pickle_add(const unsigned char *a, uint64_t a_size, const unsigned char *b, uint64_t b_size,
                    unsigned char *sum, uint64_t room, uint64_t *size);

#endif
