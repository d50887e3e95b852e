/* The heap of another process, seen from outside: the use of each of its blocks. The owner is neither stopped nor
 * involved, no lock is taken and nothing is written; parts that change meanwhile are read again a few times, and then
 * the result is marked as not whole.
 *
 * Blocks are read by `pread`: a load from a page of the file that is not there would commit it. */
#ifndef ACP_HEAP_WALK_H
#define ACP_HEAP_WALK_H

#include "containers/container.h"

struct survey_tiles;

/* Use of a byte of a heap: spare are container heads without a container; vacant are addresses without memory.
 * Messages: those that wait here, and sent ones that wait for room elsewhere. */
enum survey_use {
    USE_VACANT, USE_FREE, USE_MALLOC, USE_SPARE, USE_UNKNOWN, USE_MESSAGES,
    USE_CONTAINER /* + its kind */
};

#define SURVEY_USES (USE_CONTAINER + KINDS)

struct survey_container {
    uint64_t kind, offset; /* in the addresses of its rank */
    uint64_t elements;
    uint64_t blocks, bytes; /* of the heap, heads included */
};

struct survey {
    acp_heap_statistics heap;
    uint64_t others; /* bytes that the rank has committed outside the heap */
    uint64_t first, top; /* of the blocks that ever were: offsets in the addresses of the rank */
    bool whole; /* nothing has changed meanwhile */
    struct survey_container *containers;
    uint32_t count;
    uint64_t *cells; /* [first, top) in equal parts: the bytes of each use, SURVEY_USES a part */
};

/* A process of a node, as the node's table has it. */
struct survey_member {
    uint32_t rank, pid;
    int32_t memory_fd;
    uint64_t nonce;
};

/* By a descriptor of the rank's memory file. ACP_E_ARGUMENT: it is not that file; ACP_E_CLOSED: its
 * owner has left the job. `heap_walk_free` in any case. */
int heap_walk_rank(int fd, uint64_t nonce, uint32_t cells, struct survey *out);
void heap_walk_free(struct survey *survey);

/* The wait a rank is in (acp_doing), the rank + 1 that it waits for, 0 if that is none or several, and the word at
 * NOTICE_OFFSET. */
struct survey_doing {
    uint32_t rank, doing, awaited;
    uint64_t notice;
};

/* By the same descriptor and with the same errors; not the rank. */
int heap_walk_doing(int fd, uint64_t nonce, struct survey_doing *out);

bool heap_walk_read(struct survey_tiles *t, uint64_t at, void *to, uint64_t size);
/* Marks the block with its bytes from `block` on, unless it has an owner: for messages, or USE_CONTAINER + an
 * index. */
void heap_walk_use(struct survey_tiles *t, uint64_t block, uint32_t use);

#endif
