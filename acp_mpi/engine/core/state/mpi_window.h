/* The MPI window. */
#ifndef ACP_STATE_MPI_WINDOW_H
#define ACP_STATE_MPI_WINDOW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct window;

/* The state of this process at a peer that drives MPI for it. */
struct visit {
    uint32_t operations;
    bool welcome; /* the peer has answered */
    bool stays;   /* counted in `stays` until it leaves */
    uint64_t announced, until;
};

#define ARRAYS_KNOWN 16u

struct mpi_state {
    struct window *_Atomic window; /* NULL: none */
    _Atomic uint32_t guests; /* peers that need MPI driven here */
    _Atomic uint32_t stays;  /* peers that drive MPI for this process, maybe for nothing */
    uint64_t lively; /* guests count as busy until this time, ns */
};

/* Of a peer. */
struct peer_mpi {
    bool guest; /* it needs this process to drive MPI */
    struct visit visit; /* of this process at the peer */
    _Atomic uint64_t heap_known; /* end of what its owner has shown of its window part, bytes */
    /* Arrays in its window part: page << ARRAY_SHIFT | length, bytes; 0: free. Written with the lock held */
    _Atomic uint64_t arrays[ARRAYS_KNOWN];
    uint32_t oldest;      /* of these */
    bool array_requested; /* the answer is on its way */
};

#endif
