/* Waiting for messages: a short while awake, then asleep until the bringer of one rings. A receiver that waits copies
 * behind the sender. */
#include "messages/recv_wait.h"
#include "base/linux.h"
#include "core/membarrier.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "messages/pair_ring.h"
#include "messages/flow.h"
#include "messages/mailbox.h"
#include "messages/recv.h"
#include "messages/request.h"
#include "operations/any_source.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/wait.h"

#include <sched.h>

#define LOOKS 400u /* before a wait that costs more */
#define GLANCES 40u /* by a caller that holds the interpreter lock */
#define YIELDS_LEAST 4u /* where other threads want this processor: the sender may run on another one */
#define YIELDS_MOST 128u
#define YIELDS_NS 100000u

struct request_wait {
    acp_engine *engine;
    acp_request *const *requests;
    uint32_t count;
    bool (*over)(void *); /* ends the wait, too; NULL: nothing else does */
    bool collectives;     /* these do */
    void *context;
    bool followed;          /* bytes of one have come */
    bool near;              /* a message may be brought by another process, by load and store */
    const acp_envelope *want; /* of a receive that is not posted: only rings are looked at */
    uint64_t arm_at;
};

static bool follow(acp_request *r)
{
    return r->entry && mailbox_entry_state(r->entry) == ENTRY_FILLING && recv_follow(r);
}

bool recv_wait_done(acp_request *r)
{
    while (follow(r))
        ;
    return acp_request_done(r);
}

static bool one_done(struct request_wait *w)
{
    if (w->want)
        return pair_ring_stirs(w->engine, w->want);
    for (uint32_t i = 0; i < w->count; i++) {
        while (follow(w->requests[i]))
            w->followed = true;
        if (acp_request_done(w->requests[i]))
            return true;
    }
    return false;
}

/* After a reset the place of its entry has another use. */
static void attend(const acp_request *r, enum entry_attention attention)
{
    if (r->entry && r->era == r->engine->mail.era)
        mailbox_set_attention(r->entry, attention);
}

void recv_wait_attend(acp_request *r)
{
    if (!r->entry || r->entry->attention == ATTENTION_SLEEPS)
        return;
    attend(r, ATTENTION_SLEEPS);
    membarrier_wait(r->engine); /* a store after the next look finds the attention */
}

bool recv_wait_may_sleep(const acp_request *r)
{
    return !r->entry || r->entry->attention >= ATTENTION_SLEEPS;
}

static bool stands(void *context)
{
    struct request_wait *w = context;
    return (w->over && w->over(w->context)) || one_done(w);
}

static bool ready(void *context)
{
    struct request_wait *w = context;
    bool arms = false;
    if (stands(w))
        return true;
    if (linux_now_ns() < w->arm_at)
        return false;
    for (uint32_t i = 0; i < w->count; i++) {
        struct mail_entry *l = w->requests[i]->entry;
        if (l && l->attention != ATTENTION_SLEEPS) {
            __atomic_store_n(&l->attention, ATTENTION_SLEEPS, __ATOMIC_SEQ_CST);
            arms = true;
        }
    }
    if (!arms)
        return false;
    if (w->near)
        membarrier_wait(w->engine); /* a store after the look finds the attention */
    return ready(context);
}

/* May a message for it come by load and store? By link only this process itself brings it. */
static bool near(acp_engine *e, const acp_request *r)
{
    uint32_t mates = 0;
    if (r->peer)
        return r->peer->row.node == e->config.node && !peers_apart(e);
    if (r->any)
        rank_table_mates(e, &mates);
    return mates > 1 && !peers_apart(e);
}

/* Yields while that pays. Yielding costs less than a sleep, if it lets the others run. That depends on how they were
 * started: a processor is divided among sessions first, so one rank in each gives it to none. The number of yields
 * follows how often they have been worth while. */
static bool soon_crowded(struct request_wait *w)
{
    acp_engine *e = w->engine;
    uint32_t yields = atomic_load_explicit(&e->mail.yields, memory_order_relaxed);
    bool done = stands(w);
    if (done || !w->near)
        return done;
    uint64_t until = linux_now_ns() + YIELDS_NS;
    for (uint32_t i = 0; i < yields && !done && linux_now_ns() < until; i++) {
        sched_yield();
        done = stands(w);
    }
    yields = done ? yields + YIELDS_LEAST : yields / 2;
    yields = yields < YIELDS_LEAST ? YIELDS_LEAST : yields > YIELDS_MOST ? YIELDS_MOST : yields;
    atomic_store_explicit(&e->mail.yields, yields, memory_order_relaxed);
    return done;
}

static bool soon(struct request_wait *w)
{
    if (w->engine->progress.crowded)
        return soon_crowded(w);
    for (uint32_t i = 0; i < LOOKS; i++) {
        if (stands(w))
            return true;
        if (!w->near)
            break; /* the leader may bring it: this thread */
        if (w->followed)
            i = 0;
        w->followed = false;
        if ((i & 63) == 63)
            sched_yield();
        else
            linux_cpu_relax();
    }
    return false;
}

/* Where others want this processor: sleeps at once, without events, for a sender then only rings. With links a thread
 * that leads is faster. */
static bool doze_over(struct request_wait *w, int64_t timeout_ns)
{
    acp_engine *e = w->engine;
    if (!e->progress.crowded || !w->near || e->tcp.wire_count)
        return false;
    for (uint32_t i = 0; i < w->count; i++)
        if (w->requests[i]->entry)
            __atomic_store_n(&w->requests[i]->entry->attention, ATTENTION_DOZES, __ATOMIC_SEQ_CST);
    return wait_doze(e, stands, w, timeout_ns < MAIL_FIRST_NS ? timeout_ns : MAIL_FIRST_NS);
}

bool acp_request_soon(acp_engine *e, acp_request *request)
{
    struct request_wait w = {.engine = e, .requests = &request, .count = 1,
                             .near = near(e, request)};
    return soon(&w) || doze_over(&w, MAIL_FIRST_NS);
}

/* Only messages of the node come by a ring. */
static bool comes_near(acp_engine *e, const acp_envelope *want)
{
    acp_request draft = {.engine = e, .any = want->source == ACP_ANY};
    if (!draft.any && newcomers_find(e, (uint64_t)want->source))
        draft.peer = peer_of_slot(e, rank_slot_of(e, (uint32_t)want->source));
    return near(e, &draft) && !(draft.peer && (draft.peer->lost || draft.peer == e->job.own));
}

static bool stirs_briefly(const struct request_wait *w)
{
    for (uint32_t i = 0; !w->engine->progress.crowded && i < GLANCES; i++) {
        if (pair_ring_stirs(w->engine, w->want))
            return true;
        linux_cpu_relax();
    }
    return false;
}

int acp_short_soon(acp_engine *e, const acp_envelope *want, bool briefly)
{
    struct request_wait w = {.engine = e, .want = want, .near = true};
    if (!comes_near(e, want))
        return ACP_E_HANDLE;
    return (briefly ? stirs_briefly(&w) : soon(&w)) ? ACP_OK : ACP_E_BUSY;
}

/* Publishes the awaited rank for observers. */
static void say_whom(acp_engine *e, acp_request *const *requests, uint32_t count)
{
    const struct peer *p = count == 1 ? requests[0]->peer : NULL;
    atomic_store_explicit(&e->control->awaited, p ? rank_table_rank(e, p->slot) + 1 : 0,
                          memory_order_relaxed);
}

struct mail_awaited {
    acp_request *const *requests;
    uint32_t count;
    bool collectives; /* others may end it, too */
};

void recv_wait_watch(acp_engine *e, const acp_request *r)
{
    if (r->any)
        any_source_watch(e, r->among);
    else if (r->peer)
        flow_watch(e, r->peer);
}

static void watch_peers(acp_engine *e, const void *whom)
{
    const struct mail_awaited *a = whom;
    for (uint32_t i = 0; i < a->count; i++)
        recv_wait_watch(e, a->requests[i]);
}

/* The end of a rank that is named ends the request itself. */
static int nobody_sends(acp_engine *e, const void *whom)
{
    const struct mail_awaited *a = whom;
    int gone = ACP_OK;
    for (uint32_t i = 0; i < a->count; i++) {
        int one = a->requests[i]->any ? any_source_gone(e, a->requests[i]->among) : ACP_OK;
        if (one == ACP_OK || a->collectives)
            return ACP_OK;
        gone = gone == ACP_E_FINALIZING ? gone : one;
    }
    return gone;
}

int recv_wait_until(acp_engine *e, bool (*ready)(void *), void *context, int64_t timeout_ns,
                    acp_doing doing, acp_request *const *requests, uint32_t count, bool collectives)
{
    const struct mail_awaited whom = {requests, count, collectives};
    const struct awaited mail = {ready, context, watch_peers, nobody_sends, &whom, false};
    say_whom(e, requests, count);
    int rc = any_source_wait(e, &mail, timeout_ns, doing);
    say_whom(e, NULL, 0);
    return rc;
}

static int wait(struct request_wait *w, acp_doing doing, int64_t timeout_ns)
{
    acp_engine *e = w->engine;
    acp_request *const *requests = w->requests;
    int rc = ACP_OK;
    for (uint32_t i = 0; i < w->count; i++) {
        w->near = w->near || near(e, requests[i]);
        attend(requests[i], ATTENTION_WAITS);
    }
    uint64_t start = timeout_ns == ACP_FOREVER ? 0 : linux_now_ns();
    if (!soon(w) && !doze_over(w, timeout_ns)) {
        w->arm_at = wait_arm_at(e);
        rc = recv_wait_until(e, ready, w, wait_left(timeout_ns, start), doing, requests, w->count, w->collectives);
    }
    for (uint32_t i = 0; i < w->count; i++)
        attend(requests[i], ATTENTION_NONE);
    return rc;
}

int recv_wait_any(acp_engine *e, acp_request *const *requests, uint32_t count, bool (*over)(void *),
                  void *context, bool collectives, acp_doing doing, int64_t timeout_ns)
{
    struct request_wait w = {.engine = e, .requests = requests, .count = count, .over = over,
                             .context = context, .collectives = collectives};
    return wait(&w, doing, timeout_ns);
}

int acp_request_wait(acp_engine *e, acp_request *request, int64_t timeout_ns)
{
    acp_doing doing = request->kind == REQUEST_SEND ? ACP_DOING_SEND : ACP_DOING_RECEIVE;
    return recv_wait_any(e, &request, 1, NULL, NULL, false, doing, timeout_ns);
}
