/* Rendezvous: the receiver gets the bytes that stayed with the sender. A signal may end its wait: then it goes on with
 * the next call, perhaps into another buffer. */
#include "messages/rendezvous_get.h"
#include "containers/heap_methods.h"
#include "memory/translate.h"
#include "messages/mailbox.h"
#include "messages/request.h"
#include "messages/sender_heap.h"
#include "operations/execute.h"

#include <stdlib.h>
#include <string.h>

#define PIECE ((uint64_t)1 << 20)
#define ROOM_NS ((int64_t)1000000)

struct pull {
    uint64_t at; /* bytes that are in the buffer */
    uint64_t size; /* of the piece that is under way */
    acp_handle_t pending; /* handle of the transfer, or of the call that gives the block back */
    unsigned char *piece; /* of the library, so that a transfer never writes to a buffer that the program has again */
    struct acp_call call;
    bool again; /* the piece was for another buffer */
    bool gives;
};

/* Not now: another call goes on with it. */
static bool later(int rc)
{
    return rc == ACP_E_INTERRUPTED || rc == ACP_E_HANDLE || rc == ACP_E_BUSY;
}

/* ACP_E_INTERRUPTED, ACP_E_HANDLE: it is still under way. A transfer that a leader would wait for comes through
 * itself. */
static int settled(acp_engine *e, struct pull *p, bool waits)
{
    if (!waits && !acp_done(e, p->pending))
        return ACP_E_HANDLE;
    int rc = p->pending ? acp_wait(e, p->pending, ACP_FOREVER) : ACP_OK;
    acp_failure failure;
    uint64_t more;
    if (rc == ACP_OK && p->pending && acp_failures_take(e, p->pending, true, &failure, 1, &more))
        rc = failure.fault.status;
    if (rc != ACP_E_INTERRUPTED)
        p->pending = 0;
    return rc;
}

static int get(acp_lane *lane, struct pull *p, void *to, acp_ga_t ga, uint64_t size)
{
    int rc;
    while ((rc = acp_get(lane, to, ga, size, &p->pending)) == ACP_E_BUSY) {
        if (!lane_may_wait(lane))
            return ACP_E_BUSY;
        if ((rc = acp_wait_room(lane->engine, ACP_FOREVER)) != ACP_OK)
            return rc;
    }
    return rc;
}

/* By load and store. */
static uint64_t load(acp_lane *lane, unsigned char *to, acp_ga_t from, uint64_t size)
{
    size = size < BACKGROUND_BYTES ? size : BACKGROUND_BYTES;
    const struct translation *t = translate_find(lane, ROLE_SRC, from, size);
    return t && execute_read(lane, to, t, from, size) == ACP_OK ? size : 0;
}

/* Piece by piece, where load and store do not reach. */
static int bytes_bring(acp_lane *lane, acp_request *r, struct pull *p, unsigned char *to, uint64_t size)
{
    acp_ga_t from = r->entry->held + MAIL_HELD_HEAD;
    uint64_t before = p->at;
    int rc = ACP_OK;
    while (rc == ACP_OK && (p->pending || p->at < size)) {
        if (!lane_may_wait(lane) && p->at != before)
            return ACP_E_BUSY; /* others want to be served in between */
        uint64_t left = size - p->at;
        uint64_t loaded = p->pending ? 0 : load(lane, to + p->at, from + p->at, left);
        p->at += loaded;
        if (loaded)
            continue;
        if (!p->pending) {
            if (!p->piece && !(p->piece = malloc(PIECE)))
                return lane_fail(lane, ACP_E_SYSTEM, 0, PIECE);
            p->size = left < PIECE ? left : PIECE;
            p->again = false;
            rc = get(lane, p, p->piece, from + p->at, p->size);
        }
        if (rc == ACP_OK)
            rc = settled(lane->engine, p, lane_may_wait(lane));
        if (rc == ACP_OK && !p->again) {
            memcpy(to + p->at, p->piece, p->size);
            p->at += p->size;
        }
    }
    return rc;
}

/* Gives the block back: the receiver has the bytes, or cannot get them, for their sender may be dead and its heap
 * gone. */
static int give_back(acp_lane *lane, const acp_request *r, struct pull *p)
{
    int rc = ACP_OK;
    while (!p->gives && rc != ACP_E_INTERRUPTED && rc != ACP_E_CLOSED) {
        rc = acp_free_held(lane, r->entry->held, &p->call, &p->pending);
        p->gives = rc != ACP_E_BUSY && rc != ACP_E_INTERRUPTED;
        if (rc == ACP_E_BUSY && !lane_may_wait(lane))
            return rc;
        if (rc == ACP_E_BUSY)
            rc = acp_wait_room(lane->engine, ROOM_NS);
    }
    return p->gives ? settled(lane->engine, p, lane_may_wait(lane)) : rc;
}

/* Waits, for transfers under way would write to it. */
void rendezvous_get_free(acp_request *r)
{
    while (settled(r->engine, r->pull, true) == ACP_E_INTERRUPTED)
        continue;
    rendezvous_get_drop(r);
}

void rendezvous_get_drop(acp_request *r)
{
    if (r->pull)
        free(r->pull->piece);
    free(r->pull);
    r->pull = NULL;
}

bool acp_request_pulls(const acp_request *r)
{
    return r->kind == REQUEST_RECEIVE && !r->pulled && r->era == r->engine->mail.era && r->entry &&
           mailbox_entry_state(r->entry) == ENTRY_DONE && r->entry->place == PLACE_HELD;
}

bool rendezvous_get_active(const acp_request *r)
{
    return r->pull && r->pull->pending && !acp_done(r->engine, r->pull->pending);
}

uint64_t rendezvous_get_bytes(const acp_request *r)
{
    return r->pull ? r->pull->at : 0;
}

bool acp_request_brought(const acp_request *r)
{
    return r->pull && r->pull->gives;
}

int acp_request_pull(acp_lane *lane, acp_request *r)
{
    const struct mail_entry *l = r->entry;
    if (!acp_request_pulls(r))
        return ACP_OK;
    uint64_t size = l->size < r->room ? l->size : r->room;
    if (!r->pull && !(r->pull = calloc(1, sizeof *r->pull)))
        return lane_fail(lane, ACP_E_SYSTEM, 0, size);
    if (r->gathers && !r->own && !(r->own = malloc(size)))
        return lane_fail(lane, ACP_E_SYSTEM, 0, size);
    if (r->status == ACP_OK && !r->pull->gives) {
        int rc = bytes_bring(lane, r, r->pull, r->gathers ? r->own : r->buffer, size);
        if (later(rc))
            return rc;
        r->status = rc;
    }
    int rc = give_back(lane, r, r->pull);
    if (later(rc))
        return rc;
    r->pulled = true;
    rendezvous_get_free(r);
    return ACP_OK;
}

void acp_request_into(acp_request *r, void *buffer, uint64_t room)
{
    r->buffer = buffer;
    r->room = room;
    r->gathers = !buffer && room == UINT64_MAX;
    free(r->own);
    r->own = NULL;
    if (r->pull) {
        r->pull->at = 0;
        r->pull->again = true;
    }
}
