/* Notes between the processes of two ends. The k-th end that one process creates for another meets the k-th that this
 * one creates for it, in the other direction: each end is offered to the other process, and offers come in order. An end
 * that is closed before it is met stays until then, without its memory.
 *
 *   OFFER   an end: its id and shape, and where its ring is; of a segmented buffer, which meets its like only, where its
 *           segments are
 *   CLOSE   the other end is closed; behind all that it has sent
 *   PART    by link: bytes of a slot; the last part publishes it
 *   CREDIT  by link: slots that have been given back */
#include "channels/channel_notes.h"
#include "channels/channel.h"
#include "channels/channel_attend.h"
#include "channels/channel_queue.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mailbox.h"
#include "operations/protocol_tcp.h"
#include "operations/route.h"
#include "peers/peer.h"
#include "progress/doorbell.h"
#include "progress/progress.h"
#include "transport/link.h"
#include "transport/link_io.h"

#include <stdlib.h>
#include <string.h>

#define CHANNEL_FRAME ((uint64_t)32 << 10) /* bytes of a slot in one frame */
#define OFFER_SEGMENTS (1u << 18) /* in `after`, beside resets, slots and sends */

enum note { NOTE_OFFER = 1, NOTE_CLOSE, NOTE_PART, NOTE_CREDIT }; /* flags of ACP_CHANNEL */

struct channel_offer {
    struct channel_offer *next;
    struct peer *from;
    struct message note;
};

/* A sender elsewhere learns of slots that are back with the next frame for it, unless it may soon need them. */
static bool has_time(const acp_channel *c, const struct message *m)
{
    return m->flags == NOTE_CREDIT && !c->shape.segments && c->arrived - m->a < (c->shape.slots + 2) / 4;
}

/* All of one end on one way, so that they come in order. */
static int send_note(acp_channel *c, struct message *m, const void *payload, uint64_t size)
{
    acp_engine *e = c->engine;
    acp_lane *lane = &e->lanes[LANE_LOCKED];
    m->kind = ACP_CHANNEL;
    m->from = e->self;
    transaction_fault_point();
    if (c->peer->lost)
        return ACP_E_LOST;
    if (c->way == CHANNEL_FAR && (m->flags == NOTE_PART || m->flags == NOTE_CREDIT))
        return protocol_tcp_mail(lane, c->peer, FLOW_COLOR, m, payload, size, has_time(c, m));
    if (c->way == CHANNEL_FAR || c->far)
        return protocol_tcp_command(lane, c->peer, FLOW_COLOR, m, payload, size);
    return route_road(e, c->peer)->send(lane, c->peer, FLOW_COLOR, m);
}

/* CLOSE and CREDIT: the other process waits for them. */
static void tell(acp_channel *c, struct message *m)
{
    if (send_note(c, m, NULL, 0) == ACP_E_SYSTEM)
        peer_mark_lost(c->engine, c->peer);
}

/* The resets that this process and `p` both took part in, which are those since both are known. */
static uint64_t common_resets(const acp_engine *e, const struct peer *p)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < e->channels.reset_sizes; i++)
        if (e->channels.resets[i].procs > p->slot)
            count += e->channels.resets[i].count;
    return count;
}

/* A free place, from the last one on. */
static bool find_place(acp_engine *e, uint32_t *place)
{
    struct channels_state *s = &e->channels;
    for (uint32_t i = 1; i <= s->room && i <= 64; i++)
        if (!s->ends[(s->place + i) % s->room]) {
            *place = s->place = (uint32_t)((s->place + i) % s->room);
            return true;
        }
    uint64_t room = s->room ? s->room * 2 : 16;
    acp_channel **grown = room <= UINT32_MAX / 2 ? realloc(s->ends, room * sizeof *grown) : NULL;
    if (!grown)
        return false;
    memset(grown + s->room, 0, (room - s->room) * sizeof *grown);
    *place = s->place = (uint32_t)s->room;
    s->ends = grown;
    s->room = room;
    return true;
}

static acp_channel *find(acp_engine *e, uint64_t id, const struct peer *from)
{
    uint32_t place = (uint32_t)id;
    acp_channel *c = place < e->channels.room ? e->channels.ends[place] : NULL;
    return c && c->id == id && c->peer == from ? c : NULL;
}

static void say_closed(acp_channel *c)
{
    struct message m = {.flags = NOTE_CLOSE, .id = c->theirs};
    if (c->reserved) /* later: the other end would give the ring back */
        return;
    if (!c->told)
        tell(c, &m);
    c->told = true;
}

static void meet_other(acp_channel *c, const struct message *m)
{
    c->theirs = m->id;
    c->their_ring = m->dst;
    c->their_nonce = m->src;
    c->other = (acp_channel_shape){.size = m->a, .type = m->b, .slots = (uint32_t)(m->after >> 1) & 0x1ffff,
                                   .sends = m->after & 1, .segments = m->after & OFFER_SEGMENTS};
    c->mismatched = c->other.size != c->shape.size || c->other.slots != c->shape.slots ||
                    (c->other.type != c->shape.type && !c->shape.segments);
    channel_queue_stir(c->engine);
    atomic_store(&c->met, true);
    if (c->closed) {
        say_closed(c);
        c->engine->channels.reap = true;
    }
    progress_event(c->engine);
}

static bool belong(const acp_channel *c, const struct peer *from, const struct message *offer)
{
    return c->peer == from && c->shape.sends != (offer->after & 1) && c->shape.segments == !!(offer->after & OFFER_SEGMENTS);
}

int channel_notes_offer(acp_channel *c)
{
    acp_engine *e = c->engine;
    struct channels_state *s = &e->channels;
    if (!find_place(e, &c->place))
        return ACP_E_SYSTEM;
    c->id = ++s->serial << 32 | c->place;
    c->era = s->era;
    struct heap *h = c->ring ? mailbox_heap(e, e->job.own) : NULL;
    struct message m = {.flags = NOTE_OFFER, .id = c->id, .src = c->nonce, .a = c->shape.size, .b = c->shape.type,
                        .dst = h ? (uint64_t)((unsigned char *)c->ring - h->base) : 0,
                        .after = common_resets(e, c->peer) << 32 | (c->shape.segments ? OFFER_SEGMENTS : 0) |
                                 c->shape.slots << 1 | c->shape.sends};
    int rc = send_note(c, &m, NULL, 0);
    if (rc != ACP_OK && rc != ACP_E_LOST)
        return rc;
    s->ends[c->place] = c;
    for (struct channel_offer **at = &s->offers, *o; (o = *at); at = &o->next)
        if (belong(c, o->from, &o->note)) {
            if (!(*at = o->next))
                s->offers_end = at;
            meet_other(c, &o->note);
            free(o);
            return ACP_OK;
        }
    if (!s->unmet)
        s->unmet_end = &s->unmet;
    *s->unmet_end = c;
    s->unmet_end = &c->unmet_next;
    return ACP_OK;
}

/* Out of those that are not met. */
static bool forget_unmet(acp_engine *e, const acp_channel *c)
{
    for (acp_channel **at = &e->channels.unmet; *at; at = &(*at)->unmet_next)
        if (*at == c) {
            *at = c->unmet_next;
            if (!*at)
                e->channels.unmet_end = at;
            return true;
        }
    return false;
}

static void offered(acp_engine *e, struct peer *from, const struct message *m)
{
    struct channels_state *s = &e->channels;
    if (m->after >> 32 != (common_resets(e, from) & UINT32_MAX)) /* of before a reset */
        return;
    for (acp_channel *c = s->unmet; c; c = c->unmet_next)
        if (belong(c, from, m)) {
            forget_unmet(e, c);
            meet_other(c, m);
            return;
        }
    struct channel_offer *o = malloc(sizeof *o);
    if (!o) {
        peer_mark_lost(e, from); /* its next end would meet a wrong one */
        return;
    }
    *o = (struct channel_offer){.from = from, .note = *m};
    if (!s->offers)
        s->offers_end = &s->offers;
    *s->offers_end = o;
    s->offers_end = &o->next;
}

/* Bytes for a slot that is free, as far as its sender is true. */
static void part_came(acp_channel *c, const struct message *m, const unsigned char *payload, uint64_t size)
{
    uint64_t number = m->a, at = m->b, most = channel_slot_bytes(&c->shape);
    if (c->shape.sends || c->closed || c->mismatched || number - c->taken >= c->shape.slots || at > most ||
        size > most - at || (size && !payload))
        return;
    struct channel_ring *ring = c->ring;
    if (!ring)
        return;
    c->way = CHANNEL_FAR;
    if (size)
        memcpy((unsigned char *)(channel_stamp(c, ring, number) + 1) + at, payload, size);
    if (!m->after)
        return;
    c->arrived = number + 1;
    channel_publish(c, ring, number, m->after);
    channel_queue_stir(c->engine);
    progress_event(c->engine);
}

void channel_notes_arrived(acp_lane *lane, struct peer *from, struct link *link, const struct message *m,
                           const unsigned char *payload, uint64_t size)
{
    (void)link;
    acp_engine *e = lane->engine;
    if (m->flags == NOTE_OFFER) {
        offered(e, from, m);
        return;
    }
    acp_channel *c = find(e, m->id, from);
    if (!c || !c->met)
        return;
    if (m->flags == NOTE_PART) {
        part_came(c, m, payload, size);
    } else if (m->flags == NOTE_CREDIT && c->shape.sends) {
        if (m->a - c->taken <= c->next + 1 - c->taken) /* the slot under way may be counted before its sender goes on */
            c->taken = m->a;
        channel_queue_stir(e);
        progress_event(e);
    } else if (m->flags == NOTE_CLOSE) {
        c->peer_closed = true;
        channel_queue_stir(e);
        e->channels.reap |= c->closed;
        progress_event(e);
    }
}

/* `stamp`: the last part of a slot, 0: more follows. With the lock held. */
static int send_part(acp_channel *c, uint64_t number, uint64_t at, const unsigned char *data, uint64_t size, uint64_t stamp)
{
    if (c->closed) /* nothing comes behind that note */
        return ACP_E_DESTROYED;
    struct message m = {.flags = NOTE_PART, .id = c->theirs, .a = number, .b = at, .after = stamp};
    return send_note(c, &m, data, size);
}

bool channel_notes_room(void *context)
{
    acp_channel *c = context;
    pthread_mutex_lock(&c->engine->lock);
    const struct link *link = c->peer->tcp.links[FLOW_COLOR];
    bool room = !link || link_io_room(link) || c->peer->lost || c->closed || c->peer_closed;
    pthread_mutex_unlock(&c->engine->lock);
    return room;
}

int channel_notes_slot(acp_channel *c, const unsigned char *data, uint64_t size, uint64_t stamp, uint64_t *sent)
{
    acp_engine *e = c->engine;
    do {
        uint64_t part = size - *sent < CHANNEL_FRAME ? size - *sent : CHANNEL_FRAME;
        bool last = *sent + part == size;
        if (!channel_notes_room(c))
            return ACP_E_BUSY;
        int rc = atomic_load(&c->closed)        ? ACP_E_DESTROYED
                 : atomic_load(&c->peer_closed) ? ACP_E_LEFT
                 : c->peer->lost                ? ACP_E_LOST
                                                : ACP_OK;
        if (rc != ACP_OK)
            return rc;
        pthread_mutex_lock(&e->lock);
        rc = send_part(c, c->next, *sent, data ? data + *sent : NULL, part, last ? stamp : 0);
        pthread_mutex_unlock(&e->lock);
        if (rc != ACP_OK)
            return rc;
        *sent += part;
    } while (*sent < size);
    return ACP_OK;
}

void channel_notes_credit(acp_channel *c, uint64_t taken)
{
    struct message m = {.flags = NOTE_CREDIT, .id = c->theirs, .a = taken};
    tell(c, &m);
}

static void list_closed(acp_channel *c)
{
    struct channels_state *s = &c->engine->channels;
    if (c->listed)
        return;
    c->listed_next = s->closed;
    s->closed = c;
    c->listed = true;
}

void channel_notes_close(acp_channel *c)
{
    if (c->met)
        say_closed(c);
    list_closed(c);
    channel_notes_reap(c->engine);
}

void channel_notes_forget(acp_channel *c)
{
    c->kept = false;
    list_closed(c);
    channel_notes_reap(c->engine);
}

/* May a store or a frame still come into the ring? A sender of the node that has not connected does not from here on, and
 * one that has sends no more. */
static bool sender_is_gone(acp_channel *c)
{
    return !(atomic_fetch_or(&c->ring->word, CHANNEL_ENDED) & CHANNEL_CONNECTED) || c->peer_closed || c->peer->lost;
}

static void reap_ring(acp_engine *e, acp_channel *c)
{
    if (!c->block)
        return;
    if (!sender_is_gone(c)) {
        e->channels.lingers = true;
        return;
    }
    if (c->taken != c->next) /* views look there */
        return;
    struct heap *h = mailbox_heap(e, e->job.own);
    int rc = heap_give(&e->lanes[LANE_LOCKED], h, &c->block, 0);
    if (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED)
        e->channels.reap = true;
    else
        c->block = 0;
    if (!c->block)
        atomic_store(&c->ring, NULL);
}

/* The other end may come, and waits to hear that this one is closed. */
static bool may_meet(const acp_channel *c)
{
    return !c->met && !c->peer->lost && c->era == c->engine->channels.era;
}

/* Nothing of the other end names it any more. */
static bool is_over(const acp_channel *c)
{
    return !c->kept && !c->reserved && !c->block && !atomic_load(&c->inside) && !may_meet(c);
}

void channel_notes_reap(acp_engine *e)
{
    struct channels_state *s = &e->channels;
    s->reap = s->lingers = false;
    for (acp_channel **at = &s->closed, *c; (c = *at);) {
        reap_ring(e, c);
        bool over = is_over(c), open = may_meet(c);
        s->lingers |= open;
        if (!over && (c->block || !c->kept || open)) {
            at = &c->listed_next;
            continue;
        }
        *at = c->listed_next;
        c->listed = false; /* one that is kept comes again */
        if (!over)
            continue;
        if (!c->met)
            forget_unmet(e, c);
        s->ends[c->place] = NULL;
        free(c->held);
        free(c);
    }
    channel_attend_closed(e);
}

void channel_notes_lost(acp_engine *e, const struct peer *p)
{
    for (struct channel_offer **at = &e->channels.offers, *o; (o = *at);) {
        if (o->from != p) {
            at = &o->next;
            continue;
        }
        if (!(*at = o->next))
            e->channels.offers_end = at;
        free(o);
    }
    channel_notes_reap(e);
    channel_queue_stir(e);
    progress_event(e);
}

enum due channel_notes_due(const acp_engine *e)
{
    return e->doors->channels ? DUE_NOW : e->channels.reap ? DUE_SOON : DUE_NOT;
}

bool channel_notes_hear(acp_engine *e)
{
    if (!e->doors->channels || !atomic_exchange(&e->doors->channels, 0))
        return false;
    channel_queue_stir(e);
    progress_event(e); /* one ring may be for several threads */
    return true;
}

bool channel_notes_poll(acp_lane *lane)
{
    acp_engine *e = lane->engine;
    if (e->channels.reap)
        channel_notes_reap(e);
    return channel_notes_hear(e);
}

static void drop_offers(acp_engine *e)
{
    for (struct channel_offer *o; (o = e->channels.offers); free(o))
        e->channels.offers = o->next;
}

bool channel_notes_provide(acp_engine *e)
{
    struct channels_state *s = &e->channels;
    if (s->reset_sizes && s->resets[s->reset_sizes - 1].procs == e->procs)
        return true;
    struct channel_resets *grown = realloc(s->resets, (s->reset_sizes + 1) * sizeof *grown);
    if (!grown)
        return false;
    grown[s->reset_sizes++] = (struct channel_resets){.procs = e->procs};
    s->resets = grown;
    return true;
}

/* Ends of before stay for their owners, closed. */
void channel_notes_reset(acp_engine *e)
{
    drop_offers(e);
    e->channels.unmet = NULL;
    e->channels.era++;
    e->channels.resets[e->channels.reset_sizes - 1].count++;
    for (uint64_t i = 0; i < e->channels.room; i++)
        if (e->channels.ends[i]) {
            e->channels.ends[i]->block = 0;
            atomic_store(&e->channels.ends[i]->ring, NULL);
        }
}

void acp_channels_end(acp_engine *e)
{
    bool more = true;
    for (uint64_t i = 0; more; i++) {
        pthread_mutex_lock(&e->lock);
        more = i < e->channels.room;
        acp_channel *c = more ? e->channels.ends[i] : NULL;
        bool open = c && !c->closed; /* one that is closed may be freed when the lock is given back */
        pthread_mutex_unlock(&e->lock);
        if (open)
            acp_channel_close(c);
    }
}

void channel_notes_end(acp_engine *e)
{
    drop_offers(e);
    for (uint64_t i = 0; i < e->channels.room; i++)
        if (e->channels.ends[i]) {
            free(e->channels.ends[i]->held);
            free(e->channels.ends[i]);
        }
    free(e->channels.resets);
    free(e->channels.ends);
    e->channels.ends = NULL;
    e->channels.room = 0;
}
