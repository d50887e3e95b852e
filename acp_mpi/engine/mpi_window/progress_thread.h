/* A thread that drives MPI while the program computes; it needs no engine. `user` as above, a
 * communicator with a tag that no message to this process has, and the shortest nap between two looks;
 * the longest is ten times that. A function that MPI has not is `missing`. */
#ifndef ACP_PROGRESS_THREAD_H
#define ACP_PROGRESS_THREAD_H

#include <stdint.h>

typedef struct acp_mpi_progress acp_mpi_progress;

typedef struct acp_mpi_progress_config {
    const char *user;
    uintptr_t comm;
    int any_source, tag;
    uint64_t interval_ns;
} acp_mpi_progress_config;

int acp_mpi_progress_start(const acp_mpi_progress_config *config, acp_mpi_progress **out,
                           const char **missing);
void acp_mpi_progress_pace(acp_mpi_progress *p, uint64_t interval_ns);
void acp_mpi_progress_statistics(const acp_mpi_progress *p, uint64_t *looks,
                                 uint64_t *used_ns);
void acp_mpi_progress_stop(acp_mpi_progress *p); /* frees it; it calls MPI no more */

#endif
