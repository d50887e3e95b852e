/* Marks of copies that a device runs, at the owners of the memory. A lane's flags (translate.h) cannot serve, for a
 * copy outlives its call, and several run at once. The last two flags of an attach line take turns: each is odd while
 * copies of its turn run, and new ones take the other turn as soon as that is empty. So each turn ends, however busy
 * the device is, and an owner that waits for a flag to change waits for the copies of one turn only. */
#include "devices/device_mark.h"

static _Atomic uint32_t *flag_of(struct peer *p, uint32_t turn)
{
    return &p->shm.doors->lines[p->shm.line].busy[2 * ATTACH_LANES + turn];
}

bool device_mark_enter(acp_engine *e, const struct translation *t, uint32_t *turn)
{
    struct peer *p = t->peer;
    struct peer_devices *d = &p->devices;
    pthread_mutex_lock(&e->devices.lock);
    if (d->running[d->turn] && !d->running[!d->turn])
        d->turn = !d->turn;
    *turn = d->turn;
    if (d->running[*turn]++ == 0)
        atomic_fetch_add(flag_of(p, *turn), 1);
    pthread_mutex_unlock(&e->devices.lock);
    atomic_thread_fence(memory_order_seq_cst); /* against the owner, which ends the region and then looks at the flags */
    if (atomic_load(t->generation) == t->live)
        return true;
    device_mark_leave(e, p, *turn);
    return false;
}

void device_mark_leave(acp_engine *e, struct peer *p, uint32_t turn)
{
    pthread_mutex_lock(&e->devices.lock);
    if (--p->devices.running[turn] == 0)
        atomic_fetch_add(flag_of(p, turn), 1);
    pthread_mutex_unlock(&e->devices.lock);
}
