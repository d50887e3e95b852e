/* The MPI window of the process's group, over the window parts of its ranks. `user` is the path of a loaded object
 * that depends on the MPI library (NULL: the program); the rest are MPI's handles and constants, the members' slots in
 * MPI order, and the parts that every member has and never releases, counted from the begin of its part: the end of
 * its starter memory, begin and end of what it keeps for arrays, and of its heap in the part. */
#ifndef ACP_MPI_WINDOW_H
#define ACP_MPI_WINDOW_H

#include "core/engine.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct acp_window_config {
    const char *user;
    uintptr_t window, comm, byte, word4, word8;
    int any_source, any_tag;
    uint32_t first_slot, count;
    uint64_t starter_end, arrays_begin, arrays_end, heap_begin, heap_end;
} acp_window_config;
/* The own window part; counted from its begin, where a word is kept for its test (0: nowhere) and the ranges in it of
 * arrays and of the heap. */
typedef struct acp_window_part {
    void *base;
    uint64_t size, probe, arrays_begin, arrays_end, heap_begin, heap_end;
} acp_window_part;
/* ACP_E_FULL with the reason in the fault if it could not be had. */
int acp_window_own(const acp_engine *engine, acp_window_part *part, acp_fault *fault);
int acp_window_attach(acp_engine *engine, const acp_window_config *config, const char **missing);
/* From now on a road; `reads_back`: a flush may return before a put has arrived. */
void acp_window_open(acp_engine *engine, bool reads_back);
void acp_window_close(acp_engine *engine); /* no MPI call from now on, none is under way */
/* For the test whether it can be a road: a put and its flush by the calling thread, and the
 * word to a target that it must drive MPI (`come`), or need not any more. */
int acp_window_put(acp_engine *engine, uint32_t rank, uint64_t at, const void *data,
                   uint64_t size);
int acp_window_visit(acp_engine *engine, uint32_t rank, bool come);

#endif
