/* The memory of this rank. */
#ifndef ACP_STATE_MEMORY_H
#define ACP_STATE_MEMORY_H

#include "core/engine.h"
#include "core/layout.h"

struct retiree;

#define GUARD_BYTES PAGE /* offsets behind every region that belong to no region, so that an overrun is found */

struct range {
    uint64_t low, high;
};

struct ranges {
    struct range *at;
    uint32_t count, room;
};

/* The memory of this rank. */
struct memory_state {
    int fd;
    unsigned char *base; /* whole offset space, mapped once */
    uint64_t span;
    uint64_t limit;
    uint64_t committed; /* as in the control page */
    uint64_t used;
    uint64_t bump; /* next offset never given out */
    uint64_t starter_size;
    struct range *registered; /* by slot: memory of this process that exists elsewhere */
    uint32_t slots_touched;
    uint32_t *free_slots;
    uint32_t free_slot_count, free_slot_room;
    struct ranges free; /* without memory behind them, oldest first */
    struct ranges unpunched; /* with memory behind them */
    uint64_t unpunched_bytes;
    _Atomic uint32_t users; /* threads that have the system change a memory file just now */
    struct retiree *retirees;
    uint64_t tickets;
    _Atomic uint32_t retiring;
    uint64_t next_check; /* committed bytes at which the free memory is measured again */
    _Atomic uint32_t references;
    uint64_t live_private, live_segments;
    uint64_t heap_position, heap_span; /* as in the control page; 0: none */
    struct {
        uint64_t size;   /* from starter memory on */
        acp_fault fault; /* why there is none */
        uint64_t probe;  /* place in it of a word for its test; 0: none */
    } window;            /* the window part */
    struct entry *entries;
    _Atomic uint32_t *order;
};

#endif
