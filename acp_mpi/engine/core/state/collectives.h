/* Background collectives, which go on by themselves. */
#ifndef ACP_STATE_COLLECTIVES_H
#define ACP_STATE_COLLECTIVES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct acp_collective;

struct collectives_state {
    pthread_mutex_t lock; /* the list of background collectives; its holder drives them */
    struct acp_collective *first;
    _Atomic uint32_t count;
    _Atomic uint32_t drivers; /* threads that advance a collective of their own */
    _Atomic bool news;   /* a background collective may go on; the lock's holder checks it */
    _Atomic bool again; /* a retry is due that no event will trigger */
};

#endif
