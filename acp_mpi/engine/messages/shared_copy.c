/* A long message between the own memories of two processes: its sender writes parts of it, and a receiver that waits
 * reads others, until all are claimed. Two processors copy faster than one, and no page is touched but the sender's
 * and the receiver's.
 *
 * The sender depends on no help: if the receiver computes, or sleeps on, it copies all of it. It waits only for parts
 * that the receiver has begun, for they are read where the program may write afterwards. Where a wild pointer wrote over
 * what is claimed, or over the place of the bytes, nobody helps any more, and the sender copies all of it again. */
#include "messages/shared_copy.h"
#include "base/likely.h"
#include "base/linux.h"
#include "core/engine_state.h"
#include "core/state/peer.h"
#include "messages/deliver.h"
#include "messages/mailbox.h"
#include "messages/match.h"
#include "peers/peer.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <sys/uio.h>

#define PART_LEAST ((uint64_t)32 << 10) /* a call costs as much as 16 KiB */
#define PART_MOST ((uint64_t)1 << 20)
#define CALL_BYTES ((uint64_t)1 << 20)   /* a receiver that sleeps is woken to help with */
#define HELPERS_MOST 65536u
#define HELPER_NS ((uint64_t)1000000)    /* a part that takes longer is waited for in the background */

bool shared_copy_usable(const acp_engine *e, const struct landing *l)
{
    return l->whole && l->matched && l->buffer && l->size >= MAIL_SHARED &&
           deliver_vm_usable(e, l->to);
}

static uint64_t place_of_bytes(const void *bytes, uint64_t filler)
{
    return ((uint64_t)(uintptr_t)bytes & MAIL_ROOM) | filler << 48;
}

static void give_up(struct mail_share *s)
{
    __atomic_store_n(&s->undone, mailbox_sealed(1), __ATOMIC_RELAXED);
}

void shared_copy_open(acp_lane *lane, struct landing *l, uint64_t at)
{
    struct mail_entry *entry = l->entry;
    entry->share = (struct mail_share){.from = mailbox_sealed(place_of_bytes(l->whole, lane->engine->self)),
                                       .claimed = mailbox_sealed(at), .helpers = mailbox_sealed(0),
                                       .undone = mailbox_sealed(0)};
    __atomic_store_n(&entry->place, PLACE_SHARED, __ATOMIC_RELEASE);
    l->shares = true;
    if (l->size - at >= CALL_BYTES && !lane->engine->progress.crowded)
        match_ring(lane, l->to, entry);
}

/* Claims half of the rest, so that both end at the same time; all of it if one alone runs at a time. A sender without
 * a part left sees the receiver's helpers. Of more bytes than there are nothing is claimed: a wild pointer has written
 * there. */
static bool piece_claim(const acp_engine *e, struct mail_share *s, uint64_t size, uint64_t *at,
                        uint64_t *part)
{
    uint64_t least = e->progress.crowded ? PART_MOST : PART_LEAST;
    uint64_t word = __atomic_load_n(&s->claimed, __ATOMIC_ACQUIRE);
    do {
        *at = mailbox_unsealed(word);
        if (*at >= size)
            return false;
        *part = ((size - *at) / 2 + PAGE - 1) & ~(PAGE - 1);
        *part = *part < least ? least : *part > PART_MOST ? PART_MOST : *part;
        *part = *part < size - *at ? *part : size - *at;
    } while (!__atomic_compare_exchange_n(&s->claimed, &word, mailbox_sealed(*at + *part), true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    return true;
}

/* More: a wild pointer has written there. */
static uint64_t helpers(const struct landing *l)
{
    return mailbox_unsealed(__atomic_load_n(&l->entry->share.helpers, __ATOMIC_ACQUIRE));
}

/* A helper's part ends soon, unless its process is stopped or dead. */
static int helpers_gone(acp_lane *lane, const struct landing *l)
{
    uint64_t since = 0, count;
    for (uint32_t look = 1; (count = helpers(l)); look++) {
        if (unlikely(count > HELPERS_MOST))
            return mailbox_damaged(lane, l->to, l->size);
        if (look % 64 && !lane->engine->progress.crowded) {
            linux_cpu_relax();
            continue;
        }
        uint64_t now = linux_now_ns();
        since = since ? since : now;
        if (now - since > HELPER_NS || !lane_may_wait(lane)) {
            /* repeats a byte: an error shows that the process is dead */
            int rc = deliver_fill_vm(lane, l, 0, l->whole, 1);
            return rc == ACP_E_LOST ? rc : ACP_E_BUSY;
        }
        sched_yield();
    }
    return ACP_OK;
}

/* All are claimed, but some have failed: they go by another way, or by the sender alone. */
static int again(acp_lane *lane, struct landing *l, uint64_t *at)
{
    struct mail_entry *entry = l->entry;
    uint64_t first = mailbox_unsealed(entry->filled); /* the bytes before are in the block */
    first = first > l->size ? 0 : first;
    if (!l->to->shm.vm_refused)
        return deliver_fill_vm(lane, l, first, l->whole + first, l->size - first);
    int rc = entry->block ? ACP_OK : deliver_open(lane, l);
    if (rc != ACP_OK)
        return rc;
    l->shares = false;
    *at = first;
    __atomic_store_n(&entry->place, PLACE_BLOCK, __ATOMIC_RELEASE);
    return ACP_E_BUSY;
}

int shared_copy_fill(acp_lane *lane, struct landing *l, uint64_t *at)
{
    struct mail_share *s = &l->entry->share;
    bool background = lane->index == LANE_LEADER; /* others wait for it, too */
    uint64_t here, part;
    while (piece_claim(lane->engine, s, l->size, &here, &part)) {
        int rc = deliver_fill_vm(lane, l, here, l->whole + here, part);
        if (rc == ACP_E_LOST)
            return rc;
        if (rc != ACP_OK) {
            give_up(s);
            __atomic_store_n(&s->claimed, mailbox_sealed(l->size), __ATOMIC_RELEASE);
        }
        *at = here + part < l->size ? here + part : l->size - 1;
        if (background && *at < l->size - 1)
            return ACP_OK;
    }
    if (unlikely(here != l->size))
        give_up(s);
    int rc = helpers_gone(lane, l);
    if (rc == ACP_OK && __atomic_load_n(&s->undone, __ATOMIC_RELAXED) != mailbox_sealed(0))
        rc = again(lane, l, at);
    if (rc == ACP_OK)
        *at = l->size;
    return rc;
}

static bool vm_read(struct peer *from, uint64_t address, unsigned char *to, uint64_t size)
{
    while (size) {
        struct iovec here = {to, size}, there = {(void *)(uintptr_t)address, size};
        ssize_t n = process_vm_readv((pid_t)from->row.pid, &here, 1, &there, 1, 0);
        if (n <= 0) {
            peer_vm_refused(from, errno);
            return false;
        }
        address += (uint64_t)n;
        to += n;
        size -= (uint64_t)n;
    }
    return true;
}

bool shared_copy_help(acp_engine *e, struct mail_entry *entry, unsigned char *buffer, uint64_t size)
{
    struct mail_share *s = &entry->share;
    uint64_t at = 0, part = 0;
    if (mailbox_unsealed(__atomic_load_n(&s->claimed, __ATOMIC_RELAXED)) >= size)
        return false;
    uint64_t bytes = mailbox_unsealed(__atomic_load_n(&s->from, __ATOMIC_RELAXED));
    uint32_t filler = (uint32_t)entry->filler;
    struct peer *from = bytes >> 48 == (filler & 0xffff) ? peer_of_slot(e, filler) : NULL;
    if (!from || from->shm.vm_refused)
        return false;
    /* Before the claim: a sender without a part left sees it. */
    __atomic_fetch_add(&s->helpers, MAIL_ONE, __ATOMIC_RELAXED);
    bool mine = piece_claim(e, s, size, &at, &part);
    bool done = mine && vm_read(from, (bytes & MAIL_ROOM) + at, buffer + at, part);
    if (mine && !done)
        give_up(s);
    __atomic_fetch_sub(&s->helpers, MAIL_ONE, __ATOMIC_RELEASE);
    return done;
}
