/* Global addresses: 0 (1) | rank + 1 (21) | color (2) | offset (40).
 *
 * The address of a byte is its owner's rank and the byte's place in that rank's
 * offset space, so that arithmetic inside a region is plain addition; 0 is null. */
#ifndef ACP_ADDRESS_H
#define ACP_ADDRESS_H

#include <stdint.h>

typedef uint64_t acp_ga_t;

#define ACP_GA_NULL ((acp_ga_t)0)
#define ACP_OFFSET_BITS 40
#define ACP_COLOR_BITS 2
#define ACP_RANK_BITS 21
#define ACP_COLORS (1u << ACP_COLOR_BITS)
#define ACP_RANKS_MAX ((1u << ACP_RANK_BITS) - 1)
#define ACP_OFFSET_SPAN ((uint64_t)1 << ACP_OFFSET_BITS)

static inline acp_ga_t acp_ga(uint32_t rank, uint32_t color, uint64_t offset)
{
    return ((acp_ga_t)(rank + 1) << (ACP_OFFSET_BITS + ACP_COLOR_BITS)) |
           ((acp_ga_t)color << ACP_OFFSET_BITS) | offset;
}

/* -1 for the null address. */
static inline int64_t acp_ga_rank(acp_ga_t ga)
{
    return (int64_t)(ga >> (ACP_OFFSET_BITS + ACP_COLOR_BITS)) - 1;
}

static inline uint32_t acp_ga_color(acp_ga_t ga)
{
    return (uint32_t)(ga >> ACP_OFFSET_BITS) & (ACP_COLORS - 1);
}

static inline uint64_t acp_ga_offset(acp_ga_t ga)
{
    return ga & (ACP_OFFSET_SPAN - 1);
}

#endif
