/* A pipe with macprun at its other end: the end of input there means that both its processes are gone. Then the rank
 * is to end, too, whatever has started it for them. */
#include "progress/lifeline.h"
#include "core/engine_state.h"
#include "progress/reactor.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define GRACE_S 1 /* for the program's own handler of SIGTERM */

int acp_lifeline(acp_engine *e, int fd)
{
    pthread_mutex_lock(&e->lock);
    e->progress.lifeline_fd = fd;
    int rc = reactor_add(e, fd, 0, TAG_LIFELINE) ? ACP_E_SYSTEM : ACP_OK; /* EPOLLHUP is always reported */
    pthread_mutex_unlock(&e->lock);
    return rc;
}

static void *kill_after_grace(void *nothing)
{
    struct timespec grace = {.tv_sec = GRACE_S};
    nanosleep(&grace, NULL);
    kill(getpid(), SIGKILL);
    return nothing;
}

void lifeline_ended(acp_engine *e)
{
    pthread_t killer;
    sigset_t all, before;
    epoll_ctl(e->progress.epoll_fd, EPOLL_CTL_DEL, e->progress.lifeline_fd, NULL);
    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&killer, NULL, kill_after_grace, NULL))
        kill(getpid(), SIGKILL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_detach(killer);
    kill(getpid(), SIGTERM);
}
