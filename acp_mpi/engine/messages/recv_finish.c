/* Requests end: cancelled, lost, or with their bytes where they belong. */
#include "core/engine_state.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "messages/mail_match.h"
#include "messages/mailbox.h"
#include "messages/message_send_queue.h"
#include "messages/recv.h"
#include "messages/request.h"
#include "peers/peer.h"

#include <string.h>

/* In the section: out of its list, if it is in one. */
static void unlist(struct hold *hold, const acp_request *r)
{
    if (r->damages != r->engine->mail.damages)
        return;
    transaction_begin(hold);
    mailbox_unlink(hold, r->entry);
    transaction_commit(hold);
}

/* Removes a receive that has met no message from its list. Its entry stays until the request ends: another thread may
 * wait for it, and look there. */
static int unpost(acp_lane *lane, acp_request *r)
{
    struct hold hold;
    acp_engine *e = lane->engine;
    struct heap *h = mailbox_heap(e, e->job.own);
    int rc = transaction_enter(&hold, lane, &mailbox_of(h)->section, h, mail_match_patience(lane));
    if (rc != ACP_OK)
        return rc;
    rc = ACP_E_HANDLE;
    if (!r->over && mailbox_entry_state(r->entry) == ENTRY_POSTED) {
        unlist(&hold, r);
        request_over(r, ACP_E_CANCELLED);
        rc = ACP_OK;
    }
    transaction_leave(&hold);
    return rc;
}

int acp_request_cancel(acp_lane *lane, acp_request *r)
{
    int rc = ACP_E_HANDLE;
    if (r->era == lane->engine->mail.era && !r->over)
        rc = r->kind == REQUEST_SEND ? message_send_queue_withdraw(lane, &r, NULL) : unpost(lane, r);
    if (rc != ACP_E_HANDLE)
        return rc;
    bool done = r->kind == REQUEST_SEND && r->over && r->status == ACP_E_CANCELLED;
    return done ? ACP_OK : lane_fail(lane, rc, 0, 0); /* the peer's answer has done it, maybe just now */
}

static void give_block(acp_lane *lane, struct heap *h, struct mail_entry *l)
{
    int rc;
    if (!l->block)
        return;
    do
        rc = heap_give(lane, h, &l->block, HEAP_PATIENCE_NS);
    while (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED);
}

int acp_request_look(const acp_request *r, acp_envelope *got)
{
    if (r->era != r->engine->mail.era || !r->entry || recv_state(r) != ENTRY_DONE)
        return ACP_E_HANDLE;
    mail_match_envelope(r->entry, got);
    return ACP_OK;
}

static int pull_wholly(acp_lane *lane, acp_request *r)
{
    int rc;
    while ((rc = acp_request_pull(lane, r)) == ACP_E_INTERRUPTED)
        continue; /* the bytes are the receiver's: it sees the end of this */
    if (rc == ACP_OK && r->status != ACP_OK) {
        rc = lane_fail(lane, r->status, 0, r->entry->size);
        lane->fault.rank = (int64_t)r->entry->source;
    }
    return rc;
}

/* Can that many bytes be where the entry says? */
static bool can_be_there(const struct heap *h, const struct mail_entry *l, uint64_t size)
{
    return l->place == PLACE_INLINE ? size <= MAIL_INLINE
                                    : l->place != PLACE_BLOCK || mailbox_block_in(h, l->block, size);
}

const void *acp_request_data(acp_lane *lane, acp_request *r)
{
    struct mail_entry *l = r->entry;
    if (!l || !r->gathers)
        return NULL;
    struct heap *h = mailbox_heap(lane->engine, lane->engine->job.own);
    if (l->place == PLACE_HELD)
        return pull_wholly(lane, r) == ACP_OK ? r->own : NULL;
    if (can_be_there(h, l, l->size))
        return l->place == PLACE_BLOCK ? h->base + l->block : l->data;
    mailbox_damaged(lane, lane->engine->job.own, l->size);
    return NULL;
}

/* Of so many, all of which are there; UINT64_MAX: a wild pointer has written over their number. */
static uint64_t bytes_by_block(const struct mail_entry *l, uint64_t size)
{
    uint64_t filled = mailbox_unsealed(l->filled);
    if (l->place == PLACE_BLOCK)
        return size;
    return l->place != PLACE_SHARED ? 0 : filled > l->size ? UINT64_MAX : filled < size ? filled : size;
}

/* The bytes of a message that is there. */
static int finish(acp_lane *lane, acp_request *r, struct mail_entry *l)
{
    uint64_t size = l->size < r->room ? l->size : r->room;
    int rc = ACP_OK;
    if (l->place == PLACE_HELD) {
        rc = pull_wholly(lane, r);
    } else if (!can_be_there(mailbox_heap(lane->engine, lane->engine->job.own), l, size)) {
        rc = mailbox_damaged(lane, lane->engine->job.own, size);
    } else if (l->place == PLACE_INLINE && r->buffer && size) {
        memcpy(r->buffer, l->data, size);
    } else {
        recv_follow(r);
        if (unlikely(r->buffer && r->copied < bytes_by_block(l, size)))
            rc = mailbox_damaged(lane, lane->engine->job.own, size);
    }
    return rc != ACP_OK ? rc : l->size > r->room ? ACP_E_TRUNCATED : ACP_OK;
}

static int lost(acp_lane *lane, const acp_request *r)
{
    const struct mail_entry *l = r->entry;
    bool posted = mailbox_entry_state(l) == ENTRY_POSTED;
    int why = posted && !r->any && r->peer ? peer_gone(lane->engine, r->peer) : ACP_E_LOST;
    lane_fail(lane, why == ACP_OK ? ACP_E_LOST : why, 0, 0);
    lane->fault.rank = (int64_t)(posted ? l->want_source : l->source); /* -1: any */
    if (posted && r->among)
        lane->fault.rank = acp_sources_lost(lane->engine, r->among);
    return lane->fault.status;
}

/* Ends a receive that has met no message, with the reason. ACP_E_HANDLE: it has met one, or another thread has
 * cancelled it. */
static int withdraw(acp_lane *lane, acp_request *r)
{
    int rc;
    enum entry_state state;
    do {
        state = recv_state(r);
        rc = unpost(lane, r);
    } while (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED);
    if (rc != ACP_OK)
        return rc;
    int why = state == ENTRY_LOST      ? lost(lane, r)
              : state == ENTRY_DAMAGED ? mailbox_damaged(lane, lane->engine->job.own, 0)
                                       : ACP_E_CANCELLED;
    mailbox_entry_put(lane, mailbox_heap(lane->engine, lane->engine->job.own), r->entry);
    return why;
}

/* Its entry is not used again, nor its block: a sender may still write there. It is taken out of the list in which
 * messages would meet it. */
static int damaged(acp_lane *lane, struct heap *h, const acp_request *r)
{
    struct hold hold;
    const struct mail_entry *l = r->entry;
    int rc = l->list == AMONG_RECEIVES || l->list == AMONG_WILD ? ACP_E_BUSY : ACP_E_HANDLE;
    while (rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED)
        rc = transaction_enter(&hold, lane, &mailbox_of(h)->section, h, mail_match_patience(lane));
    if (rc == ACP_OK) {
        unlist(&hold, r);
        transaction_leave(&hold);
    }
    return mailbox_damaged(lane, lane->engine->job.own, 0);
}

static int receive_end(acp_lane *lane, acp_request *r, acp_envelope *got)
{
    acp_engine *e = lane->engine;
    struct heap *h = mailbox_heap(e, e->job.own);
    int rc = ACP_E_CLOSED;
    if (r->era != e->mail.era) /* the heap is another */
        return lane_fail(lane, rc, 0, 0);
    do {
        while (!r->over && recv_state(r) == ENTRY_FILLING)
            if ((rc = acp_request_wait(e, r, ACP_FOREVER)) == ACP_E_CLOSED)
                return lane_fail(lane, rc, 0, 0);
        /* Also if the sender is dead: a change of state in which it died is taken back. */
        if (!r->over && mailbox_entry_state(r->entry) < ENTRY_DONE &&
            (rc = withdraw(lane, r)) != ACP_E_HANDLE)
            return rc;
    } while (!r->over && recv_state(r) == ENTRY_FILLING);
    struct mail_entry *l = r->entry;
    if (r->over) {
        mailbox_entry_put(lane, h, l);
        return r->status;
    }
    if (got)
        mail_match_envelope(l, got);
    enum entry_state state = recv_state(r);
    if (unlikely(state == ENTRY_DAMAGED))
        return damaged(lane, h, r);
    rc = state == ENTRY_DONE ? finish(lane, r, l)
         : state == ENTRY_REFUSED ? lane_fail(lane, ACP_E_TYPE, 0, l->size) : lost(lane, r);
    give_block(lane, h, l);
    mailbox_entry_put(lane, h, l);
    return rc;
}

int acp_request_end(acp_lane *lane, acp_request *r, acp_envelope *got)
{
    int rc = r->kind == REQUEST_SEND ? message_send_queue_finish(lane, r) : receive_end(lane, r, got);
    request_free(lane, r);
    return rc;
}
