/* The elements of a batch, dealt out to the parts of a map as records (map.h), those of a stripe
 * together; for keys, and values, of one size each. */
#ifndef ACP_MAP_SCATTER_H
#define ACP_MAP_SCATTER_H

#include <stdint.h>

struct spread {
    const unsigned char *keys, *values; /* values: NULL: none */
    uint64_t key_size, value_size;
    uint64_t count;
    uint32_t parts;
    uint64_t *hashes;       /* room for `count` */
    uint64_t *places;       /* room for `count`: which element the record in this place is of */
    uint64_t *starts;       /* room for 8 * parts + 1: the first record of each stripe */
    unsigned char *records; /* room for `count` of map_scatter_unit */
};

uint64_t map_scatter_unit(const struct spread *s); /* bytes of a record */
void map_scatter_hash(struct spread *s);
void map_scatter_deal(struct spread *s);
/* Puts the results of `count` finds, for the records from `first` on, where their elements were in the batch. */
void map_scatter_gather(const struct spread *s, uint64_t first, uint64_t count, uint64_t value_size,
                        const unsigned char *brought, unsigned char *values, unsigned char *found);

#endif
