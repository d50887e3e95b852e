/* Blocks of peers of the node that this process has mapped, so that its copies need no help of their owners. An import
 * costs a driver's call of up to a millisecond, and stays: it ends when the owner ends the block, when the owner is
 * lost, or as the one used longest ago of more than IMPORTS. What cannot be imported is remembered, too. */
#include "devices/device_import.h"
#include "base/linux.h"
#include "core/state/peer.h"
#include "devices/device_mark.h"
#include "memory/directory.h"
#include "peers/peer.h"
#include "progress/doorbell.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IMPORTS 256u
#define AGAIN_NS ((uint64_t)100000000) /* a context may have come into being since */

struct device_import {
    struct device_import *next;
    struct peer *peer;
    uint64_t serial;
    struct device_kind *kind;
    struct kind_block block;
    struct device_pass *pass;
    uint64_t used; /* by the clock of the engine */
    uint64_t again; /* of a refused one: when it may be tried again, ns */
    uint32_t uses;
    bool making, refused;
    char why[112]; /* it is refused */
};

static struct device_import *import_of(const acp_engine *e, const struct peer *p, uint64_t serial)
{
    struct device_import *i = e->devices.imports;
    while (i && (i->peer != p || i->serial != serial))
        i = i->next;
    return i;
}

static int region_of(const struct translation *t, acp_ga_t ga, struct region *region)
{
    int rc = directory_find(t->peer->shm.control, acp_ga_offset(ga), region);
    return rc != ACP_OK || region->kind != SEGMENT_DEVICE || region->generation != t->live ? ACP_E_UNREGISTERED : ACP_OK;
}

bool device_import_likely(acp_engine *e, const struct translation *t, acp_ga_t ga)
{
    struct region region;
    if (t->peer == e->job.own)
        return true;
    if (!atomic_load_explicit(&e->devices.used, memory_order_relaxed) || region_of(t, ga, &region) != ACP_OK)
        return false;
    pthread_mutex_lock(&e->devices.lock);
    const struct device_import *i = import_of(e, t->peer, region.serial);
    bool likely_so = !i || (!i->making && (!i->refused || linux_now_ns() > i->again));
    pthread_mutex_unlock(&e->devices.lock);
    return likely_so;
}

static void bit_set(struct device_pass *pass, const struct peer *owner, bool imported)
{
    uint32_t line = owner->shm.line;
    uint64_t bit = (uint64_t)1 << line % 64;
    if (imported)
        atomic_fetch_or(&pass->importers[line / 64], bit);
    else
        atomic_fetch_and(&pass->importers[line / 64], ~bit);
}

/* Lets go of one that is in the list as if it were being made, so that no thread imports the block anew before its bit
 * is out. The owner learns that it may free the block. */
static void import_end(acp_engine *e, struct device_import *i)
{
    struct peer *p = i->peer;
    if (!i->refused)
        i->kind->table->release(i->kind->state, &i->block);
    if (i->pass && !p->lost) {
        bit_set(i->pass, p, false);
        if (atomic_load(&i->pass->ends)) {
            doorbell_wake(p->shm.doors);
            doorbell_ring(e, p);
        }
    }
    pthread_mutex_lock(&e->devices.lock);
    struct device_import **at = &e->devices.imports;
    while (*at != i)
        at = &(*at)->next;
    *at = i->next;
    atomic_fetch_sub(&e->devices.import_count, 1);
    pthread_mutex_unlock(&e->devices.lock);
    free(i);
}

static bool import_ends(const struct device_import *i)
{
    return i->peer->lost || !i->pass || atomic_load(&i->pass->ends);
}

/* Those that end, or all; not those that a copy uses. */
static bool imports_end(acp_engine *e, bool all)
{
    bool any = false;
    for (;;) {
        pthread_mutex_lock(&e->devices.lock);
        struct device_import *i = e->devices.imports;
        while (i && (i->uses || i->making || !(all || import_ends(i))))
            i = i->next;
        if (i)
            i->making = true;
        pthread_mutex_unlock(&e->devices.lock);
        if (!i)
            return any;
        import_end(e, i);
        any = true;
    }
}

/* With the lock: the one used longest ago, for import_end; NULL: there are not too many. */
static struct device_import *import_oldest(acp_engine *e)
{
    struct device_import *oldest = NULL;
    for (struct device_import *i = e->devices.imports; i && e->devices.import_count > IMPORTS; i = i->next)
        if (!i->uses && !i->making && (!oldest || i->used < oldest->used))
            oldest = i;
    if (oldest)
        oldest->making = true;
    return oldest;
}

static int refuse(struct kind_fault *fault, int rc, const char *words)
{
    snprintf(fault->words, sizeof fault->words, "%.111s", words);
    return rc;
}

/* The pass of a region in the memory of its owner; NULL: it cannot be read, or is another one's by now. */
static struct device_pass *pass_of(acp_lane *lane, const struct region *region, acp_ga_t ga)
{
    struct translation t;
    enum reach reach;
    int rc = translate(lane, acp_ga((uint32_t)acp_ga_rank(ga), 0, region->pass), sizeof(struct device_pass), &t, &reach);
    if (rc != ACP_OK || reach != REACH_LOAD || region->pass % _Alignof(struct device_pass))
        return NULL;
    struct device_pass *pass = (struct device_pass *)(void *)(t.base + (region->pass - t.position));
    return atomic_load(&pass->serial) == region->serial ? pass : NULL;
}

/* Asks the kind. The bit is set before the region is known to live on: the mark of the caller keeps its owner waiting.
 * KIND_BUSY: it may be asked again. */
static int import_make(acp_lane *lane, struct device_import *i, const struct region *region, acp_ga_t ga,
                       struct kind_fault *fault)
{
    struct peer *p = i->peer;
    struct device_pass *pass = pass_of(lane, region, ga);
    int fd = -1, rc;
    if (!pass)
        return refuse(fault, KIND_CANNOT, "its owner's export cannot be read here");
    struct kind_ticket ticket = pass->ticket;
    if (ticket.how == KIND_BY_NOTHING)
        return refuse(fault, KIND_CANNOT, ticket.name[sizeof ticket.name - 1] ? "" : (const char *)ticket.name);
    i->again = linux_now_ns() + AGAIN_NS;
    if (!(i->kind = device_kinds_opened(lane->engine, ticket.kind)))
        return refuse(fault, KIND_BUSY, "this process has no driver for it");
    if (!i->kind->table->active(i->kind->state, ticket.device))
        return refuse(fault, KIND_BUSY, "this process has no context on the device");
    if (ticket.how == KIND_BY_DESCRIPTOR && (fd = linux_pidfd_getfd(p->pidfd, ticket.descriptor)) < 0) {
        snprintf(fault->words, sizeof fault->words, "pidfd_getfd: %.80s", strerror(errno));
        return KIND_CANNOT;
    }
    i->pass = pass;
    bit_set(pass, p, true);
    rc = i->kind->table->import(i->kind->state, &ticket, fd, &i->block, fault);
    if (fd >= 0)
        close(fd);
    if (rc == KIND_OK && i->block.size != ticket.size) {
        i->kind->table->release(i->kind->state, &i->block);
        rc = refuse(fault, KIND_CANNOT, "the sizes of export and import differ");
    }
    if (rc != KIND_OK)
        bit_set(pass, p, false);
    return rc;
}

static int peer_block(acp_lane *lane, const struct region *region, acp_ga_t ga, struct peer *p, struct device_end *end)
{
    acp_engine *e = lane->engine;
    struct device_import *i, *made = NULL, *oldest = NULL;
    pthread_mutex_lock(&e->devices.lock);
    i = import_of(e, p, region->serial);
    if (!i && (i = made = calloc(1, sizeof *i))) {
        *i = (struct device_import){.next = e->devices.imports, .peer = p, .serial = region->serial};
        e->devices.imports = i;
        atomic_fetch_add(&e->devices.import_count, 1);
    } else if (i && i->refused && !i->making && linux_now_ns() > i->again) {
        made = i;
    }
    if (made)
        made->making = made->refused = true;
    oldest = import_oldest(e);
    pthread_mutex_unlock(&e->devices.lock);
    if (oldest)
        import_end(e, oldest);
    struct kind_fault fault = {0};
    int rc = made ? import_make(lane, made, region, ga, &fault) : KIND_OK;
    pthread_mutex_lock(&e->devices.lock);
    if (made) {
        made->making = false;
        made->refused = rc != KIND_OK;
        memcpy(made->why, fault.words, sizeof made->why);
        if (made->refused && rc != KIND_BUSY)
            made->again = UINT64_MAX;
    }
    bool good = i && !i->making && !i->refused;
    if (good) {
        i->uses++;
        i->used = ++e->devices.clock;
        *end = (struct device_end){.kind = i->kind, .block = &i->block, .import = i};
    }
    pthread_mutex_unlock(&e->devices.lock);
    return good ? ACP_OK : ACP_E_BUSY;
}

int device_import_find(acp_lane *lane, const struct translation *t, acp_ga_t ga, uint64_t size, struct device_end *end)
{
    acp_engine *e = lane->engine;
    struct region region;
    *end = (struct device_end){0};
    if (region_of(t, ga, &region) != ACP_OK)
        return lane_fail(lane, ACP_E_UNREGISTERED, ga, size);
    if (t->peer != e->job.own) {
        if (peer_block(lane, &region, ga, t->peer, end) != ACP_OK)
            return lane_fail(lane, ACP_E_BUSY, ga, size);
    } else {
        end->own = device_block_find(e, region.serial);
        if (!end->own)
            return lane_fail(lane, ACP_E_UNREGISTERED, ga, size);
        end->kind = end->own->kind;
        end->block = &end->own->block;
    }
    end->offset = region.target + (acp_ga_offset(ga) - region.offset);
    if (end->offset <= end->block->size && size <= end->block->size - end->offset)
        return ACP_OK;
    device_import_done(e, end);
    return lane_fail(lane, ACP_E_DAMAGED, ga, size);
}

/* Is the import being made by another thread? Else `why`: the reason why it is refused, which then may change. */
static bool import_pends(acp_engine *e, const struct translation *t, acp_ga_t ga, char why[112])
{
    struct region region;
    bool pends = false;
    if (region_of(t, ga, &region) != ACP_OK)
        return false;
    pthread_mutex_lock(&e->devices.lock);
    struct device_import *i = import_of(e, t->peer, region.serial);
    if (i) {
        pends = i->making;
        memcpy(why, i->why, sizeof i->why);
        i->again = i->again == UINT64_MAX ? UINT64_MAX : 0;
    }
    pthread_mutex_unlock(&e->devices.lock);
    return pends;
}

void device_import_view(struct device_import *i, bool begins)
{
    if (i->pass && !i->peer->lost)
        atomic_fetch_add(&i->pass->views, begins ? 1 : UINT32_MAX);
}

int acp_device_view(acp_lane *lane, acp_ga_t ga, uint64_t size, acp_device_block **block, uint64_t *offset)
{
    acp_engine *e = lane->engine;
    struct translation t;
    enum reach reach;
    struct device_end end;
    struct kind_fault fault = {0};
    uint32_t turn;
    int rc = translate(lane, ga, size, &t, &reach);
    if (rc != ACP_OK || reach != REACH_DEVICE || !device_mark_enter(e, &t, &turn))
        return lane_fail(lane, rc != ACP_OK ? rc : ACP_E_UNREGISTERED, ga, size);
    do {
        while (t.peer != e->job.own && import_pends(e, &t, ga, fault.words))
            sched_yield();
        rc = device_import_find(lane, &t, ga, size, &end);
    } while (rc == ACP_E_BUSY && import_pends(e, &t, ga, fault.words));
    if (rc == ACP_OK && end.import)
        device_import_view(end.import, true); /* before the mark ends, for which its owner waits */
    device_mark_leave(e, t.peer, turn);
    if (rc != ACP_OK)
        return rc == ACP_E_BUSY ? device_kinds_fail(lane, KIND_CANNOT, &fault) : rc;
    *offset = end.offset;
    if ((*block = end.own ? end.own : device_block_imported(&end)))
        return ACP_OK;
    device_import_view(end.import, false);
    device_import_done(e, &end);
    return lane_fail(lane, ACP_E_SYSTEM, ga, size);
}

void device_import_done(acp_engine *e, struct device_end *end)
{
    if (end->own)
        acp_device_give(e, end->own);
    if (!end->import)
        return;
    struct device_import *i = end->import;
    pthread_mutex_lock(&e->devices.lock);
    bool ends = --i->uses == 0 && import_ends(i);
    pthread_mutex_unlock(&e->devices.lock);
    if (ends) {
        atomic_fetch_or(&e->doors->looks, LOOK_DEVICES);
        doorbell_kick(e);
    }
}

enum due device_import_due(const acp_engine *e)
{
    return atomic_load_explicit(&e->doors->looks, memory_order_relaxed) & LOOK_DEVICES ? DUE_NOW : DUE_NOT;
}

bool device_import_poll(acp_lane *lane)
{
    atomic_fetch_and(&lane->engine->doors->looks, ~LOOK_DEVICES);
    return imports_end(lane->engine, false);
}

void device_import_lost(acp_engine *e)
{
    if (e->devices.import_count)
        atomic_fetch_or(&e->doors->looks, LOOK_DEVICES);
}

void device_import_close(acp_engine *e)
{
    imports_end(e, true);
}

uint32_t device_import_count(const acp_engine *e, const struct device_kind *k)
{
    uint32_t count = 0;
    for (const struct device_import *i = e->devices.imports; i; i = i->next)
        count += i->kind == k && !i->refused;
    return count;
}
