/* Collectives that go on by themselves. */
#ifndef ACP_STATE_COLLECTIVES_H
#define ACP_STATE_COLLECTIVES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct acp_collective;

struct collectives_state {
    pthread_mutex_t lock; /* those that go on by themselves: who drives them */
    struct acp_collective *first;
    _Atomic uint32_t count;
    _Atomic uint32_t drivers; /* threads that take one further which is theirs alone */
    _Atomic bool resets;      /* they come back when that is over */
    _Atomic bool news;   /* one of them may go on: asked of whoever has the lock */
    _Atomic bool again; /* nobody will ring for it */
};

#endif
