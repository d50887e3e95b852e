/* Asymmetric fences: a thread that is about to sleep makes all others run one (`membarrier`), so that writers by load
 * and store need none of their own. */
#include "core/membarrier.h"
#include "core/engine_state.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NO_THREADS 3 /* links of a process's task directory: its own two, and one for each thread */

int membarrier_all(void)
{
    return (int)syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

/* From now on this process runs the fences that others request. */
static void *let_in(void *engine)
{
    acp_engine *e = engine;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0)
        atomic_store(&e->fence.fenced, true);
    atomic_store(&e->fence.late, false);
    return NULL;
}

/* If the process has threads, MPI's, the kernel takes a grace period of all processors, 5 to 20 ms, to
 * let it in: a thread waits for that, and this process runs its own fences meanwhile. */
void membarrier_start(acp_engine *e)
{
    struct stat tasks;
    sigset_t all, before;
    e->fence.can = membarrier_all() == 0;
    if (!e->fence.can)
        return;
    if (!stat("/proc/self/task", &tasks) && tasks.st_nlink <= NO_THREADS) {
        let_in(e);
        return;
    }
    atomic_store(&e->fence.late, true);
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    e->fence.thread_runs = pthread_create(&e->fence.thread, NULL, let_in, e) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!e->fence.thread_runs)
        let_in(e);
}

void membarrier_join(acp_engine *e)
{
    if (e->fence.thread_runs)
        pthread_join(e->fence.thread, NULL);
    e->fence.thread_runs = false;
}
