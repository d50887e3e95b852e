/* MPI_Finalize: it waits for threads beside the program's, or does nothing where a process must not call it. */
#ifndef ACP_FINALIZE_H
#define ACP_FINALIZE_H

#include <stdbool.h>

/* From now on a call of MPI_Finalize first waits until no thread is between the two functions below, and keeps all out;
 * then it calls `function`, which is MPI's own. False: the system forbids it. One thread at a time. */
bool finalize_wait(int (*function)(void));

/* Around each call of MPI by a thread that the program does not know. False: MPI has ended, no call. */
bool finalize_enter(void);
void finalize_leave(void);

/* From now on MPI_Finalize does nothing, even if mpi4py calls it when Python has ended: after the loss of a rank it
 * hangs or aborts. The process ends before any exit handler of C that was there already, with the exit code that it
 * would have had, or another instead of 0. False: the system forbids it. One thread at a time. */
bool finalize_skip(int instead_of_0);

#endif
