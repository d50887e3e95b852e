/* Receives: posted, or served by a message that is there already; ended. */
#include "request.h"

#include "mail_match.h"

#include <stdlib.h>
#include <string.h>

#define FOLLOW_PART ((uint64_t)64 << 10)

static void offer(acp_engine *e, acp_request *r, struct letter *l)
{
    l->room = r->room;
    l->buffer = (uint64_t)(uintptr_t)r->buffer;
    l->global = r->room > MAIL_INLINE && r->buffer ? acp_query_ga(e, r->buffer, r->room) : 0;
}

static void post(struct hold *hold, acp_request *r, const acp_envelope *want, struct letter *l)
{
    l->context = want->context;
    l->want_source = (uint64_t)want->source;
    l->want_tag = (uint64_t)want->tag;
    l->place = PLACE_NONE;
    letter_attend(l, ATTENTION_NONE);
    offer(hold->lane->engine, r, l);
    section_set(hold, &l->state, LETTER_POSTED);
    letter_link(hold, l, want->source == ACP_ANY || want->tag == ACP_ANY ? AMONG_WILD
                                                                         : AMONG_RECEIVES);
}

/* In the section of the own mailbox: a message that is there, or the receive is posted. */
static int match(struct hold *hold, acp_request *r, const acp_envelope *want)
{
    struct letter *l = mail_find_message(hold->heap, want);
    int rc = ACP_OK;
    section_begin(hold);
    if (l) {
        mail_unkeep(hold, l);
        offer(hold->lane->engine, r, l);
    } else if ((rc = letter_get(hold, &l)) == ACP_OK) {
        post(hold, r, want, l);
    } else {
        section_cancel(hold);
        return rc;
    }
    r->letter = l;
    section_commit(hold);
    return ACP_OK;
}

static int receive(acp_lane *lane, acp_request *r, const acp_envelope *want)
{
    acp_engine *e = lane->engine;
    struct hold hold;
    uint32_t slots[MAIL_WANTING];
    struct heap *h = mail_heap(e, e->own);
    if (!h)
        return fail(lane, ACP_E_FULL, 0, 0);
    int rc = section_enter(&hold, lane, &h->head->mailbox.section, h, mail_patience(lane));
    if (rc != ACP_OK)
        return rc;
    rc = match(&hold, r, want);
    bool posted = rc == ACP_OK && letter_state(r->letter) == LETTER_POSTED;
    uint32_t count = mail_wanting_take(h, posted, slots);
    section_leave(&hold);
    mail_wanting_wake(e, slots, count);
    return rc;
}

static acp_request *receive_new(acp_lane *lane, void *buffer, uint64_t room)
{
    acp_request *r = request_new(lane, REQUEST_RECEIVE);
    if (r) {
        r->buffer = buffer;
        r->room = room;
        r->gathers = !buffer && room == UINT64_MAX;
    }
    return r;
}

int acp_receive(acp_lane *lane, const acp_envelope *want, void *buffer, acp_request **request)
{
    acp_engine *e = lane->engine;
    if (!mail_plausible(e, want)) {
        fail(lane, want->tag < ACP_ANY ? ACP_E_ARGUMENT : ACP_E_RANK, 0, want->size);
        lane->fault.rank = want->source;
        return lane->fault.status;
    }
    acp_request *r = receive_new(lane, buffer, want->size);
    if (!r)
        return ACP_E_SYSTEM;
    if (want->source != ACP_ANY && want->source != (int64_t)e->rank &&
        (r->peer = peer_of_slot(e, slot_of_rank(e, (uint32_t)want->source))) && !r->peer->watched)
        peer_watch(e, r->peer);
    r->any = want->source == ACP_ANY;
    int rc = receive(lane, r, want);
    if (rc != ACP_OK) {
        request_free(lane, r);
        return rc;
    }
    *request = r;
    return ACP_OK;
}

int acp_receive_taken(acp_lane *lane, uint64_t taken, void *buffer, uint64_t room,
                      acp_request **request)
{
    struct hold hold;
    acp_engine *e = lane->engine;
    struct heap *h = mail_heap(e, e->own);
    struct letter *l = h ? letter_at(h, taken) : NULL;
    if (!l || l->list != AMONG_TAKEN)
        return fail(lane, ACP_E_HANDLE, 0, 0);
    int rc = section_enter(&hold, lane, &h->head->mailbox.section, h, mail_patience(lane));
    if (rc != ACP_OK)
        return rc;
    acp_request *r = receive_new(lane, buffer, room);
    if (r) {
        offer(e, r, l);
        r->letter = l;
        l->list = AMONG_NONE; /* who brings it may look for the buffer now */
        *request = r;
    }
    section_leave(&hold);
    return r ? ACP_OK : ACP_E_SYSTEM;
}

static bool block_in(const struct heap *h, uint64_t at, uint64_t size)
{
    return at >= h->head->first && size <= h->span && at <= h->span - size;
}

/* The bytes that have come by a block and are not in the buffer yet. */
bool request_follow(acp_request *r)
{
    struct letter *l = r->letter;
    acp_engine *e = r->engine;
    uint64_t place = __atomic_load_n(&l->place, __ATOMIC_ACQUIRE);
    bool window = place == PLACE_WINDOW;
    if (!r->buffer || (place != PLACE_BLOCK && !window))
        return false;
    uint64_t filled = __atomic_load_n(&l->filled, __ATOMIC_ACQUIRE);
    const struct heap *h = atomic_load_explicit(&e->own->heap, memory_order_relaxed);
    const unsigned char *block = h->base + l->block;
    filled = filled < r->room ? filled : r->room;
    if (filled <= r->copied || !block_in(h, l->block, window ? MAIL_WINDOW : filled))
        return false;
    while (r->copied < filled) {
        uint64_t from = window ? r->copied % MAIL_WINDOW : r->copied;
        uint64_t part = filled - r->copied;
        part = part < FOLLOW_PART ? part : FOLLOW_PART;
        if (window && part > MAIL_WINDOW - from)
            part = MAIL_WINDOW - from;
        memcpy(r->buffer + r->copied, block + from, part);
        r->copied += part;
        __atomic_store_n(&l->drained, r->copied, __ATOMIC_RELEASE);
    }
    return true;
}

/* What has become of a letter; LOST too if who brings its bytes, or should, is dead. */
enum letter_state request_state(const acp_request *r)
{
    acp_engine *e = r->engine;
    const struct letter *l = r->letter;
    enum letter_state state = letter_state(l);
    if (likely(state == LETTER_DONE) || !e->departed)
        return state;
    const struct peer *p = state == LETTER_FILLING ? peer_known(e, (uint32_t)l->filler)
                                                   : r->peer;
    bool lost = (state == LETTER_POSTED || state == LETTER_FILLING) && p && p->lost;
    lost |= state == LETTER_POSTED && r->any && e->losses != e->losses_accepted;
    if (!lost)
        return state;
    /* It may have come in between: a dead process brings no more. */
    enum letter_state now = letter_state(l);
    return now == state ? LETTER_LOST : now;
}

bool acp_request_done(const acp_request *r)
{
    if (!r->letter)
        return atomic_load_explicit(&r->over, memory_order_acquire);
    return r->era != r->engine->mail_era || request_state(r) >= LETTER_DONE;
}

/* In the section: a receive that no message has met is no more. */
static int unpost(acp_lane *lane, acp_request *r)
{
    struct hold hold;
    acp_engine *e = lane->engine;
    struct heap *h = mail_heap(e, e->own);
    int rc = section_enter(&hold, lane, &h->head->mailbox.section, h, mail_patience(lane));
    if (rc != ACP_OK)
        return rc;
    rc = ACP_E_HANDLE;
    if (letter_state(r->letter) == LETTER_POSTED) {
        section_begin(&hold);
        letter_unlink(&hold, r->letter);
        section_commit(&hold);
        rc = ACP_OK;
    }
    section_leave(&hold);
    if (rc == ACP_OK) {
        letter_put(lane, h, r->letter);
        r->letter = NULL;
        r->status = ACP_E_CANCELLED;
        atomic_store(&r->over, 1);
    }
    return rc;
}

int acp_request_cancel(acp_lane *lane, acp_request *r)
{
    if (r->era != lane->engine->mail_era || (!r->letter && r->over))
        return fail(lane, ACP_E_HANDLE, 0, 0);
    int rc = r->kind == REQUEST_SEND ? send_cancel(lane, r) : unpost(lane, r);
    return rc == ACP_E_HANDLE ? fail(lane, rc, 0, 0) : rc;
}

static void give_block(acp_lane *lane, struct heap *h, struct letter *l)
{
    int rc;
    if (!l->block)
        return;
    do
        rc = heap_give(lane, h, &l->block, HEAP_PATIENCE_NS);
    while (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED);
}

static int settled(acp_engine *e, int rc, acp_handle_t pending)
{
    while (rc == ACP_OK && pending && (rc = acp_wait(e, pending, ACP_FOREVER)) == ACP_E_INTERRUPTED)
        rc = ACP_OK; /* the bytes are the receive's: it sees the end of this */
    acp_failure failure;
    uint64_t more;
    if (rc == ACP_OK && pending && acp_failures_take(e, pending, true, &failure, 1, &more))
        rc = failure.fault.status;
    return rc;
}

/* Bytes that the sender has kept, by whatever road leads there; then its block goes back. */
static int pull(acp_lane *lane, acp_request *r, struct letter *l, uint64_t size)
{
    acp_engine *e = lane->engine;
    struct acp_call call;
    acp_handle_t pending;
    int rc = ACP_OK;
    unsigned char *to = r->buffer;
    if (r->gathers && !(to = r->own = malloc(size)))
        return fail(lane, ACP_E_SYSTEM, 0, size);
    if (size) {
        while ((rc = acp_get(lane, to, l->held + MAIL_HELD_HEAD, size, &pending)) == ACP_E_BUSY)
            acp_wait_room(e, ACP_FOREVER);
        rc = settled(e, rc, pending);
    }
    int given;
    while ((given = acp_free(lane, l->held, &call, &pending)) == ACP_E_BUSY)
        acp_wait_room(e, 1000000);
    settled(e, given, pending);
    return rc;
}

int acp_request_look(const acp_request *r, acp_envelope *got)
{
    if (r->era != r->engine->mail_era || !r->letter || request_state(r) != LETTER_DONE)
        return ACP_E_HANDLE;
    envelope_of(r->letter, got);
    return ACP_OK;
}

const void *acp_request_data(acp_lane *lane, acp_request *r)
{
    struct letter *l = r->letter;
    if (!l || !r->gathers)
        return NULL;
    struct heap *h = mail_heap(lane->engine, lane->engine->own);
    if (l->place == PLACE_HELD && !r->own) {
        r->status = pull(lane, r, l, l->size);
        if (r->status != ACP_OK) {
            free(r->own);
            r->own = NULL;
        }
    }
    return l->place == PLACE_HELD    ? r->own
           : l->place == PLACE_BLOCK ? h->base + l->block
                                     : l->data;
}

/* The bytes of a message that is there. */
static int finish(acp_lane *lane, acp_request *r, struct letter *l)
{
    uint64_t size = l->size < r->room ? l->size : r->room;
    int rc = ACP_OK;
    if (l->place == PLACE_HELD) {
        if (!r->own)
            rc = r->status != ACP_OK ? r->status : pull(lane, r, l, size);
    } else if (l->place == PLACE_INLINE && r->buffer && size) {
        memcpy(r->buffer, l->data, size);
    } else {
        request_follow(r);
    }
    return rc != ACP_OK ? rc : l->size > r->room ? ACP_E_TRUNCATED : ACP_OK;
}

static int lost(acp_lane *lane, const acp_request *r)
{
    const struct letter *l = r->letter;
    bool posted = letter_state(l) == LETTER_POSTED;
    fail(lane, ACP_E_LOST, 0, 0);
    lane->fault.rank = (int64_t)(posted ? l->want_source : l->source); /* -1: any */
    return ACP_E_LOST;
}

static int receive_end(acp_lane *lane, acp_request *r, acp_envelope *got)
{
    acp_engine *e = lane->engine;
    struct heap *h = mail_heap(e, e->own);
    int rc = ACP_E_CLOSED;
    if (r->era != e->mail_era) /* the heap is another */
        return fail(lane, rc, 0, 0);
    while (r->letter && letter_state(r->letter) == LETTER_POSTED) {
        int why = request_state(r) == LETTER_LOST ? lost(lane, r) : ACP_E_CANCELLED;
        acp_fault fault = lane->fault;
        rc = unpost(lane, r);
        if (rc == ACP_OK && why == ACP_E_LOST)
            lane->fault = fault;
        if (rc == ACP_OK)
            return why;
        if (rc != ACP_E_BUSY && rc != ACP_E_HANDLE && rc != ACP_E_INTERRUPTED)
            return rc;
    }
    if (!r->letter)
        return r->status;
    while (request_state(r) == LETTER_FILLING)
        if ((rc = acp_request_wait(e, r, ACP_FOREVER)) == ACP_E_CLOSED)
            return fail(lane, rc, 0, 0);
    struct letter *l = r->letter;
    if (got)
        envelope_of(l, got);
    rc = request_state(r) == LETTER_DONE ? finish(lane, r, l) : lost(lane, r);
    give_block(lane, h, l);
    letter_put(lane, h, l);
    return rc;
}

int acp_request_end(acp_lane *lane, acp_request *r, acp_envelope *got)
{
    int rc = r->kind == REQUEST_SEND ? send_end(lane, r) : receive_end(lane, r, got);
    request_free(lane, r);
    return rc;
}
