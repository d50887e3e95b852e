/* The name service of the job: names (128-bit keys) with 16 bytes each, kept by the rank that the key selects. A
 * lookup of an unpublished name waits at its keeper until it is published.
 *
 * The keeper gives each value the time from which it is valid. When the keeper is lost all publishers give their
 * values to the next one, in any order, and the latest stays. A publisher remembers a value while it is valid: the
 * keeper tells it when another rank has replaced the value, and the memory behind it is given back. */
#include "membership/name_service.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "operations/any_source.h"
#include "operations/answer.h"
#include "operations/op_table.h"
#include "operations/route.h"
#include "operations/task.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/doorbell.h"
#include "progress/wait.h"
#include "transport/link.h"

#include <stdlib.h>
#include <time.h>

#define LOOKUP_ENDS 1u
#define PUBLISH_WITHDRAW 4u /* flags of a PUBLISH, beside ACP_REPLACE */
#define PUBLISH_ENDED 8u    /* from the keeper: another rank's value is valid since `after` */

struct name {
    uint64_t key[2], value[2];
    uint64_t since; /* time from which the value is valid; 0: the keeper has not answered yet */
    uint64_t ended; /* with `since` 0: latest known time at which another value became valid; 0: none */
    uint32_t slot;  /* of its publisher */
    struct name *next;
};

static bool is_named(const struct name *n, const uint64_t key[2])
{
    return n->key[0] == key[0] && n->key[1] == key[1];
}

static struct name *name_find(acp_engine *e, const uint64_t key[2])
{
    for (struct name *n = e->sync.names; n; n = n->next)
        if (is_named(n, key))
            return n;
    return NULL;
}

static bool is_in(const struct name *list, const struct name *n)
{
    while (list && list != n)
        list = list->next;
    return list != NULL;
}

static void name_unlink(struct name **list, const struct name *gone)
{
    while (*list != gone)
        list = &(*list)->next;
    *list = gone->next;
}

static bool waits_for(const struct op *op, const uint64_t key[2])
{
    return op->state == OP_WAITING && op->command.kind == ACP_LOOKUP &&
           op->command.dst == key[0] && op->command.src == key[1];
}

/* A time later than that of the present value, even if the clocks of two keepers differ. */
static uint64_t after(const struct name *n)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return n && n->since >= now ? n->since + 1 : now;
}

/* Ends this process's values under that key that are valid since a time before `since`; also those that the keeper has
 * not confirmed, unless their request may still be under way (`asked`). */
static void offers_end(acp_engine *e, const uint64_t key[2], uint64_t since, bool asked)
{
    for (struct name **at = &e->sync.offers, *n; (n = *at);) {
        bool older = is_named(n, key) && n->since < since;
        if (older && (n->since || !asked)) {
            *at = n->next;
            n->next = e->sync.ended;
            e->sync.ended = n;
            continue;
        }
        if (older && n->ended < since)
            n->ended = since;
        at = &n->next;
    }
    if (e->sync.ended)
        doorbell_kick(e); /* the leader gives the memory back */
}

/* Frees the memory behind ended values; the caller holds no lock. */
void acp_names_bury(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    pthread_mutex_lock(&e->lock);
    struct name *list = e->sync.ended;
    e->sync.ended = NULL;
    pthread_mutex_unlock(&e->lock);
    while (list) {
        struct name *n = list;
        list = n->next;
        acp_memory_drop(lane, e->memory.base + acp_ga_offset(n->value[0]), n->value[1]);
        free(n);
    }
}

static void tell_publisher(acp_lane *lane, const struct name *n, uint64_t since)
{
    acp_engine *e = lane->engine;
    struct peer *p = peer_of_slot(e, n->slot);
    struct message m = {.kind = ACP_PUBLISH, .flags = PUBLISH_ENDED, .from = e->self, .dst = n->key[0],
                        .src = n->key[1], .after = since};
    if (p == e->job.own)
        offers_end(e, n->key, since, true);
    else if (!p->lost)
        route_road(e, p)->send(lane, p, 0, &m);
}

static void answer_lookups(acp_lane *lane, const struct name *n)
{
    acp_engine *e = lane->engine;
    for (struct op *op = e->ops.tasks, *next; op; op = next) {
        next = op->next_task;
        if (waits_for(op, n->key)) {
            op->result = n->value[0];
            op->command.b = n->value[1];
            if (op->kept)
                doorbell_kick(e); /* the thread that waits may sleep as the leader */
            op_table_finish(lane, op);
            next = e->ops.tasks; /* the list has changed */
        }
    }
}

/* A PUBLISH of the process in slot `from`. *since: the time from which the present value is valid; m->after, if
 * another keeper had it since then. ACP_E_TAKEN: the fault names the publisher; 0: none. */
static int store(acp_lane *lane, uint32_t from, const struct message *m, uint64_t *since)
{
    acp_engine *e = lane->engine;
    const uint64_t key[2] = {m->dst, m->src};
    struct name *n = name_find(e, key);
    bool withdraw = m->flags & PUBLISH_WITHDRAW, forced = m->flags & ACP_REPLACE || m->after;
    *since = m->after ? m->after : after(n);
    if (n ? n->slot != from && !forced && (withdraw || !peer_of_slot(e, n->slot)->lost) : withdraw) {
        acp_ga_t whose = n ? acp_starter(e, rank_table_rank(e, n->slot)) : ACP_GA_NULL;
        return lane_fail(lane, ACP_E_TAKEN, whose, 0);
    }
    if (withdraw) {
        name_unlink(&e->sync.names, n);
        free(n);
        return ACP_OK;
    }
    if (n && *since <= n->since) {
        *since = n->since;
        return ACP_OK;
    }
    if (!n) {
        n = malloc(sizeof *n);
        if (!n)
            return lane_fail(lane, ACP_E_SYSTEM, 0, 0);
        *n = (struct name){.key = {key[0], key[1]}, .next = e->sync.names};
        e->sync.names = n;
    } else if (n->slot != from) {
        tell_publisher(lane, n, *since);
    }
    n->value[0] = m->a;
    n->value[1] = m->b;
    n->since = *since;
    n->slot = from;
    answer_lookups(lane, n);
    return ACP_OK;
}

static void names_forget(acp_engine *e, const struct peer *from, uint64_t id)
{
    for (struct op *op = e->ops.tasks; op; op = op->next_task)
        if (op->client == from && op->client_id == id && op->state == OP_WAITING &&
            op->command.kind == ACP_LOOKUP) {
            task_free(e, op);
            return;
        }
}

/* PUBLISH or LOOKUP from another process: dst and src carry the key, a and b the value, `after` the time from which it
 * is valid, as does `a` of the answer; a LOOKUP with LOOKUP_ENDS in `a` cancels an earlier one. */
void name_service_serve(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                        const unsigned char *payload, uint64_t size)
{
    (void)payload;
    (void)size;
    acp_engine *e = lane->engine;
    const uint64_t key[2] = {m->dst, m->src};
    struct message answer = *m;
    uint64_t first = 0;
    if (m->kind == ACP_PUBLISH && m->flags & PUBLISH_ENDED) {
        offers_end(e, key, m->after, true);
        return;
    }
    if (m->kind == ACP_PUBLISH) {
        if (store(lane, from->slot, m, &first) != ACP_OK) {
            answer_fail(lane, from, link, m);
            return;
        }
    } else if (m->a == LOOKUP_ENDS) {
        names_forget(e, from, m->id);
        return;
    } else {
        struct name *n = name_find(e, key);
        if (!n) {
            struct op *op = task_new(e);
            if (op) {
                op->command = *m;
                op->client = from;
                op->client_link = link;
                op->client_id = m->id;
            } else {
                lane_fail(lane, ACP_E_SYSTEM, 0, 0);
                answer_fail(lane, from, link, m);
            }
            return;
        }
        first = n->value[0];
        answer.b = n->value[1];
    }
    answer_value(lane, from, link, &answer, first);
}

/* Cancels a lookup at its keeper, so that repeated lookups do not pile up there. */
static void offer_take_back(acp_lane *lane, struct peer *keeper, const struct op *op)
{
    struct message m = op->command;
    m.id = op_table_id(op);
    m.from = lane->engine->self;
    m.a = LOOKUP_ENDS;
    route_road(lane->engine, keeper)->send(lane, keeper, 0, &m);
}

struct answer_wait {
    acp_engine *engine;
    const struct op *op;
};

/* The answer, or the loss of a rank: perhaps of the future publisher. */
static bool answered(void *context)
{
    struct answer_wait *w = context;
    return w->op->state == OP_DONE || w->engine->job.losses != w->engine->job.losses_accepted;
}

static void watch_all(acp_engine *e, const void *nobody)
{
    (void)nobody;
    any_source_watch(e, NULL);
}

static int publishers_gone(acp_engine *e, const void *nobody)
{
    (void)nobody;
    return any_source_gone(e, NULL);
}

static int ask_peer(acp_engine *e, uint32_t slot, const struct message *question, uint64_t reply[2],
                    int64_t timeout_ns, acp_doing doing);

/* After the end of all possible publishers the keeper is asked for a sign of life: what they have published it has
 * answered before, on the same way. */
static int await_name(acp_engine *e, struct answer_wait *w, struct peer *keeper, int64_t timeout_ns)
{
    const struct awaited name = {answered, w, watch_all, publishers_gone, NULL, false};
    const struct message m = {.kind = ACP_DOING};
    uint64_t reply[2];
    int rc = any_source_wait(e, &name, timeout_ns, ACP_DOING_LOOKUP);
    bool gone = rc == ACP_E_FINALIZING || rc == ACP_E_LOST;
    if (gone && keeper != e->job.own && !keeper->lost)
        ask_peer(e, keeper->slot, &m, reply, ACP_FOREVER, ACP_DOING_LOOKUP);
    return gone && answered(w) ? ACP_OK : rc;
}

static bool names_rank(int rc)
{
    return rc == ACP_E_TAKEN || rc == ACP_E_DAMAGED;
}

/* Sends one message to the process in `slot` and waits for its reply: values in reply[0..1], after ACP_E_TAKEN the
 * publisher's rank, after ACP_E_DAMAGED the keeper's: message or reply were written over (doubt.c). */
static int ask_peer(acp_engine *e, uint32_t slot, const struct message *question, uint64_t reply[2],
                    int64_t timeout_ns, acp_doing doing)
{
    acp_lane *lane = &e->lanes[LANE_LOCKED];
    struct peer *p = peer_of_slot(e, slot);
    const uint64_t key[2] = {question->dst, question->src};
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
    if (p != e->job.own) {
        struct message m = *question;
        m.id = op_table_id(op);
        m.from = e->self;
        op->state = OP_RUNNING;
        op->way = WAY_ASK;
        op->in_flight = 1;
        op->road = route_road(e, p);
        rc = op->road->send(lane, p, 0, &m);
    } else if (question->kind == ACP_PUBLISH) {
        if (store(lane, e->self, question, &op->result) != ACP_OK)
            op_table_fault(op, &lane->fault);
        op->state = OP_DONE;
    } else if ((n = name_find(e, key))) {
        op->result = n->value[0];
        op->command.b = n->value[1];
        op->state = OP_DONE;
    }
    pthread_mutex_unlock(&e->lock);
    struct answer_wait w = {e, op};
    if (rc == ACP_OK && !answered(&w))
        rc = question->kind == ACP_LOOKUP
                 ? await_name(e, &w, p, timeout_ns)
                 : wait_ready(e, answered, &w, timeout_ns, doing);
    pthread_mutex_lock(&e->lock);
    if (rc == ACP_OK)
        rc = op->state == OP_DONE ? op->fault.status : ACP_E_LOST;
    reply[0] = names_rank(rc) ? (uint64_t)op->fault.rank : op->result;
    reply[1] = op->command.b;
    if (op->state == OP_RUNNING && question->kind == ACP_LOOKUP && !p->lost)
        offer_take_back(lane, p, op);
    task_free(e, op);
    pthread_mutex_unlock(&e->lock);
    return rc;
}

/* The keeper of a name: the rank that the key selects or, in place of a lost one, the next, for all that have accepted
 * that loss. */
static uint32_t keeper(acp_engine *e, const uint64_t key[2])
{
    uint32_t first = (uint32_t)(key[0] % e->job.founders), past = 0;
    pthread_mutex_lock(&e->lock);
    for (uint32_t slot; past < e->job.founders; past++) {
        slot = rank_slot_of(e, (first + past) % e->job.founders);
        if (!rank_table_service(e, slot) && !peer_of_slot(e, slot)->loss_accepted)
            break;
    }
    pthread_mutex_unlock(&e->lock);
    return rank_slot_of(e, (first + past) % e->job.founders);
}

/* A value with memory is among the offers from the beginning: the keeper may report its end before its confirmation is
 * read. */
int acp_publish(acp_engine *e, const uint64_t key[2], const uint64_t value[2], uint32_t how,
                int64_t *whose, int64_t timeout_ns)
{
    struct message m = {.kind = ACP_PUBLISH, .flags = how & ACP_REPLACE, .dst = key[0], .src = key[1],
                        .a = value[0], .b = value[1]};
    struct name *offer = NULL;
    uint64_t reply[2];
    if (how & ACP_GIVEN) {
        if (!(offer = calloc(1, sizeof *offer)))
            return ACP_E_SYSTEM;
        *offer = (struct name){.key = {key[0], key[1]}, .value = {value[0], value[1]}};
        pthread_mutex_lock(&e->lock);
        offer->next = e->sync.offers;
        e->sync.offers = offer;
        pthread_mutex_unlock(&e->lock);
    }
    int rc = ask_peer(e, keeper(e, key), &m, reply, timeout_ns, ACP_DOING_LOOKUP);
    if (whose)
        *whose = names_rank(rc) ? (int64_t)reply[0] : -1;
    if (!offer)
        return rc;
    pthread_mutex_lock(&e->lock);
    bool refused = rc == ACP_E_TAKEN || rc == ACP_E_SYSTEM;
    if (!is_in(e->sync.offers, offer)) { /* a reset came, and has taken it */
        rc = refused ? ACP_OK : rc;
    } else if (rc == ACP_OK) {
        offer->since = reply[0];
        offers_end(e, key, offer->ended > reply[0] ? offer->ended : reply[0], false);
    } else if (refused) {
        name_unlink(&e->sync.offers, offer);
        free(offer);
    }
    pthread_mutex_unlock(&e->lock);
    return rc;
}

int acp_withdraw(acp_engine *e, const uint64_t key[2], int64_t *whose, int64_t timeout_ns)
{
    struct message m = {.kind = ACP_PUBLISH, .flags = PUBLISH_WITHDRAW, .dst = key[0], .src = key[1]};
    uint64_t reply[2];
    int rc = ask_peer(e, keeper(e, key), &m, reply, timeout_ns, ACP_DOING_LOOKUP);
    *whose = names_rank(rc) ? (int64_t)reply[0] : -1;
    pthread_mutex_lock(&e->lock);
    if (rc == ACP_OK || rc == ACP_E_TAKEN)
        offers_end(e, key, UINT64_MAX, false);
    pthread_mutex_unlock(&e->lock);
    return rc;
}

int acp_publish_again(acp_engine *e, int64_t *whose, int64_t timeout_ns)
{
    *whose = -1;
    uint32_t count = 0, i = 0;
    pthread_mutex_lock(&e->lock);
    for (struct name *n = e->sync.offers; n; n = n->next)
        count += n->since != 0;
    struct message *all = calloc(count + 1u, sizeof *all);
    for (struct name *n = e->sync.offers; all && n; n = n->next)
        if (n->since)
            all[i++] = (struct message){.kind = ACP_PUBLISH, .dst = n->key[0], .src = n->key[1],
                                        .a = n->value[0], .b = n->value[1], .after = n->since};
    pthread_mutex_unlock(&e->lock);
    int rc = all ? ACP_OK : ACP_E_SYSTEM;
    for (i = 0; rc == ACP_OK && i < count; i++) {
        const uint64_t key[2] = {all[i].dst, all[i].src};
        uint64_t reply[2];
        rc = ask_peer(e, keeper(e, key), &all[i], reply, timeout_ns, ACP_DOING_LOOKUP);
        *whose = names_rank(rc) ? (int64_t)reply[0] : -1;
        if (rc != ACP_OK)
            continue;
        pthread_mutex_lock(&e->lock);
        offers_end(e, key, reply[0], true);
        pthread_mutex_unlock(&e->lock);
    }
    free(all);
    return rc;
}

int acp_lookup(acp_engine *e, const uint64_t key[2], uint64_t value[2], int64_t timeout_ns)
{
    struct message m = {.kind = ACP_LOOKUP, .dst = key[0], .src = key[1]};
    return ask_peer(e, keeper(e, key), &m, value, timeout_ns, ACP_DOING_LOOKUP);
}

int acp_peer_doing(acp_engine *e, uint32_t rank, acp_doing *doing)
{
    struct peer *p = peer_of_slot(e, rank_slot_of(e, rank));
    struct message m = {.kind = ACP_DOING};
    uint64_t reply[2] = {0, 0};
    int rc = p->lost ? ACP_E_LOST : ACP_OK, relation = RELATION_UNKNOWN;
    if (rc == ACP_OK)
        relation = peer_attach(e, p);
    if (p->lost)
        return ACP_E_LOST;
    if (relation != RELATION_REMOTE) {
        *doing = (acp_doing)layout_doing(p->shm.control);
        return ACP_OK;
    }
    rc = ask_peer(e, p->slot, &m, reply, 1000000000, (acp_doing)layout_doing(e->control));
    *doing = (acp_doing)reply[0];
    return rc;
}

static void names_free(struct name **list)
{
    for (struct name *n; (n = *list);) {
        *list = n->next;
        free(n);
    }
}

void name_service_reset(acp_engine *e)
{
    names_free(&e->sync.names);
    for (struct name *n; (n = e->sync.offers);) {
        e->sync.offers = n->next;
        n->next = e->sync.ended;
        e->sync.ended = n;
    }
}

void name_service_close(acp_engine *e)
{
    names_free(&e->sync.names);
    names_free(&e->sync.offers);
    struct name *ended = e->sync.ended;
    names_free(&ended);
    e->sync.ended = NULL;
}
