/* Bounds of peers' arrays, each a word, so that any thread reads them without a lock. An owner does not announce that
 * an array has ended: until other bounds of the same bytes arrive, an address of it leads to the memory of arrays
 * still. */
#include "mpi_window/window_arrays.h"
#include "core/state/peer.h"
#include "memory/directory.h"
#include "mpi_window/window.h"
#include "operations/protocol_tcp.h"

#define ARRAY_SHIFT 38 /* a window part has fewer bytes than 2^38, and fewer pages than 2^26 */
#define ARRAY_PAGE ((uint64_t)4096)

static uint64_t array_begin(uint64_t word)
{
    return (word >> ARRAY_SHIFT) * ARRAY_PAGE;
}

static uint64_t array_length(uint64_t word)
{
    return word & (((uint64_t)1 << ARRAY_SHIFT) - 1);
}

bool window_arrays_reach(const struct peer *p, uint64_t at, uint64_t size)
{
    for (uint32_t i = 0; i < ARRAYS_KNOWN; i++) {
        uint64_t word = atomic_load_explicit(&p->mpi.arrays[i], memory_order_relaxed);
        uint64_t into = at - array_begin(word);
        if (into < array_length(word) && size <= array_length(word) - into)
            return true;
    }
    return false;
}

/* Not while another answer is on its way: bytes beside that array go by link once more. */
void window_arrays_request(acp_lane *lane, const struct window *w, struct peer *p, acp_ga_t ga)
{
    struct message m = {.kind = ACP_GUEST, .from = lane->engine->self, .a = ARRAY_REQUEST, .dst = ga};
    bool member = p->slot - w->config.first_slot < w->config.count;
    if (!member || p->mpi.array_requested || !atomic_load_explicit(&w->open, memory_order_relaxed) ||
        !road_link.room(lane, p, 0))
        return;
    p->mpi.array_requested = road_link.send(lane, p, 0, &m) == ACP_OK;
}

static void array_learn(const struct window *w, struct peer *p, uint64_t begin, uint64_t length)
{
    uint64_t end = begin + length;
    if (begin % ARRAY_PAGE || begin < w->config.arrays_begin || !length || end < begin || end > w->config.arrays_end ||
        length >> ARRAY_SHIFT || begin / ARRAY_PAGE >> (64 - ARRAY_SHIFT))
        return;
    for (uint32_t i = 0; i < ARRAYS_KNOWN; i++) { /* arrays that were there before */
        uint64_t word = atomic_load_explicit(&p->mpi.arrays[i], memory_order_relaxed);
        if (array_begin(word) < end && begin < array_begin(word) + array_length(word))
            atomic_store_explicit(&p->mpi.arrays[i], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&p->mpi.arrays[p->mpi.oldest++ % ARRAYS_KNOWN],
                          begin / ARRAY_PAGE << ARRAY_SHIFT | length, memory_order_relaxed);
}

/* With the lock held. */
void window_arrays_heard(acp_lane *lane, struct peer *from, const struct message *m)
{
    acp_engine *e = lane->engine;
    const struct window *w = atomic_load_explicit(&e->mpi.window, memory_order_acquire);
    if (m->a == ARRAY_ANSWER) {
        from->mpi.array_requested = false;
        if (w)
            array_learn(w, from, acp_ga_offset(m->dst) - STARTER_OFFSET, m->b);
        return;
    }
    struct region region;
    struct message answer = {.kind = ACP_GUEST, .from = e->self, .a = ARRAY_ANSWER};
    if (directory_find(e->control, acp_ga_offset(m->dst), &region) == ACP_OK && region.kind == SEGMENT_MEMORY &&
        region.color == 0) {
        answer.dst = acp_ga(acp_ga_rank(m->dst), 0, region.offset);
        answer.b = region.length;
    }
    road_link.send(lane, from, 0, &answer);
}

void window_arrays_forget(struct peer *p)
{
    for (uint32_t i = 0; i < ARRAYS_KNOWN; i++)
        atomic_store_explicit(&p->mpi.arrays[i], 0, memory_order_relaxed);
}
