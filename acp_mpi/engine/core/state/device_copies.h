/* Copies that devices run. */
#ifndef ACP_STATE_DEVICE_COPIES_H
#define ACP_STATE_DEVICE_COPIES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct device_job;
struct relay_room;

struct device_copies_state { /* with the engine's lock, which is taken inside the first */
    pthread_mutex_t asking; /* a copy that runs is asked for, or a stream put behind it */
    struct device_job *ready;   /* to be started by a thread without the lock, the oldest first */
    struct device_job *running; /* copies under way, and operations behind the program's streams */
    _Atomic uint32_t running_count;
    _Atomic uint32_t due;       /* enum due, of those */
    _Atomic bool waits;         /* some are ready */
    struct relay_room *rooms;   /* unused ones */
    uint32_t room_count;        /* of all */
};

#endif
