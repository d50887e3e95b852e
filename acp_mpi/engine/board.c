/* The job's notice board: names (128-bit keys) with 16 bytes each, kept by the rank that the
 * key selects. A lookup of a name that is not there waits at its keeper until it is.
 *
 * The keeper says since when a value stands there. When it is lost all who have stored something give it to
 * the next one, in any order, and what stood there last stays: whoever was replaced does not know it. */
#include "op.h"
#include "sources.h"

#include <stdlib.h>
#include <time.h>

#define LOOKUP_ENDS 1u

struct name {
    uint64_t key[2], value[2], since;
    struct name *next;
};

static struct name *find(acp_engine *e, const uint64_t key[2])
{
    for (struct name *n = e->names; n; n = n->next)
        if (n->key[0] == key[0] && n->key[1] == key[1])
            return n;
    return NULL;
}

static bool waits_for(const struct op *op, const uint64_t key[2])
{
    return op->state == OP_WAITING && op->command.kind == ACP_LOOKUP &&
           op->command.dst == key[0] && op->command.src == key[1];
}

/* Later than what is there, also where the clocks of two keepers differ. */
static uint64_t after(const struct name *n)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return n && n->since >= now ? n->since + 1 : now;
}

/* *since 0: from now on, which it is set to; else the value stood at another keeper since then. */
static int store(acp_lane *lane, const uint64_t key[2], const uint64_t value[2], uint64_t *since)
{
    acp_engine *e = lane->engine;
    struct name *n = find(e, key);
    if (!*since)
        *since = after(n);
    if (n && *since <= n->since)
        return ACP_OK;
    if (!n) {
        n = malloc(sizeof *n);
        if (!n)
            return fail(lane, ACP_E_SYSTEM, 0, 0);
        *n = (struct name){.key = {key[0], key[1]}, .next = e->names};
        e->names = n;
    }
    n->value[0] = value[0];
    n->value[1] = value[1];
    n->since = *since;
    for (struct op *op = e->tasks, *next; op; op = next) {
        next = op->next_task;
        if (waits_for(op, key)) {
            op->result = value[0];
            op->command.b = value[1];
            if (op->kept)
                progress_kick(e); /* the thread that waits may sleep as the leader */
            op_finish(lane, op);
            next = e->tasks; /* the list has changed */
        }
    }
    return ACP_OK;
}

static void forget(acp_engine *e, const struct peer *from, uint64_t id)
{
    for (struct op *op = e->tasks; op; op = op->next_task)
        if (op->client == from && op->client_id == id && op->state == OP_WAITING &&
            op->command.kind == ACP_LOOKUP) {
            task_free(e, op);
            return;
        }
}

/* PUBLISH or LOOKUP from another process: dst and src carry the key, a and b the value, `after` since when it
 * stands, as does `a` of the answer; a LOOKUP with LOOKUP_ENDS in a is one that nobody waits for any more. */
void board_serve(acp_lane *lane, struct peer *from, struct link *link, const struct message *m)
{
    acp_engine *e = lane->engine;
    const uint64_t key[2] = {m->dst, m->src}, value[2] = {m->a, m->b};
    struct message answer = *m;
    uint64_t first = 0;
    if (m->kind == ACP_PUBLISH) {
        first = m->after;
        if (store(lane, key, value, &first) != ACP_OK) {
            serve_failure(lane, from, link, m);
            return;
        }
    } else if (m->a == LOOKUP_ENDS) {
        forget(e, from, m->id);
        return;
    } else {
        struct name *n = find(e, key);
        if (!n) {
            struct op *op = task_new(e);
            if (op) {
                op->command = *m;
                op->client = from;
                op->client_link = link;
                op->client_id = m->id;
            } else {
                fail(lane, ACP_E_SYSTEM, 0, 0);
                serve_failure(lane, from, link, m);
            }
            return;
        }
        first = n->value[0];
        answer.b = n->value[1];
    }
    serve_reply(lane, from, link, &answer, first);
}

/* Who asks again and again must not leave a question each time. */
static void take_back(acp_lane *lane, struct peer *keeper, const struct op *op)
{
    struct message m = op->command;
    m.id = op_id(op);
    m.from = lane->engine->self;
    m.a = LOOKUP_ENDS;
    road_to(lane->engine, keeper)->send(lane, keeper, 0, &m);
}

struct answer_wait {
    acp_engine *engine;
    const struct op *op;
};

/* The answer, or the loss of a rank: perhaps of the one that was to publish. */
static bool answered(void *context)
{
    struct answer_wait *w = context;
    return w->op->state == OP_DONE || w->engine->losses != w->engine->losses_accepted;
}

/* Sends one message to the process in `slot` and waits for its reply: values in reply[0..1]. */
static int ask_peer(acp_engine *e, uint32_t slot, const struct message *question, uint64_t reply[2],
                    int64_t timeout_ns, acp_doing doing)
{
    acp_lane *lane = &e->lanes[LANE_LOCKED];
    struct peer *p = peer_of_slot(e, slot);
    const uint64_t key[2] = {question->dst, question->src};
    const uint64_t value[2] = {question->a, question->b};
    pthread_mutex_lock(&e->lock);
    struct op *op = task_new(e);
    if (!op) {
        pthread_mutex_unlock(&e->lock);
        return ACP_E_SYSTEM;
    }
    op->kept = true;
    op->command = *question;
    op->target = p;
    int rc = ACP_OK;
    struct name *n;
    if (p != e->own) {
        struct message m = *question;
        m.id = op_id(op);
        m.from = e->self;
        op->state = OP_RUNNING;
        op->way = WAY_ASK;
        op->in_flight = 1;
        rc = road_to(e, p)->send(lane, p, 0, &m);
    } else if (question->kind == ACP_PUBLISH) {
        op->result = question->after;
        rc = store(lane, key, value, &op->result);
        op->state = OP_DONE;
    } else if ((n = find(e, key))) {
        op->result = n->value[0];
        op->command.b = n->value[1];
        op->state = OP_DONE;
    }
    pthread_mutex_unlock(&e->lock);
    struct answer_wait w = {e, op};
    if (rc == ACP_OK && !answered(&w))
        rc = (question->kind == ACP_LOOKUP ? wait_for_anybody : progress_wait)(
            e, answered, &w, timeout_ns, doing);
    pthread_mutex_lock(&e->lock);
    if (rc == ACP_OK)
        rc = op->state == OP_DONE ? op->fault.status : ACP_E_LOST;
    reply[0] = op->result;
    reply[1] = op->command.b;
    if (op->state == OP_RUNNING && question->kind == ACP_LOOKUP && !p->lost)
        take_back(lane, p, op);
    task_free(e, op);
    pthread_mutex_unlock(&e->lock);
    return rc;
}

/* Who keeps a name in place of a lost rank: the next one, for all who have accepted that loss. */
static uint32_t keeper(acp_engine *e, const uint64_t key[2])
{
    uint32_t first = (uint32_t)(key[0] % e->founders), past = 0;
    pthread_mutex_lock(&e->lock);
    while (past < e->founders &&
           peer_of_slot(e, slot_of_rank(e, (first + past) % e->founders))->loss_accepted)
        past++;
    pthread_mutex_unlock(&e->lock);
    return slot_of_rank(e, (first + past) % e->founders);
}

int acp_publish(acp_engine *e, const uint64_t key[2], const uint64_t value[2], uint64_t *since,
                int64_t timeout_ns)
{
    struct message m = {.kind = ACP_PUBLISH, .dst = key[0], .src = key[1], .a = value[0],
                        .b = value[1], .after = since ? *since : 0};
    uint64_t reply[2];
    int rc = ask_peer(e, keeper(e, key), &m, reply, timeout_ns, ACP_DOING_LOOKUP);
    if (rc == ACP_OK && since)
        *since = reply[0];
    return rc;
}

int acp_lookup(acp_engine *e, const uint64_t key[2], uint64_t value[2], int64_t timeout_ns)
{
    struct message m = {.kind = ACP_LOOKUP, .dst = key[0], .src = key[1]};
    return ask_peer(e, keeper(e, key), &m, value, timeout_ns, ACP_DOING_LOOKUP);
}

int acp_peer_doing(acp_engine *e, uint32_t rank, acp_doing *doing)
{
    struct peer *p = peer_of_slot(e, slot_of_rank(e, rank));
    struct message m = {.kind = ACP_DOING};
    uint64_t reply[2] = {0, 0};
    int rc = p->lost ? ACP_E_LOST : ACP_OK, relation = RELATION_UNKNOWN;
    if (rc == ACP_OK)
        relation = peer_attach(e, p);
    if (p->lost)
        return ACP_E_LOST;
    if (relation != RELATION_REMOTE) {
        *doing = (acp_doing)doing_of(p->control);
        return ACP_OK;
    }
    rc = ask_peer(e, p->slot, &m, reply, 1000000000, (acp_doing)doing_of(e->control));
    *doing = (acp_doing)reply[0];
    return rc;
}

void board_close(acp_engine *e)
{
    while (e->names) {
        struct name *n = e->names;
        e->names = n->next;
        free(n);
    }
}
