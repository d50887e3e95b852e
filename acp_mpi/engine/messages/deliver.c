/* The bytes of a message: to the buffer of its receive if there is a way, else to a block of the receiver's heap, with
 * the number of bytes there so far. */
#include "messages/deliver.h"
#include "base/stream_copy.h"
#include "memory/heap.h"
#include "memory/transaction.h"
#include "memory/translate.h"
#include "messages/credits.h"
#include "messages/mail_match.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "messages/shared_copy.h"
#include "operations/execute.h"
#include "peers/peer.h"
#include "peers/rank_table.h"
#include "progress/doorbell.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#define FILL_PART ((uint64_t)8 << 10) /* bytes after each of which a reader behind is notified */
#define VM_MOST ((uint64_t)1 << 30)

enum { FILL_LOCAL = 1, FILL_GLOBAL, FILL_VM, FILL_BLOCK };

/* False after the receiver has closed its engine: it may use the memory of a receive for something else. */
static bool vm_may(const acp_engine *e, const struct peer *to)
{
    return to != e->job.own && !to->shm.vm_refused && to->shm.control->phase != PHASE_CLOSED;
}

bool deliver_vm_usable(const acp_engine *e, const struct peer *to)
{
    return e->config.path != ACP_PATH_OWNER && vm_may(e, to);
}

/* The block belongs to the entry in the same instant in which it leaves the heap. */
static int take_block(acp_lane *lane, struct landing *l)
{
    struct mail_entry *entry = l->entry;
    int rc;
    do
        rc = heap_take(lane, l->heap, l->size, &entry->block, HEAP_PATIENCE_NS);
    while ((rc == ACP_E_BUSY || rc == ACP_E_INTERRUPTED) && lane_may_wait(lane));
    if (rc != ACP_OK)
        return rc;
    uint64_t block = __atomic_load_n(&entry->block, __ATOMIC_RELAXED);
    if (!mailbox_block_in(l->heap, block, l->size))
        return mailbox_damaged(lane, l->to, l->size);
    l->how = FILL_BLOCK;
    l->base = l->heap->base + block;
    __atomic_store_n(&entry->place, PLACE_BLOCK, __ATOMIC_RELEASE);
    return ACP_OK;
}

/* The buffer of the receive that it has met, if that is what the receiver has written. */
static int look_at_buffer(acp_lane *lane, struct landing *l, uint64_t *room)
{
    const struct mail_entry *entry = l->entry;
    uint64_t sealed = __atomic_load_n(&entry->room, __ATOMIC_RELAXED);
    l->buffer = __atomic_load_n(&entry->buffer, __ATOMIC_RELAXED);
    l->global = __atomic_load_n(&entry->global, __ATOMIC_RELAXED);
    *room = sealed & MAIL_ROOM;
    if (sealed == mailbox_room_sealed(*room, l->buffer, l->global))
        return ACP_OK;
    l->buffer = l->global = 0;
    return mailbox_damaged(lane, l->to, l->size);
}

static int into_buffer(struct landing *l, int how)
{
    l->how = (uint8_t)how;
    __atomic_store_n(&l->entry->place, PLACE_BUFFER, __ATOMIC_RELEASE);
    return ACP_OK;
}

int deliver_open(acp_lane *lane, struct landing *l)
{
    acp_engine *e = lane->engine;
    const struct mail_entry *entry = l->entry;
    uint64_t room;
    if (!l->size)
        return into_buffer(l, FILL_LOCAL);
    int rc = l->matched ? look_at_buffer(lane, l, &room) : ACP_OK;
    if (rc != ACP_OK)
        return rc;
    bool buffer = l->matched && l->buffer;
    if (buffer && l->to == e->job.own) {
        l->base = (unsigned char *)(uintptr_t)l->buffer;
        return into_buffer(l, FILL_LOCAL);
    }
    if (buffer && l->global && translate_find(lane, ROLE_DST, l->global, l->size))
        return into_buffer(l, FILL_GLOBAL);
    if (shared_copy_usable(e, l)) {
        shared_copy_open(lane, l, 0);
        return ACP_OK;
    }
    bool vm = buffer && deliver_vm_usable(e, l->to);
    if (vm && __atomic_load_n(&entry->attention, __ATOMIC_RELAXED) == ATTENTION_NONE)
        return into_buffer(l, FILL_VM);
    rc = take_block(lane, l);
    return rc == ACP_E_FULL && buffer && vm_may(e, l->to) ? into_buffer(l, FILL_VM) : rc; /* on any path */
}

static int fill_global(acp_lane *lane, const struct landing *l, uint64_t at,
                       const unsigned char *data, uint64_t size)
{
    acp_ga_t ga = l->global + at;
    const struct translation *t;
    for (uint32_t attempt = 0; attempt < 3; attempt++)
        if ((t = translate_find(lane, ROLE_DST, ga, size)) &&
            execute_write(lane, t, ga, data, size) == ACP_OK)
            return ACP_OK;
    return lane->fault.status == ACP_OK ? lane_fail(lane, ACP_E_UNREGISTERED, ga, size)
                                        : lane->fault.status;
}

int deliver_fill_vm(acp_lane *lane, const struct landing *l, uint64_t at, const unsigned char *data,
                    uint64_t size)
{
    struct peer *to = l->to;
    while (size) {
        uint64_t part = size < VM_MOST ? size : VM_MOST;
        struct iovec here = {(void *)(uintptr_t)data, part};
        struct iovec there = {(void *)(uintptr_t)(l->buffer + at), part};
        ssize_t n = to->lost ? -1
                             : process_vm_writev((pid_t)to->row.pid, &here, 1, &there, 1, 0);
        int error = errno;
        if (n <= 0) {
            int rc = to->lost || error == ESRCH   ? ACP_E_LOST
                     : peer_vm_refused(to, error) ? ACP_E_BUSY
                                                  : ACP_E_SYSTEM;
            if (rc == ACP_E_LOST)
                peer_mark_lost(lane->engine, to);
            lane_fail(lane, rc, 0, size);
            lane->fault.error = error;
            lane->fault.rank = rank_table_rank(lane->engine, to->slot);
            return rc;
        }
        data += n;
        at += (uint64_t)n;
        size -= (uint64_t)n;
    }
    return ACP_OK;
}

static void fill_block(struct landing *l, uint64_t at, const unsigned char *data, uint64_t size)
{
    while (size) {
        uint64_t part = size < FILL_PART ? size : FILL_PART;
        stream_copy(l->base + at, data, part);
        at += part;
        data += part;
        size -= part;
        __atomic_store_n(&l->entry->filled, mailbox_sealed(at), __ATOMIC_RELEASE);
    }
}

int deliver_fill(acp_lane *lane, struct landing *l, uint64_t at, const void *data, uint64_t size)
{
    if (at >= l->size) /* beyond the receive's room */
        return ACP_OK;
    size = size < l->size - at ? size : l->size - at;
    if (l->how == FILL_VM) {
        int rc = deliver_fill_vm(lane, l, at, data, size);
        if (rc != ACP_E_BUSY || at) /* refused from the beginning: another way */
            return rc;
        if ((rc = take_block(lane, l)) != ACP_OK)
            return rc;
    }
    if (l->how == FILL_GLOBAL)
        return fill_global(lane, l, at, data, size);
    if (l->how == FILL_BLOCK)
        fill_block(l, at, data, size);
    else
        memcpy(l->base + at, data, size);
    return ACP_OK;
}

static void end(acp_lane *lane, struct landing *l, enum entry_state state)
{
    match_done(lane, l->to, l->entry, state);
    deliver_left(lane, l);
}

void deliver_complete(acp_lane *lane, struct landing *l)
{
    end(lane, l, ENTRY_DONE);
}

/* More than fits an entry: else it would not be open. */
void deliver_left(acp_lane *lane, const struct landing *l)
{
    mailbox_fill_end(lane->engine, l->to, UINT64_MAX);
}

void deliver_failed(acp_lane *lane, struct landing *l, int status)
{
    acp_engine *e = lane->engine;
    end(lane, l, status == ACP_E_DAMAGED ? ENTRY_DAMAGED : ENTRY_LOST);
    if (l->to == e->job.own) { /* a receive for it may never come */
        e->mail.losses = 1;
        doorbell_kick(e);
    }
}

void deliver_held(acp_lane *lane, struct landing *l, acp_ga_t block)
{
    l->entry->held = block;
    __atomic_store_n(&l->entry->place, PLACE_HELD, __ATOMIC_RELEASE);
    end(lane, l, ENTRY_DONE);
}

int deliver_withdraw(acp_lane *lane, struct landing *l, const uint64_t *note)
{
    struct hold hold;
    uint32_t slots[MAIL_WANTING];
    struct mail_entry *entry = l->entry;
    int rc = transaction_enter(&hold, lane, &mailbox_of(l->heap)->section, l->heap, 0);
    if (rc != ACP_OK)
        return rc;
    bool kept = entry->list == AMONG_MESSAGES;
    if (note || kept) {
        transaction_begin(&hold);
        if (note) {
            transaction_set(&hold, &entry->size, 0);
            transaction_set(&hold, &entry->note, *note);
            transaction_set(&hold, &entry->place, PLACE_INLINE);
        } else {
            match_remove(&hold, entry);
            mailbox_entry_free(&hold, entry);
        }
        transaction_commit(&hold);
    }
    uint32_t count = credits_take_waiters(l->heap, false, slots);
    transaction_leave(&hold);
    credits_wake(lane->engine, slots, count);
    if (note)
        match_done(lane, l->to, entry, ENTRY_DONE);
    if (note || kept)
        deliver_left(lane, l);
    return note || kept ? ACP_OK : ACP_E_HANDLE;
}

int deliver_taken(acp_lane *lane, struct landing *l)
{
    struct hold hold;
    int rc = transaction_enter(&hold, lane, &mailbox_of(l->heap)->section, l->heap,
                               mail_match_patience(lane));
    if (rc != ACP_OK)
        return rc;
    struct mail_entry *entry = l->entry;
    l->matched = entry->list == AMONG_NONE;
    uint64_t room = l->size;
    if (l->matched && (rc = look_at_buffer(lane, l, &room)) == ACP_OK && room < l->size)
        l->size = room;
    transaction_leave(&hold);
    l->matched &= rc == ACP_OK;
    return rc != ACP_OK || l->matched ? rc : ACP_E_BUSY;
}
