/* Fences that this process runs for others (core/membarrier.c). */
#ifndef ACP_STATE_FENCE_H
#define ACP_STATE_FENCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct fence_state {
    bool can; /* this process may make all others run a fence */
    _Atomic bool fenced, late; /* it runs the fences that others request; it may do so soon */
    pthread_t thread;
    bool thread_runs;
};

#endif
