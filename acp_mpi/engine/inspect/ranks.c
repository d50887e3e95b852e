/* The processes of a node, as an observer finds them in the node's table of ranks. */
#include "inspect/ranks.h"
#include "core/layout.h"
#include "inspect/heap_walk.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* The rank of a slot. Slots of ranks that were never permuted are not in the table: at least two
 * zeroes stand there. */
static uint32_t rank_of(const uint32_t *slots, uint32_t count, uint32_t slot)
{
    if (count < 2 || (!slots[0] && !slots[1]))
        return slot;
    for (uint32_t rank = 0; rank < count; rank++)
        if (slots[rank] == slot)
            return rank;
    return slot;
}

static uint32_t members(const unsigned char *base, struct survey_member *out, uint32_t room)
{
    const struct table_head *head = (const void *)base;
    const uint32_t *mates = (const void *)(base + TABLE_MATES);
    const uint32_t *slots = (const void *)(base + TABLE_SLOTS);
    uint32_t count = atomic_load(&head->count), near = atomic_load(&head->mates);
    if (count > ACP_RANKS_MAX || near > count)
        return 0;
    for (uint32_t i = 0; i < near && i < room; i++) {
        struct row row = {0};
        uint32_t slot = mates[i] < count ? mates[i] : 0;
        memcpy(&row, base + TABLE_ROWS + (uint64_t)slot * TABLE_ROW, TABLE_ROW);
        out[i] = (struct survey_member){rank_of(slots, count, slot), row.pid, row.memory_fd,
                                        row.nonce};
    }
    return near;
}

int ranks_members(int fd, struct survey_member *out, uint32_t room, uint32_t *count)
{
    struct stat st;
    *count = 0;
    if (fstat(fd, &st) || (uint64_t)st.st_size != TABLE_SIZE)
        return ACP_E_ARGUMENT;
    void *base = mmap(NULL, TABLE_SIZE, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED)
        return ACP_E_SYSTEM;
    const struct table_head *head = base;
    bool good = head->magic == TABLE_MAGIC && head->version == LAYOUT_VERSION;
    if (good)
        *count = members(base, out, room);
    munmap(base, TABLE_SIZE);
    return good ? ACP_OK : ACP_E_ARGUMENT;
}
