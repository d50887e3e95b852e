#ifndef ACP_DIRECTORY_H
#define ACP_DIRECTORY_H

#include "core/engine.h"
#include "core/layout.h"

/* A directory entry as read in one piece. */
struct region {
    uint64_t offset, length, target;
    uint64_t pass, serial; /* of device memory */
    uint32_t generation, kind, color, slot;
};

int directory_publish(acp_engine *e, const struct region *region);
int directory_replace(acp_engine *e, const struct region *old, const struct region *left,
                      const struct region *right);
int directory_find(const struct control *c, uint64_t offset, struct region *out);

static inline const _Atomic uint32_t *directory_order(const struct control *c)
{
    return (const _Atomic uint32_t *)((const char *)c + ORDER_OFFSET);
}

static inline const struct entry *directory_entries(const struct control *c)
{
    return (const struct entry *)((const char *)c + ENTRIES_OFFSET);
}

#endif
