/* Batches of elements, dealt out to the parts of a map. */
#include "containers/map_scatter.h"
#include "base/hash.h"
#include "base/word.h"
#include "containers/map_bucket.h"

#include <string.h>

uint64_t map_scatter_unit(const struct spread *s)
{
    return 8 * (1 + words_of(s->key_size) + (s->values ? words_of(s->value_size) : 0));
}

static inline uint64_t bin_of(const struct spread *s, uint64_t hash)
{
    return hash_part(hash, s->parts) * STRIPES + hash % STRIPES;
}

void map_scatter_hash(struct spread *s)
{
    memset(s->starts, 0, (s->parts * STRIPES + 1) * sizeof *s->starts);
    for (uint64_t i = 0; i < s->count; i++) {
        const unsigned char *key = s->keys + i * s->key_size;
        s->hashes[i] = s->key_size == 8 ? hash_bytes(key, 8) : hash_bytes(key, s->key_size);
        s->starts[bin_of(s, s->hashes[i]) + 1]++;
    }
    for (uint64_t bin = 0; bin < s->parts * STRIPES; bin++)
        s->starts[bin + 1] += s->starts[bin];
}

static inline void bytes_copy(unsigned char *to, const unsigned char *from, uint64_t size)
{
    if (size == 8) {
        memcpy(to, from, 8);
        return;
    }
    memset(to, 0, 8 * words_of(size));
    memcpy(to, from, size);
}

/* Ends with `starts` moved on by one. */
void map_scatter_deal(struct spread *s)
{
    uint64_t unit = map_scatter_unit(s), key = 8 * words_of(s->key_size);
    for (uint64_t i = 0; i < s->count; i++) {
        uint64_t place = s->starts[bin_of(s, s->hashes[i])]++;
        unsigned char *record = s->records + place * unit;
        memcpy(record, &s->hashes[i], 8);
        bytes_copy(record + 8, s->keys + i * s->key_size, s->key_size);
        if (s->values)
            bytes_copy(record + 8 + key, s->values + i * s->value_size, s->value_size);
        s->places[place] = i;
    }
}

void map_scatter_gather(const struct spread *s, uint64_t first, uint64_t count, uint64_t value_size,
                        const unsigned char *brought, unsigned char *values, unsigned char *found)
{
    uint64_t unit = 8 + 8 * words_of(value_size);
    for (uint64_t i = 0; i < count; i++, brought += unit) {
        uint64_t place = s->places[first + i];
        found[place] = brought[0];
        if (!brought[0])
            continue;
        if (value_size == 8)
            memcpy(values + 8 * place, brought + 8, 8);
        else
            memcpy(values + value_size * place, brought + 8, value_size);
    }
}
