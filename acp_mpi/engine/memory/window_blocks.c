/* The array part: a list of free ranges in the order of their offsets, neighbours joined. A search begins behind the
 * block that was taken last, so that offsets are used again late, and a stale address is noticed longer. */
#include "memory/window_blocks.h"

#include <stdlib.h>
#include <string.h>

void window_blocks_create(struct memory_state *m, uint64_t offset, uint64_t bytes)
{
    m->window.arrays = (struct range){offset, offset + bytes};
    m->window.next = m->window.touched = offset;
    window_blocks_give(m, m->window.arrays);
}

bool window_blocks_holds(const struct memory_state *m, uint64_t offset)
{
    return offset >= m->window.arrays.low && offset < m->window.arrays.high;
}

static struct range *block_fitting(struct memory_state *m, uint64_t size, uint64_t from)
{
    struct ranges *list = &m->window.free;
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t low = list->at[i].low > from ? list->at[i].low : from;
        if (low < list->at[i].high && size <= list->at[i].high - low)
            return &list->at[i];
    }
    return NULL;
}

static bool range_insert(struct ranges *list, uint32_t at, struct range r)
{
    if (list->count == list->room) {
        uint32_t more = list->room ? list->room * 2 : 16;
        struct range *grown = realloc(list->at, more * sizeof *grown);
        if (!grown)
            return false;
        list->at = grown;
        list->room = more;
    }
    memmove(&list->at[at + 1], &list->at[at], (list->count - at) * sizeof r);
    list->at[at] = r;
    list->count++;
    return true;
}

static void range_remove(struct ranges *list, uint32_t at)
{
    list->count--;
    memmove(&list->at[at], &list->at[at + 1], (list->count - at) * sizeof list->at[0]);
}

uint64_t window_blocks_take(struct memory_state *m, uint64_t size, uint64_t *used)
{
    struct ranges *list = &m->window.free;
    struct range *r = block_fitting(m, size, m->window.next);
    uint64_t low = r && m->window.next > r->low ? m->window.next : 0;
    if (!r)
        r = block_fitting(m, size, 0);
    if (!r)
        return 0;
    low = low ? low : r->low;
    struct range behind = {low + size, r->high};
    uint32_t at = (uint32_t)(r - list->at);
    if (low == r->low) {
        r->low = behind.low;
        if (r->low == r->high)
            range_remove(list, at);
    } else {
        r->high = low;
        if (behind.low < behind.high)
            range_insert(list, at + 1, behind); /* without memory for the list these offsets stay unused */
    }
    m->window.next = low + size;
    *used = m->window.touched > low ? m->window.touched - low : 0;
    if (m->window.touched < low + size)
        m->window.touched = low + size;
    return low;
}

void window_blocks_give(struct memory_state *m, struct range r)
{
    struct ranges *list = &m->window.free;
    uint32_t at = 0;
    if (r.low >= r.high)
        return;
    while (at < list->count && list->at[at].low < r.low)
        at++;
    bool left = at > 0 && list->at[at - 1].high == r.low;
    bool right = at < list->count && list->at[at].low == r.high;
    if (left && right) {
        list->at[at - 1].high = list->at[at].high;
        range_remove(list, at);
    } else if (left) {
        list->at[at - 1].high = r.high;
    } else if (right) {
        list->at[at].low = r.low;
    } else {
        range_insert(list, at, r);
    }
}

uint64_t window_blocks_largest(const struct memory_state *m)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < m->window.free.count; i++) {
        uint64_t size = m->window.free.at[i].high - m->window.free.at[i].low;
        largest = size > largest ? size : largest;
    }
    return largest > GUARD_BYTES ? largest - GUARD_BYTES : 0;
}
