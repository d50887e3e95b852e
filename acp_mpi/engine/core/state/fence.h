/* Fences that this process runs for others (core/membarrier.c). */
#ifndef ACP_STATE_FENCE_H
#define ACP_STATE_FENCE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct fence_state {
    bool can; /* it may have all others run a fence */
    _Atomic bool fenced, late; /* it runs those that others ask for; it may do so soon */
    pthread_t thread;
    bool thread_runs;
};

#endif
