#ifndef ACP_EXECUTE_H
#define ACP_EXECUTE_H

#include "core/engine.h"

#include <stdatomic.h>

struct message;
struct op;
struct translation;

/* One end of a copy that is not global memory. */
struct place {
    unsigned char *local; /* memory of this process alone, or NULL */
    bool is_source;
};

/* The one function that executes a command on memory in reach. Of a copy it does the part [from, from + size); `local`
 * stands for src or dst of a copy. *result: an atomic's old value; a copy with an end in `local`, unless NULL, extends
 * it by the CRC-32C of its bytes. ACP_E_BUSY: the fast way was refused just now, route the command anew. */
int execute_command(acp_lane *lane, const struct message *command, struct place local, uint64_t from,
                    uint64_t size, uint64_t *result);

/* The same for a part of a long put: its bytes go past the caches, which all of it would fill. */
int execute_stream(acp_lane *lane, const struct message *put, const unsigned char *payload, uint64_t size, uint64_t *sum);

/* Parts of a copy whose other end is elsewhere, to and from memory of this process alone */
int execute_part_read(acp_lane *lane, struct op *op, uint64_t at, uint64_t size, unsigned char *buffer,
                      uint64_t *sum);
int execute_part_write(acp_lane *lane, struct op *op, uint64_t at, uint64_t size,
                       const unsigned char *buffer);

/* Must the parts of a copy go from the last to the first, as memmove would do it? NULL: elsewhere. */
static inline bool execute_backward(const unsigned char *to, const unsigned char *from, uint64_t size)
{
    return to && from && to > from && to < from + size;
}

int execute_copy(acp_lane *lane, const struct translation *d, acp_ga_t dst,
                 const struct translation *s, acp_ga_t src, uint64_t size);
int execute_write(acp_lane *lane, const struct translation *d, acp_ga_t dst, const void *src,
                  uint64_t size);
int execute_read(acp_lane *lane, void *dst, const struct translation *s, acp_ga_t src,
                 uint64_t size);

/* Another thread may be changing the column: the value that is checked must be the one that is used. */
static inline uint64_t acp_column_at(acp_column c, uint64_t i)
{
    uint64_t value;
    __builtin_memcpy(&value, c.data + (int64_t)i * c.stride, sizeof value);
    __asm__("" : "+r"(value)); /* read once */
    return value;
}

uint64_t execute_atomics(acp_lane *lane, uint8_t kind, const struct translation *s, acp_column ga,
                         acp_column value, acp_column compare, uint64_t *old, uint64_t i,
                         uint64_t count);
int execute_atomic(acp_lane *lane, uint8_t kind, const struct translation *s, acp_ga_t src,
                   uint64_t value, uint64_t compare, uint64_t *old);

#endif
