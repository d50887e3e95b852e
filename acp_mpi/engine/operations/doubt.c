/* Commands whose cell in the owner's ring a wild pointer has written over, or that of their answer. A thread that waits
 * for long asks the owner about each command, by the same ring. A ring keeps the order of its writer: when the owner
 * reads the question it has read all commands before it, and its answers to these come before the answer to the
 * question. A command that it does not know then, and that has no answer, will have none: it, or its answer, was lost.
 *
 * Nothing of such a command is left in the owner's ring, where a cell once skipped is never read again, and no task of
 * the owner works at it. So its chunks serve others at once. */
#include "operations/doubt.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "operations/op_table.h"
#include "operations/protocol_shm.h"
#include "operations/task.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/wait.h"
#include "transport/link.h"
#include "transport/shm_ring.h"

#include <errno.h>

#define DOUBT_ANSWER 1u /* flags */
#define DOUBT_KNOWN 2u

static bool owes(const struct peer *p, const struct op *op)
{
    return op->state == OP_RUNNING && op->in_flight && op->road == &road_ring && op->target == p;
}

/* The first operation from that number on for which p owes an answer; tasks come last. */
static const struct op *next_from(acp_engine *e, const struct peer *p, uint64_t id)
{
    const struct op *next = NULL;
    uint64_t from = id > e->ops.watermark ? id : e->ops.watermark + 1;
    for (acp_handle_t h = (from + 1) & ~(uint64_t)1; h <= e->ops.last; h += 2) {
        const struct op *op = op_table_find(e, h);
        if (op && owes(p, op))
            return op;
    }
    for (const struct op *op = e->ops.tasks; op; op = op->next_task)
        if (op_table_id(op) >= id && owes(p, op) && (!next || op_table_id(op) < op_table_id(next)))
            next = op;
    return next;
}

/* The question names what was sent and heard so far: its answer is about that alone. */
static void ask_from(acp_lane *lane, struct peer *p, uint64_t id)
{
    const struct op *op = next_from(lane->engine, p, id);
    p->ops.asked = op && !p->ring.backlog ? op_table_id(op) : 0;
    if (!p->ops.asked)
        return;
    struct message m = {.kind = ACP_DOUBT, .from = lane->engine->self, .id = op_table_id(op), .a = op->issued,
                        .b = op->in_flight, .after = op->command.kind};
    shm_ring_send(lane, p, 0, &m);
}

/* One question at a time to each owner, ever more seldom while it is silent: it may have been stopped, and its ring
 * must not fill. */
static void ask_all(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    uint64_t now = linux_now_ns();
    bool any = false;
    if (now - e->ops.doubted_at < wait_doubt_ns(e) / 2)
        return;
    e->ops.doubted_at = now;
    for (struct peer *p = NULL; (p = peer_next(e, p));) {
        if (p->lost || !(p->ring.backlog || next_from(e, p, 0))) /* a tail beyond all cells makes a ring look full */
            continue;
        any = true;
        shm_ring_doubt(e, p);
        uint32_t silences = p->ops.asked ? ++p->ops.silences : 0;
        if (!(silences & (silences - 1)))
            ask_from(lane, p, p->ops.asked);
    }
    if (any)
        shm_ring_doubt(e, e->job.own);
}

void doubt_commands(acp_engine *e)
{
    pthread_mutex_lock(&e->lock);
    ask_all(&e->lanes[LANE_LOCKED]);
    pthread_mutex_unlock(&e->lock);
}

/* No answer where some of those before may have gone by a link: two roads keep no order. */
static void answer(acp_lane *lane, struct peer *from, const struct message *question)
{
    acp_engine *e = lane->engine;
    struct message m = *question;
    if (peer_attach(e, from) != RELATION_NODE || links_reach(e, from))
        return;
    bool known = task_of(e, from, m.id) != NULL;
    m.flags = DOUBT_ANSWER | (known ? DOUBT_KNOWN : 0);
    m.from = e->self;
    shm_ring_send(lane, from, 0, &m);
    if (known) /* it may wait for others itself */
        ask_all(lane);
}

void doubt_heard(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                 const unsigned char *payload, uint64_t size)
{
    acp_engine *e = lane->engine;
    (void)payload;
    (void)size;
    if (link)
        return;
    if (!(m->flags & DOUBT_ANSWER)) {
        answer(lane, from, m);
        return;
    }
    struct op *op = op_table_find(e, m->id);
    if (op && owes(from, op) && !(m->flags & DOUBT_KNOWN) && op->issued == m->a && op->in_flight == m->b &&
        op->command.kind == m->after) {
        acp_fault fault = {.status = ACP_E_DAMAGED, .error = EBADMSG, .rank = rank_table_rank(e, from->slot)};
        op_table_lose(lane, op, &fault);
    }
    if (m->id == from->ops.asked) {
        from->ops.silences = 0;
        ask_from(lane, from, m->id + 1);
    }
}
