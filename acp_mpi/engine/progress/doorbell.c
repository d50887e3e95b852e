/* Waking a process of the node: an event counter each, of which its peers have a descriptor. They ring only when the
 * owner has marked itself asleep, or has a thread asleep until certain bytes change. */
#include "progress/doorbell.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"

#include <errno.h>
#include <unistd.h>

/* Under the lock that closing takes: after that the number may name another file. Its holders never wait. */
static void ring(acp_engine *e, const int *door)
{
    uint64_t one = 1;
    pthread_mutex_lock(&e->progress.bell);
    ssize_t n = *door < 0 ? 0 : write(*door, &one, sizeof one);
    pthread_mutex_unlock(&e->progress.bell);
    (void)n;
}

void doorbell_ring(acp_engine *e, const struct peer *p)
{
    atomic_fetch_add_explicit(&e->progress.rings, 1, memory_order_relaxed);
    ring(e, p == e->job.own ? &e->progress.door_fd : &p->shm.door_fd);
}

/* No ring is lost on a thread that dozes. The thread takes the count before it sets `dozing`, and checks its condition
 * after that: it sees everything that was there when the count was taken. A later ring either comes before the sleep,
 * which the changed count then prevents, or finds `dozing` set, or another ring has cleared that. The other ring
 * changes the count once more before it wakes: a thread that is not asleep by then does not fall asleep, and it will
 * check again. Without the second change a thread that took the count between the two halves of that ring would sleep
 * on, with `dozing` cleared, and the next ring, its own, would wake no thread. */
void doorbell_wake(struct doors *doors)
{
    atomic_fetch_add(&doors->event, 1);
    if (atomic_load(&doors->dozing) && atomic_exchange(&doors->dozing, 0)) {
        atomic_fetch_add(&doors->event, 1);
        linux_futex_wake(&doors->event, true);
    }
}

bool doorbell_doze(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns)
{
    struct doors *d = e->doors;
    uint32_t seen = atomic_load(&d->event);
    atomic_store(&d->dozing, 1);
    return ready(context) || linux_futex_wait(&d->event, seen, timeout_ns, true) >= 0 || errno != EINTR;
}

void doorbell_kick(acp_engine *e)
{
    ring(e, &e->progress.door_fd);
}

/* Bytes at `position` of p's memory (its offset, or a virtual address of registered memory) were written: wakes
 * threads that sleep on them, once until they sleep again. */
void doorbell_notify(acp_engine *e, struct peer *p, uint64_t position, uint64_t size)
{
    for (uint32_t i = 0; i < WATCHES; i++) {
        struct watch *w = &p->shm.doors->watches[i];
        if (position < w->high && position + size > w->low && atomic_exchange(&w->armed, 0))
            doorbell_ring(e, p);
    }
}
