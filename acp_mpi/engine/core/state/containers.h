/* Containers of this rank. */
#ifndef ACP_STATE_CONTAINERS_H
#define ACP_STATE_CONTAINERS_H

#include <stdatomic.h>
#include <stdint.h>

struct containers_state {
    _Atomic uint64_t serials; /* last serial of a container here */
};

#endif
