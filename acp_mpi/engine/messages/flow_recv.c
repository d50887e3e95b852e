/* Messages that come by link: the leader matches them and writes their bytes in place, and never waits for a section.
 * If another holds one, the frames of that peer wait in their order. */
#include "messages/flow_recv.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "messages/credits.h"
#include "messages/deliver.h"
#include "messages/flow.h"
#include "messages/flow_control.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "operations/reserve.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "transport/frame.h"

#include <stdlib.h>
#include <string.h>

static void word_say(acp_lane *lane, struct flow *c, enum flow_word word, uint64_t id,
                     const void *payload, uint64_t size)
{
    struct message m = {.flags = (uint8_t)word, .id = id};
    flow_answer(lane, c, &m, payload, size);
}

void flow_recv_set_told(acp_engine *e, struct flow *c, uint8_t word)
{
    if (word == WORD_FULL && c->told != WORD_FULL)
        atomic_fetch_add(&e->mail.stopped, 1);
    if (word != WORD_FULL && c->told == WORD_FULL)
        atomic_fetch_sub(&e->mail.stopped, 1);
    c->stops = word == WORD_FULL;
    c->told = word;
}

static const struct mailbox *own_box(acp_engine *e)
{
    struct heap *h = mailbox_heap(e, e->job.own);
    return h ? mailbox_of(h) : NULL;
}

void flow_recv_grant(acp_lane *lane, struct flow *c)
{
    if (!credits_available(own_box(lane->engine)))
        return;
    flow_recv_set_told(lane->engine, c, 0);
    word_say(lane, c, WORD_ROOM, 0, NULL, 0);
}

static struct delivery **delivery_of(struct flow *c, uint64_t id)
{
    struct delivery **at = &c->deliveries;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static void drop(struct flow *c, struct delivery **at)
{
    struct delivery *d = *at;
    *at = d->next;
    if (!*at)
        c->deliveries_end = at;
    free(d);
}

/* As much of the bytes as the receive has room for. */
static void fill(acp_lane *lane, struct delivery *d, uint64_t at, const void *data, uint64_t size)
{
    uint64_t most = d->landing.size > at ? d->landing.size - at : 0;
    if (most)
        deliver_fill(lane, &d->landing, at, data, size < most ? size : most);
    d->come = at + size;
}

/* The bytes stay with the sender, or go back to it. */
static void keep_there(acp_lane *lane, struct flow *c, const struct message *m,
                       const void *payload, uint64_t size)
{
    bool whole = size == m->a;
    if (m->flags & FLOW_KEPT)
        return;
    if (!c->told)
        flow_recv_set_told(lane->engine, c, WORD_KEEP);
    word_say(lane, c, WORD_KEEP, m->id, whole ? payload : NULL, whole ? size : 0);
}

/* A receive has a message kept there and has a buffer for it: its bytes come straight here, without a block there. */
static void want(acp_lane *lane, struct flow *c, struct delivery *d)
{
    if (d->open || d->wanted || !d->kept || !deliver_wanted(&d->landing))
        return;
    int rc = d->landing.matched ? ACP_OK : deliver_taken(lane, &d->landing);
    d->wanted = rc == ACP_OK && d->landing.entry->buffer;
    if (d->wanted)
        word_say(lane, c, WORD_WANT, d->id, NULL, 0);
    else if (rc != ACP_OK)
        flow_retry(lane->engine, ACP_E_BUSY);
}

void flow_recv_want(acp_lane *lane, struct flow *c)
{
    for (struct delivery *d = c->deliveries; d; d = d->next)
        want(lane, c, d);
}

/* This process brings the bytes: the receive of a dead peer's message ends in flow_recv_lost and not before, for its
 * entry and its buffer are written to until then.
 *
 * Without room for an envelope the peer is stopped, but messages under way are still taken. It is told the place in
 * the sequence up to which it need not be solicited: receives posted from there on find a peer to solicit. */
static int arrive(acp_lane *lane, struct flow *c, const acp_envelope *envelope,
                  const void *data, struct landing *landing)
{
    acp_engine *e = lane->engine;
    int rc = match_arrive(lane, e->job.own, envelope, data, false, e->self, landing);
    if (rc != ACP_E_FULL)
        return rc;
    if (c->told != WORD_FULL)
        flow_recv_set_told(e, c, WORD_FULL);
    rc = match_arrive(lane, e->job.own, envelope, data, true, e->self, landing);
    if (c->stops && rc != ACP_E_BUSY) {
        struct message m = {.flags = WORD_FULL,
                            .after = __atomic_load_n(&own_box(e)->sequence, __ATOMIC_RELAXED)};
        c->stops = false;
        flow_answer(lane, c, &m, NULL, 0);
    }
    return rc;
}

/* Bytes that are with a message as it begins. */
static uint64_t brought(const struct message *m)
{
    bool entry = m->a <= MAIL_INLINE;
    if (m->flags & FLOW_MEET)
        return entry ? m->a : 0;
    if (m->flags & FLOW_KEPT)
        return entry ? UINT64_MAX : 0; /* bytes that fit an entry are never kept */
    return m->a < FRAME_PAYLOAD_MOST ? m->a : FRAME_PAYLOAD_MOST;
}

/* Begins a message, or goes on where it had to stop. */
static int mail_here(acp_lane *lane, struct flow *c, const struct message *m,
                     const unsigned char *payload, uint64_t size)
{
    acp_envelope envelope = {.context = m->dst, .tag = (int64_t)m->src, .size = m->a, .note = m->b,
                             .source = rank_table_rank(lane->engine, c->peer->slot)};
    struct delivery **at = delivery_of(c, m->id), *d = *at;
    bool tried = m->flags & FLOW_MEET;
    if (size != brought(m))
        return ACP_E_ARGUMENT;
    if (!d) {
        struct landing landing;
        acp_engine *e = lane->engine;
        uint64_t from = m->flags & FLOW_ASKED ? m->after - 1 : 0;
        int rc = tried ? match_posted(lane, e->job.own, &envelope, payload,
                                      (struct places){from, m->after}, e->self, &landing)
                       : arrive(lane, c, &envelope, payload, &landing);
        if (tried && (rc == ACP_E_FULL || (rc == ACP_OK && !landing.open))) {
            word_say(lane, c, rc == ACP_OK ? WORD_MET : WORD_MISSED, m->id, NULL, 0);
            return ACP_OK;
        }
        if (rc != ACP_OK)
            return rc;
        if (!landing.open && !landing.held)
            return ACP_OK;
        _Static_assert(sizeof *d <= KEPT_SMALL, "memory is kept for one");
        if (!(d = reserve_take(e, sizeof *d))) {
            deliver_failed(lane, &landing, ACP_E_SYSTEM);
            return ACP_E_SYSTEM;
        }
        *d = (struct delivery){.id = m->id, .size = m->a, .landing = landing};
        at = c->deliveries_end;
        *at = d;
        c->deliveries_end = &d->next;
    }
    int rc = d->landing.held || m->flags & FLOW_KEPT ? ACP_E_FULL : deliver_open(lane, &d->landing);
    if (rc == ACP_E_BUSY)
        return rc;
    if (rc != ACP_OK) {
        keep_there(lane, c, m, payload, size);
        d->kept = true;
        want(lane, c, d);
        return ACP_OK;
    }
    d->open = true;
    if (tried) {
        word_say(lane, c, WORD_MET, m->id, NULL, 0);
        return ACP_OK;
    }
    fill(lane, d, 0, payload, size);
    if (d->come == d->size) {
        deliver_complete(lane, &d->landing);
        drop(c, at);
    } else {
        word_say(lane, c, WORD_TAKEN, m->id, NULL, 0);
    }
    return ACP_OK;
}

/* More bytes of a message; those of a refused message are ignored. */
static void part_here(acp_lane *lane, struct flow *c, const struct message *m,
                      const unsigned char *payload, uint64_t size)
{
    struct delivery **at = delivery_of(c, m->id), *d = *at;
    if (d && d->wanted && !m->a && deliver_open(lane, &d->landing) == ACP_OK)
        d->open = true;
    if (!d || !d->open || m->a != d->come || size > d->size - d->come)
        return;
    fill(lane, d, m->a, payload, size);
    if (d->come < d->size)
        return;
    deliver_complete(lane, &d->landing);
    drop(c, at);
}

/* ACP_E_BUSY: not yet. */
static int where_here(acp_lane *lane, struct flow *c, const struct message *m)
{
    struct delivery **at = delivery_of(c, m->id), *d = *at;
    bool comes = m->after, left = m->flags & FLOW_LEFT;
    int rc = ACP_E_HANDLE;
    if (d && !d->open && comes) {
        deliver_held(lane, &d->landing, m->after);
        rc = ACP_OK;
    } else if (d && !d->open) {
        rc = deliver_withdraw(lane, &d->landing, left ? &m->b : NULL);
    }
    if (rc == ACP_E_BUSY)
        return rc;
    if (!comes && !left)
        word_say(lane, c, rc == ACP_OK ? WORD_MISSED : WORD_MET, m->id, NULL, 0);
    if (rc == ACP_OK)
        drop(c, at);
    return ACP_OK;
}

/* ACP_E_BUSY, ACP_E_FULL: not yet. */
static int frame_here(acp_lane *lane, struct flow *c, const struct message *m,
                      const unsigned char *payload, uint64_t size)
{
    if (m->kind == ACP_MAIL)
        return mail_here(lane, c, m, payload, size);
    if (m->kind == ACP_MAIL_WHERE)
        return where_here(lane, c, m);
    part_here(lane, c, m, payload, size);
    return ACP_OK;
}

static bool not_yet(int rc)
{
    return rc == ACP_E_BUSY || rc == ACP_E_FULL;
}

static void late_drop(acp_lane *lane, struct late **at)
{
    struct late *l = *at;
    *at = l->next;
    free(l);
    atomic_fetch_sub(&lane->engine->mail.late, 1);
}

/* Answers to what this process has sent wait for nothing else, and stay in their order. */
static void answers_late(acp_lane *lane, struct flow *c)
{
    struct late **at = &c->late;
    for (struct late *l; c->answers && (l = *at);) {
        if (l->message.kind != ACP_MAIL_SAID) {
            at = &l->next;
            continue;
        }
        if (!c->peer->lost)
            flow_control_handle(lane, c, &l->message, l->payload, l->size);
        late_drop(lane, at);
        c->answers--;
    }
    if (!*at)
        c->late_end = at;
}

/* Handles the deferred frames of messages that have begun: they need no room, but wait behind a frame that does, and
 * that may wait for the receive that they end. */
static void bring_late(acp_lane *lane, struct flow *c, uint64_t stuck)
{
    struct late **at = &c->late;
    for (struct late *l; (l = *at);) {
        const struct message *m = &l->message;
        if (m->kind == ACP_MAIL || m->kind == ACP_MAIL_SAID || m->id == stuck || !*delivery_of(c, m->id)) {
            at = &l->next;
        } else if (not_yet(frame_here(lane, c, m, l->payload, l->size))) { /* nothing of that message is behind it */
            flow_retry(lane->engine, ACP_E_BUSY);
            at = &l->next;
        } else {
            late_drop(lane, at);
        }
    }
    c->late_end = at;
}

void flow_recv_retry(acp_lane *lane, struct flow *c)
{
    answers_late(lane, c);
    for (struct late *l; (l = c->late);) {
        bool ready = reserve_ready(lane->engine);
        int rc = ready ? frame_here(lane, c, &l->message, l->size ? l->payload : NULL, l->size) : ACP_E_FULL;
        if (not_yet(rc)) {
            if (ready)
                bring_late(lane, c, l->message.id);
            flow_retry(lane->engine, rc);
            return;
        }
        late_drop(lane, &c->late);
    }
    c->late_end = &c->late;
    if (c->peer->lost)
        flow_recv_lost(lane, c);
}

static void come_later(acp_lane *lane, struct flow *c, const struct message *m,
                       const unsigned char *payload, uint64_t size, int rc)
{
    struct late *l = reserve_take(lane->engine, sizeof *l + size);
    if (!l) {
        peer_mark_lost(lane->engine, c->peer); /* else the frame is lost */
        return;
    }
    *l = (struct late){.message = *m, .size = size};
    if (size)
        memcpy(l->payload, payload, size);
    *c->late_end = l;
    c->late_end = &l->next;
    atomic_fetch_add(&lane->engine->mail.late, 1);
    flow_retry(lane->engine, rc);
}

void flow_recv_frame(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                     const unsigned char *payload, uint64_t size)
{
    (void)link;
    bool halted = atomic_load(&lane->engine->mail.halted);
    struct flow *c = flow_of(lane->engine, from);
    if (!c) {
        peer_mark_lost(lane->engine, from);
    } else if (m->kind == ACP_MAIL_SAID && !halted) {
        answers_late(lane, c);
        flow_control_handle(lane, c, m, payload, size);
    } else {
        int rc = c->late || halted ? ACP_E_BUSY : frame_here(lane, c, m, payload, size);
        c->answers += m->kind == ACP_MAIL_SAID;
        if (not_yet(rc))
            come_later(lane, c, m, payload, size, rc);
    }
}

/* The peer is dead: the rest will not come. A message without room yet is still delivered later. */
void flow_recv_lost(acp_lane *lane, struct flow *c)
{
    uint64_t stuck = c->late ? c->late->message.id : 0;
    bring_late(lane, c, stuck);
    for (struct delivery **at = &c->deliveries, *d; (d = *at);) {
        if (d->id == stuck) {
            at = &d->next;
        } else {
            deliver_failed(lane, &d->landing, ACP_E_LOST);
            drop(c, at);
        }
    }
}

void flow_recv_drop(struct flow *c)
{
    while (c->deliveries)
        drop(c, &c->deliveries);
    c->answers = 0;
    while (c->late) {
        struct late *l = c->late;
        c->late = l->next;
        free(l);
    }
    c->late_end = &c->late;
}
