/* The calls of MPI that the engine makes, taken at run time from the library that the program
 * has loaded already, so that one build serves every MPI. Handles are 32-bit integers in
 * MPICH and pointers elsewhere; both travel in a uintptr_t. */
#ifndef ACP_SYMBOLS_H
#define ACP_SYMBOLS_H

#include <stdint.h>

struct mpi {
    int (*put)(const void *origin, int count, uintptr_t type, int target, intptr_t displacement,
               int target_count, uintptr_t target_type, uintptr_t window);
    int (*get)(void *origin, int count, uintptr_t type, int target, intptr_t displacement,
               int target_count, uintptr_t target_type, uintptr_t window);
    int (*flush)(int target, uintptr_t window);
    int (*iprobe)(int source, int tag, uintptr_t comm, int *flag, void *status);
    int (*finalize)(void);
};

/* `user` is the path of a loaded object that calls MPI itself, as mpi4py's module does: its dependencies are searched;
 * NULL: the program. Returns NULL, or the name of a missing function. */
const char *symbols_find(struct mpi *mpi, const char *user);

#endif
