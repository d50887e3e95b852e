/* A range of slots. */
#ifndef ACP_SPAN_H
#define ACP_SPAN_H

#include <stdbool.h>
#include <stdint.h>

struct span {
    uint32_t low, high;
};

static inline bool span_has(struct span s, uint32_t slot)
{
    return slot >= s.low && slot < s.high;
}

#endif
