/* What methods of containers need of an engine, in a process of crash.h. */
#ifndef ACP_TESTS_STAGE_H
#define ACP_TESTS_STAGE_H

#include "support/crash.h"
#include "containers/container.h"
#include "containers/map.h"
#include "memory/translate.h"

/* A process that reaches the heap, as an engine would let it. */
struct stage {
    struct actor actor;
    struct peer peer;
    _Atomic uint32_t generation;
    _Atomic uint32_t busy[2];
};

static inline void stage_set(struct stage *s, const struct actor *a)
{
    s->actor = *a;
    s->generation = 1;
    s->peer.memory.heap = &s->actor.heap;
    s->actor.lane->patience_ns = ACP_FOREVER;
    s->actor.lane->recent[ROLE_SRC] = (struct translation){
        .low = acp_ga(0, 0, 0), .length = CRASH_SPAN, .base = s->actor.heap.base,
        .generation = &s->generation, .live = 1, .busy = s->busy, .peer = &s->peer,
        .kind = SEGMENT_HEAP};
}

static inline void stage_start(struct stage *s, int fd)
{
    struct actor a;
    actor_start(&a, fd);
    stage_set(s, &a);
}

static inline void call(struct stage *s, struct acp_call *c, int (*method)(acp_lane *, struct acp_call *))
{
    c->out_size = c->result[0] = c->result[1] = 0;
    CHECK(method(s->actor.lane, c) == ACP_OK);
}

/* That many elements of a map of plain words, in one stripe after the other. */
static inline void fill_map(struct stage *s, const struct acp_call *named, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct {
            struct map_request request;
            uint64_t key[2];
        } in = {{.hash = 2 + i, .key_size = 8, .value_size = 8}, {i, i}};
        struct acp_call c = *named;
        c.b = KIND_MAP;
        c.in = &in;
        c.in_size = sizeof in;
        call(s, &c, map_method_put);
    }
}

#endif
