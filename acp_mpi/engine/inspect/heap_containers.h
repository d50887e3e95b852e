#ifndef ACP_HEAP_CONTAINERS_H
#define ACP_HEAP_CONTAINERS_H

#include "inspect/heap_walk.h"
#include "memory/heap.h"

struct container;

struct survey_tiles {
    struct heap heap; /* only the head is mapped */
    int fd;
    uint64_t window;  /* where in the heap `bytes` come from */
    bool there;
    unsigned char bytes[4096];
    uint64_t *at;     /* the blocks, rising, */
    uint32_t *owner;  /* the owner of each: a use, or USE_CONTAINER + an index of `containers` */
    uint64_t count, room, end;
    struct survey_container *containers;
    uint32_t owners, owners_room;
    bool whole;
};

static inline void heap_containers_own(struct survey_tiles *t, uint64_t block, uint32_t container)
{
    heap_walk_use(t, block, USE_CONTAINER + container);
}

/* Is there a container's head in the block at `at`? */
bool heap_containers_head(struct survey_tiles *t, uint64_t at, uint64_t size, struct container *head);
void heap_containers_owned(struct survey_tiles *t, uint32_t container);

#endif
