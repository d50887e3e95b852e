/* Target assistance. Where MPI moves nothing unless its target calls it, the target of a put or get by the window must
 * drive MPI meanwhile: the origin requests that by link, as a guest, and starts when the target has answered. A guest
 * stays a while after its last operation, since another often follows and would otherwise pay for a round trip by link
 * first. */
#include "mpi_window/target_assist.h"
#include "base/linux.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "mpi_window/window_arrays.h"
#include "operations/answer.h"
#include "operations/op_table.h"
#include "operations/protocol_tcp.h"
#include "peers/peer.h"
#include "progress/reactor.h"
#include "transport/link.h"

#define STAY_NS ((uint64_t)1000000)
#define LIVELY_NS ((uint64_t)20000000) /* time after a guest's message in which the target polls without pause */

static int announce(acp_lane *lane, struct peer *to, uint32_t color, uint64_t id, bool come)
{
    struct message m = {.kind = ACP_GUEST, .from = lane->engine->self, .id = id, .a = come};
    return road_link.send(lane, to, color, &m);
}

int acp_window_visit(acp_engine *e, uint32_t rank, bool come)
{
    pthread_mutex_lock(&e->lock);
    int rc = announce(&e->lanes[LANE_LOCKED], peer_of_slot(e, rank_slot_of(e, rank)), 0, 0, come);
    pthread_mutex_unlock(&e->lock);
    return rc;
}

int target_assist_begin(acp_lane *lane, struct op *op, bool *welcome)
{
    struct visit *v = &op->target->mpi.visit;
    uint64_t now = linux_now_ns();
    *welcome = v->welcome;
    if (!v->welcome || now - v->announced > LIVELY_NS / 4) {
        int rc = announce(lane, op->target, op->color, v->welcome ? 0 : op_table_id(op), true);
        if (rc != ACP_OK)
            return rc;
        v->announced = now;
    }
    v->operations++;
    return ACP_OK;
}

void target_assist_welcome(struct peer *host)
{
    host->mpi.visit.welcome = true;
}

void target_assist_end(acp_lane *lane, struct peer *host)
{
    acp_engine *e = lane->engine;
    struct visit *v = &host->mpi.visit;
    if (--v->operations || host->lost)
        return;
    v->until = linux_now_ns() + STAY_NS;
    if (!v->stays)
        atomic_fetch_add(&e->mpi.stays, 1);
    v->stays = true;
    reactor_timer(e, v->until);
}

static void leave_host(acp_lane *lane, struct peer *host)
{
    struct visit *v = &host->mpi.visit;
    atomic_fetch_sub(&lane->engine->mpi.stays, v->stays);
    v->stays = v->welcome = false;
    if (!host->lost)
        announce(lane, host, 0, 0, false);
}

void target_assist_tick(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    uint64_t now = linux_now_ns();
    for (struct peer *p = NULL; atomic_load(&e->mpi.stays) && (p = peer_next(e, p));) {
        struct visit *v = &p->mpi.visit;
        if (!v->stays)
            continue;
        if (!v->operations && now >= v->until)
            leave_host(lane, p);
        else
            reactor_timer(e, v->operations ? now + STAY_NS : v->until);
    }
}

void target_assist_end_all(acp_lane *lane)
{
    for (struct peer *p = NULL; (p = peer_next(lane->engine, p));)
        if (p->mpi.visit.stays)
            leave_host(lane, p);
}

/* A peer requests assistance, or ends it. */
void target_assist_heard(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                         const unsigned char *payload, uint64_t size)
{
    (void)payload;
    (void)size;
    acp_engine *e = lane->engine;
    bool come = m->a;
    if (m->a > 1) {
        window_arrays_heard(lane, from, m);
        return;
    }
    if (come)
        e->mpi.lively = linux_now_ns() + LIVELY_NS;
    if (from->mpi.guest != come)
        atomic_fetch_add(&e->mpi.guests, come ? 1 : -1);
    from->mpi.guest = come;
    if (come && m->id)
        answer_value(lane, from, link, m, 0);
}

void target_assist_forget(acp_engine *e, struct peer *p)
{
    atomic_fetch_sub(&e->mpi.guests, p->mpi.guest);
    atomic_fetch_sub(&e->mpi.stays, p->mpi.visit.stays);
    p->mpi.guest = p->mpi.visit.stays = p->mpi.visit.welcome = false;
}
