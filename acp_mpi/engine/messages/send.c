/* A message is sent: brought to the mailbox of its receiver by load and store. */
#include "messages/send.h"
#include "base/linux.h"
#include "base/stream_copy.h"
#include "core/rank_slot.h"
#include "core/state/peer.h"
#include "memory/heap.h"
#include "messages/deliver.h"
#include "messages/pair_ring.h"
#include "messages/pair_ring_deliver.h"
#include "messages/flow_send.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/message_send_queue.h"
#include "messages/request.h"
#include "messages/sender_heap.h"
#include "messages/shared_copy.h"
#include "peers/newcomers.h"
#include "peers/peer.h"

#define KEPT_PART ((uint64_t)64 << 10) /* bytes between two checks whether a receive has come */
#define LOOKS_LEAST 16u
#define LOOKS_MOST 512u
#define LOOKS_AGAIN 32u /* long messages between two long polls, whatever the outcome */

static struct peer *mail_peer(acp_lane *lane, uint32_t rank)
{
    acp_engine *e = lane->engine;
    struct peer *p = NULL;
    if (likely(rank < e->procs) || newcomers_find(e, rank)) {
        uint32_t slot = rank_slot_of(e, rank);
        p = lane->peers[slot % LANE_PEERS];
        if (!p || p->slot != slot)
            p = lane->peers[slot % LANE_PEERS] = peer_of_slot(e, slot);
        if (likely(p && !p->lost))
            return p;
    }
    lane_fail(lane, p ? ACP_E_LOST : ACP_E_RANK, 0, 0);
    lane->fault.rank = rank;
    return NULL;
}

/* A receive has taken it meanwhile: the bytes in the block are not needed. */
static bool wanted_now(acp_lane *lane, struct landing *l, struct heap *h, uint64_t block)
{
    if (l->matched || !deliver_wanted(l) || deliver_taken(lane, l) != ACP_OK ||
        sender_heap_drop(lane, h, block, 0) != ACP_OK)
        return false;
    l->held = false;
    return true;
}

/* The own heap takes the bytes, past the bound of the receiver's mailbox, until they are wanted. */
static int keep_here(acp_lane *lane, acp_request *r)
{
    acp_engine *e = lane->engine;
    struct landing *l = &r->landing;
    struct heap *h = mailbox_heap(e, e->job.own);
    uint64_t block = 0, size = l->size, part;
    if (!h)
        return ACP_E_FULL;
    int rc = sender_heap_take(lane, h, r->peer, size, &block, HEAP_PATIENCE_NS);
    if (rc != ACP_OK)
        return rc;
    for (uint64_t at = 0; at < size; at += part) {
        if (wanted_now(lane, l, h, block))
            return deliver_open(lane, l);
        part = size - at < KEPT_PART ? size - at : KEPT_PART;
        stream_copy(sender_heap_bytes(h, block) + at, r->data + at, part);
    }
    deliver_held(lane, l, sender_heap_hand_over(e, h, r->peer, block));
    r->kept = true;
    return ACP_OK;
}

/* Polls for a receive. One that comes now saves a copy of the bytes, and a sender that waits for it does not run ahead
 * of its receiver, which would then copy all of them alone. How often that was so lately decides how long to poll; now
 * and then a long poll lets a receiver that is behind catch up. */
static bool wanted_soon(const acp_lane *lane, const struct landing *l)
{
    acp_engine *e = lane->engine;
    if (e->progress.crowded || lane->index == LANE_LEADER || l->size < KEPT_PART / 2)
        return deliver_wanted(l);
    uint32_t looks = atomic_load_explicit(&e->mail.send_looks, memory_order_relaxed);
    bool anew = atomic_fetch_add_explicit(&e->mail.sends_kept, 1, memory_order_relaxed) % LOOKS_AGAIN == 0;
    for (uint32_t i = 0; i < (anew ? LOOKS_MOST : looks) && !deliver_wanted(l); i++)
        linux_cpu_relax();
    bool is = deliver_wanted(l);
    looks = is ? 2 * looks : looks / 2;
    looks = looks < LOOKS_LEAST ? LOOKS_LEAST : looks > LOOKS_MOST ? LOOKS_MOST : looks;
    atomic_store_explicit(&e->mail.send_looks, looks, memory_order_relaxed);
    return is;
}

/* Past the bound the bytes stay here; if there is no memory for that either, here or there, then in the receive's
 * buffer, as soon as there is a receive. */
static int open(acp_lane *lane, acp_request *r)
{
    struct landing *l = &r->landing;
    l->whole = r->data;
    if (!l->matched && wanted_soon(lane, l) && deliver_taken(lane, l) == ACP_OK)
        l->held = false;
    int rc = l->held ? keep_here(lane, r) : deliver_open(lane, l);
    if (rc == ACP_E_FULL && !l->held)
        rc = keep_here(lane, r);
    if (rc == ACP_E_FULL && !l->matched && deliver_taken(lane, l) == ACP_OK) {
        l->held = false;
        rc = deliver_open(lane, l);
    }
    if (rc == ACP_E_FULL || rc == ACP_E_INTERRUPTED)
        return ACP_E_BUSY;
    return rc;
}

/* One slice. A receive may have taken a message that was kept: the rest goes to its buffer. */
static int slice(acp_lane *lane, acp_request *r)
{
    struct landing *l = &r->landing;
    if (l->shares)
        return shared_copy_fill(lane, l, &r->at);
    uint64_t left = l->size - r->at, most = l->matched ? BACKGROUND_BYTES : KEPT_PART;
    uint64_t part = left < most ? left : most;
    int rc = deliver_fill(lane, l, r->at, r->data + r->at, part);
    if (rc != ACP_OK)
        return rc;
    r->at += part;
    if (!l->matched && r->at < l->size && deliver_wanted(l) && deliver_taken(lane, l) == ACP_OK &&
        r->at < l->size && shared_copy_usable(lane->engine, l))
        shared_copy_open(lane, l, r->at);
    return ACP_OK;
}

static int request_fill(acp_lane *lane, acp_request *r)
{
    struct landing *l = &r->landing;
    bool background = lane->index == LANE_LEADER; /* others wait for it, too */
    while (r->at < l->size) {
        int rc = slice(lane, r);
        if (rc == ACP_E_FULL)
            return ACP_E_BUSY;
        if (rc != ACP_OK)
            return rc;
        if (background && r->at < l->size)
            return ACP_E_BUSY;
    }
    deliver_complete(lane, l);
    return ACP_OK;
}

int send_advance(acp_lane *lane, acp_request *r, const acp_request *first)
{
    acp_engine *e = lane->engine;
    int rc = ACP_OK;
    if (r->peer->lost)
        rc = ACP_E_LOST;
    if (rc == ACP_OK && r->step == STEP_ARRIVE) {
        enum mail_class class = mailbox_class(r->envelope.context);
        if (unlikely(pair_ring_before(e, r->peer, class)) &&
            (rc = pair_ring_deliver_own(lane, r->peer, class)) != ACP_OK) {
            r->landing.looks = true;
            return rc;
        }
        rc = first ? match_posted(lane, r->peer, &r->envelope, r->data,
                                  (struct places){0, first->landing.before}, e->self, &r->landing)
                   : match_arrive(lane, r->peer, &r->envelope, r->data, false, e->self,
                                  &r->landing);
        if (rc != ACP_OK)
            return rc;
        r->step = STEP_OPEN;
        if (!r->landing.open)
            return ACP_OK;
    }
    if (rc == ACP_OK && r->step == STEP_OPEN) {
        rc = open(lane, r);
        if (rc == ACP_OK && r->kept)
            return ACP_OK;
        if (rc == ACP_OK)
            r->step = STEP_FILL;
    }
    if (rc == ACP_OK)
        rc = request_fill(lane, r);
    if (rc != ACP_OK && rc != ACP_E_BUSY && rc != ACP_E_LOST)
        deliver_failed(lane, &r->landing, rc);
    else if (rc == ACP_E_LOST && r->step != STEP_ARRIVE)
        deliver_left(lane, &r->landing);
    return rc;
}

static int to_posted(acp_lane *lane, struct peer *to, const acp_envelope *envelope, const void *data,
                     acp_request **request)
{
    acp_engine *e = lane->engine;
    acp_request r = {.engine = e, .kind = REQUEST_SEND, .peer = to, .envelope = *envelope,
                     .data = data, .era = e->mail.era, .step = STEP_OPEN};
    *request = NULL;
    int rc = match_posted(lane, to, envelope, data, (struct places){0, UINT64_MAX}, e->self, &r.landing);
    if (rc != ACP_OK)
        return rc == ACP_E_FULL ? lane_fail(lane, ACP_E_HANDLE, 0, envelope->size) : rc;
    if (r.landing.open)
        rc = send_advance(lane, &r, NULL);
    return rc == ACP_E_FULL || rc == ACP_E_BUSY ? message_send_queue_add(lane, &r, request) : rc;
}

int acp_hand_on(acp_lane *lane, const acp_envelope *envelope, const void *data, acp_request **request)
{
    return to_posted(lane, lane->engine->job.own, envelope, data, request);
}

bool acp_send_short(acp_lane *lane, uint32_t dest, const acp_envelope *envelope, const void *data)
{
    acp_engine *e = lane->engine;
    struct peer *to = envelope->size <= ACP_SHORT_MOST && envelope->tag >= 0 ? mail_peer(lane, dest) : NULL;
    return to && !mailbox_is_far(e, to) && (likely(!atomic_load(&e->mail.sends)) || !message_send_queue_has(e, to)) &&
           pair_ring_put(lane, to, envelope, data);
}

int acp_send(acp_lane *lane, uint32_t dest, const acp_envelope *envelope, const void *data,
             acp_request **request)
{
    acp_engine *e = lane->engine;
    struct peer *to = mail_peer(lane, dest);
    *request = NULL;
    if (unlikely(!to))
        return lane->fault.status;
    if (unlikely(envelope->tag < 0))
        return lane_fail(lane, ACP_E_ARGUMENT, 0, envelope->size);
    acp_request r = {.engine = e, .kind = REQUEST_SEND, .peer = to, .envelope = *envelope,
                     .data = data, .era = e->mail.era};
    r.envelope.source = e->rank;
    if (unlikely(mailbox_is_far(e, to)))
        return flow_send_message(lane, to, &r.envelope, data, request);
    if (unlikely(atomic_load(&e->mail.sends) && message_send_queue_has(e, to)))
        return message_send_queue_add(lane, &r, request);
    int rc = send_advance(lane, &r, NULL);
    bool begun = r.step != STEP_ARRIVE;
    if (likely(rc == ACP_OK) || (!begun && rc != ACP_E_FULL)) {
        if (rc != ACP_OK)
            lane->fault.rank = dest;
        return rc;
    }
    return rc == ACP_E_FULL || rc == ACP_E_BUSY ? message_send_queue_add(lane, &r, request) : rc;
}

int send_posted(acp_lane *lane, uint32_t dest, const acp_envelope *envelope, const void *data, acp_request **request)
{
    acp_envelope m = *envelope;
    struct peer *to = mail_peer(lane, dest);
    if (!to)
        return lane->fault.status;
    if (mailbox_is_far(lane->engine, to) || !deliver_vm_usable(lane->engine, to))
        return lane_fail(lane, ACP_E_HANDLE, 0, m.size);
    m.source = lane->engine->rank;
    return to_posted(lane, to, &m, data, request);
}
