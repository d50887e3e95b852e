/* Where the elements of a sequence are, and copying them. */
#include "containers/sequence_rows.h"
#include "containers/container.h"
#include "containers/sequence.h"
#include "core/lane.h"
#include "memory/heap.h"

#include <string.h>

int sequence_rows_check(acp_lane *lane, const struct heap *h, const struct row_of *r)
{
    uint64_t bytes;
    if (likely(!__builtin_mul_overflow(r->room, r->width, &bytes) && r->size <= r->room &&
               (!r->room || (r->first < r->room && container_inside(h, r->data, bytes)))))
        return ACP_OK;
    lane->fault = (acp_fault){.status = ACP_E_DAMAGED, .rank = -1};
    return ACP_E_DAMAGED;
}

static uint64_t slot(const struct row_of *r, uint64_t i)
{
    uint64_t at = r->first + i;
    return at < r->room ? at : at - r->room;
}

uint64_t sequence_rows_place(const struct row_of *r, uint64_t i)
{
    return r->data + slot(r, i) * r->width;
}

bool sequence_rows_straight(const struct row_of *r, uint64_t at, uint64_t count)
{
    return slot(r, at) + count <= r->room;
}

/* As far as the end of the block. */
static uint64_t row_piece(const struct row_of *r, uint64_t at, uint64_t count)
{
    uint64_t left = r->room - slot(r, at);
    return count < left ? count : left;
}

static void elements_copy(unsigned char *to, const unsigned char *from, uint64_t size)
{
    if (likely(size == 8))
        memcpy(to, from, 8);
    else
        memcpy(to, from, size);
}

void sequence_rows_copy(const struct heap *h, const struct row_of *r, uint64_t at, uint64_t count,
                        unsigned char *out)
{
    while (count) {
        uint64_t n = row_piece(r, at, count);
        elements_copy(out, h->base + sequence_rows_place(r, at), n * r->width);
        out += n * r->width;
        at += n;
        count -= n;
    }
}

void sequence_rows_fill(const struct heap *h, const struct row_of *r, uint64_t at, uint64_t count,
                        const unsigned char *in, bool repeats)
{
    while (count && r->width) {
        uint64_t n = repeats ? 1 : row_piece(r, at, count);
        elements_copy(h->base + sequence_rows_place(r, at), in, n * r->width);
        if (!repeats)
            in += n * r->width;
        at += n;
        count -= n;
    }
}

bool sequence_rows_locate(const struct row_of *r, int64_t *at, uint64_t *count, bool clips)
{
    int64_t size = (int64_t)r->size;
    if (*at < 0)
        *at += size;
    if (clips) {
        *at = *at < 0 ? 0 : *at > size ? size : *at;
        *count = *count < (uint64_t)(size - *at) ? *count : (uint64_t)(size - *at);
    }
    return *at >= 0 && *at <= size && *count <= (uint64_t)(size - *at);
}
