/* MPI_Finalize, for a process that must not call it. */
#ifndef ACP_SKIP_FINALIZE_H
#define ACP_SKIP_FINALIZE_H

#include <stdbool.h>

/* From now on MPI_Finalize does nothing, even if mpi4py calls it when Python has ended: after the loss of a rank it
 * hangs or aborts. The process ends before any exit handler of C that was there already, with the exit code that it
 * would have had, or another instead of 0. False: the system forbids it. One thread at a time. */
bool skip_finalize_install(int instead_of_0);

#endif
