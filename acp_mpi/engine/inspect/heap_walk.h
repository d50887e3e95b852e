/* The heap of another process, seen from outside: what each of its blocks is used for. Nobody is
 * stopped or asked, no lock is taken and nothing is written; what changes meanwhile is looked at
 * again a few times, and then the picture says that it is not whole.
 *
 * Blocks are read by `pread`: a load from a page of the file that is not there would commit it. */
#ifndef ACP_HEAP_WALK_H
#define ACP_HEAP_WALK_H

#include "containers/container.h"

struct survey_tiles;

/* What a byte of a heap is used for: container heads that wait for the next container are spare;
 * of vacant ones there is no memory behind the address. Messages: those that wait here, and those
 * that this rank has sent and that wait for room elsewhere. */
enum survey_use {
    USE_VACANT, USE_FREE, USE_MALLOC, USE_SPARE, USE_UNKNOWN, USE_MESSAGES,
    USE_CONTAINER /* + its kind */
};

#define SURVEY_USES (USE_CONTAINER + KINDS)

struct survey_container {
    uint64_t kind, offset; /* in the addresses of its rank */
    uint64_t elements;
    uint64_t blocks, bytes; /* of that heap, heads included */
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
 * owner has left the job. `survey_free` in any case. */
int survey_heap(int fd, uint64_t nonce, uint32_t cells, struct survey *out);
void survey_free(struct survey *survey);

/* What a rank does (acp_doing), the rank + 1 that it waits for, 0 if that is none or several, and the
 * word at NOTICE_OFFSET. */
struct survey_doing {
    uint32_t rank, doing, awaited;
    uint64_t notice;
};

/* By the same descriptor and with the same errors; not the rank. */
int survey_doing(int fd, uint64_t nonce, struct survey_doing *out);

bool survey_read(struct survey_tiles *t, uint64_t at, void *to, uint64_t size);
/* The block whose bytes begin at `block` is used so, if nobody else has it: for messages, or
 * USE_CONTAINER + an index. */
void survey_use(struct survey_tiles *t, uint64_t block, uint32_t use);

#endif
