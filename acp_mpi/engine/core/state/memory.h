/* The memory of this rank. */
#ifndef ACP_STATE_MEMORY_H
#define ACP_STATE_MEMORY_H

#include "core/engine.h"
#include "core/layout.h"

struct heap;
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
    unsigned char *base; /* the whole offset space, mapped once */
    uint64_t span;
    uint64_t limit;
    uint64_t committed; /* bytes, as in the control page */
    uint64_t used;
    uint64_t bump; /* next offset never given out */
    uint64_t starter_size;
    uint64_t large_page; /* bytes, of files in memory; 0: they have none, or no large array has asked */
    bool large_known;
    struct range *registered; /* by slot: registered private memory, virtual addresses */
    uint32_t slots_touched;
    uint32_t *free_slots;
    uint32_t free_slot_count, free_slot_room;
    struct ranges free; /* offsets without memory, the oldest first */
    struct ranges unpunched; /* released offsets with memory */
    uint64_t unpunched_bytes;
    _Atomic uint32_t users; /* threads in a system call on a memory file */
    struct retiree *retirees;
    uint64_t tickets;
    _Atomic uint32_t retiring;
    uint64_t next_check; /* committed bytes at which the free memory is measured again */
    uint64_t live_private, live_segments;
    uint64_t heap_position, heap_span; /* bytes in the file, as in the control page; 0: no heap */
    struct {
        uint64_t size;   /* bytes, from starter memory on */
        acp_fault fault; /* reason if it could not be had */
        uint64_t probe;  /* offset of a word for its test; 0: none */
        struct range arrays; /* offsets for arrays only */
        struct ranges free;  /* of these, in order */
        uint64_t next;       /* a search begins here */
        uint64_t touched;    /* offsets from here on were never given out */
    } window;            /* the window part */
    struct entry *entries;
    _Atomic uint32_t *order;
};

/* A stretch of a peer's memory file mapped here. */
struct view {
    uint64_t low, high; /* file offsets */
    unsigned char *base;
    bool pinned;
    struct view *next;
};

/* Of a peer, with the space lock. */
struct peer_memory {
    struct heap *_Atomic heap; /* read without the lock; NULL: not mapped so far */
    struct view *views;
    uint32_t view_count;
    uint32_t view_limit; /* number of views at which they are trimmed, and at least VIEW_LEAST */
};

#endif
