/* Ranks that have said all: in a large job nearly all of them come together in few spans. */
#include "peers/ends.h"
#include "core/engine_state.h"

#include <stdlib.h>
#include <string.h>

bool ends_add(acp_engine *e, struct span s)
{
    uint32_t count = e->job.end_count, first = 0, past;
    while (first < count && e->job.ends[first].high < s.low)
        first++;
    for (past = first; past < count && e->job.ends[past].low <= s.high; past++) {
        struct span one = e->job.ends[past];
        if (one.low <= s.low && s.high <= one.high)
            return false;
        s.low = one.low < s.low ? one.low : s.low;
        s.high = one.high > s.high ? one.high : s.high;
    }
    if (first == past && count == e->job.end_room) {
        struct span *grown = realloc(e->job.ends, (2 * count + 1) * sizeof *grown);
        if (!grown)
            return false;
        e->job.ends = grown;
        e->job.end_room = 2 * count + 1;
    }
    memmove(e->job.ends + first + 1, e->job.ends + past, (count - past) * sizeof s);
    e->job.ends[first] = s;
    e->job.end_count = count + 1 - (past - first);
    return true;
}

bool ends_have(const acp_engine *e, uint32_t slot)
{
    uint32_t i = 0;
    while (i < e->job.end_count && e->job.ends[i].high <= slot)
        i++;
    return i < e->job.end_count && e->job.ends[i].low <= slot;
}
