/* Blocks of device memory of this process: what a driver allocates and exports as a whole. Arrays and regions share
 * the block that they lie in. Before the memory of a block may go, the processes that have imported it let go of it:
 * its pass in the memory file says so, and each takes its bit out of the pass. */
#include "devices/device_block.h"
#include "core/state/peer.h"
#include "devices/device_import.h"
#include "memory/directory.h"
#include "memory/segment.h"
#include "peers/newcomers.h"
#include "peers/peer.h"
#include "progress/wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PASSES ((uint64_t)4096 / sizeof(struct device_pass))

/* Passes in one piece of the memory file, which stays until addresses die. */
struct device_passes {
    struct device_passes *next;
    struct device_pass *at;
    uint64_t offset;
};

static struct device_pass *pass_unused(struct devices_state *d, uint64_t *offset)
{
    for (struct device_passes *p = d->passes; p; p = p->next) {
        for (uint64_t i = 0; i < PASSES; i++) {
            if (p->at[i].serial)
                continue;
            *offset = p->offset + i * sizeof *p->at;
            return &p->at[i];
        }
    }
    return NULL;
}

static int passes_more(acp_lane *lane)
{
    struct devices_state *d = &lane->engine->devices;
    struct device_passes *p = calloc(1, sizeof *p);
    acp_ga_t ga;
    void *address;
    if (!p)
        return lane_fail(lane, ACP_E_SYSTEM, 0, sizeof *p);
    int rc = acp_memory_alloc(lane, PASSES * sizeof *p->at, 0, &ga, &address);
    if (rc != ACP_OK) {
        free(p);
        return rc;
    }
    p->at = address;
    p->offset = acp_ga_offset(ga);
    pthread_mutex_lock(&d->lock);
    p->next = d->passes;
    d->passes = p;
    pthread_mutex_unlock(&d->lock);
    return ACP_OK;
}

/* Takes it over, or finds the same block. */
static acp_device_block *block_keep(acp_engine *e, struct device_kind *k, struct kind_block *block, bool shared)
{
    acp_device_block *b = calloc(1, sizeof *b), *same = NULL;
    pthread_mutex_lock(&e->devices.lock);
    for (acp_device_block *o = e->devices.blocks; shared && !same && o; o = o->next)
        if (o->kind == k && o->block.base == block->base && o->block.size == block->size &&
            o->block.place.context == block->place.context && o->block.place.stream == block->place.stream)
            same = o;
    if (same) {
        same->uses++;
    } else if (b) {
        *b = (acp_device_block){.next = e->devices.blocks, .kind = k, .block = *block, .uses = 1, .descriptor = -1};
        b->block.offset = 0;
        e->devices.blocks = b;
    }
    pthread_mutex_unlock(&e->devices.lock);
    if (same)
        free(b);
    if (same || !b)
        k->table->release(k->state, block);
    return same ? same : b;
}

static int block_new(acp_lane *lane, acp_device_place place, bool adopt, uint64_t address, uint64_t size,
                     acp_device_block **out, uint64_t *offset)
{
    struct device_kind *k = device_kinds_open(lane, place.kind);
    struct kind_place at = {place.number, place.context, place.stream};
    struct kind_block block = {0};
    struct kind_fault fault = {0};
    if (!k)
        return lane->fault.status;
    int rc = adopt ? k->table->adopt(k->state, at, address, size, &block, &fault)
                   : k->table->allocate(k->state, at, size, &block, &fault);
    if (rc != KIND_OK)
        return device_kinds_fail(lane, rc, &fault);
    *offset = block.offset;
    *out = block_keep(lane->engine, k, &block, adopt);
    return *out ? ACP_OK : lane_fail(lane, ACP_E_SYSTEM, 0, size);
}

int acp_device_allocate(acp_lane *lane, acp_device_place place, uint64_t size, acp_device_block **block)
{
    uint64_t offset;
    return block_new(lane, place, false, 0, size, block, &offset);
}

int acp_device_adopt(acp_lane *lane, acp_device_place place, uint64_t address, uint64_t size,
                     acp_device_block **block, uint64_t *offset)
{
    return block_new(lane, place, true, address, size, block, offset);
}

uint64_t acp_device_address(const acp_device_block *b)
{
    return b->block.base;
}

int32_t acp_device_number(const acp_device_block *b)
{
    return b->block.place.number;
}

acp_device_block *device_block_imported(const struct device_end *end)
{
    acp_device_block *b = calloc(1, sizeof *b);
    if (b)
        *b = (acp_device_block){.kind = end->kind, .block = *end->block, .uses = 1, .descriptor = -1,
                                .import = end->import};
    return b;
}

static void block_free(acp_engine *e, acp_device_block *b)
{
    struct device_end end = {.import = b->import};
    while (b->exports) {
        struct device_export *x = b->exports;
        b->exports = x->next;
        free(x);
    }
    if (b->import) {
        device_import_view(b->import, false);
        device_import_done(e, &end);
    } else {
        b->kind->table->release(b->kind->state, &b->block);
    }
    if (b->descriptor >= 0)
        close(b->descriptor);
    free(b);
}

bool acp_device_viewed(acp_engine *e, acp_device_block *b)
{
    bool viewed = false;
    pthread_mutex_lock(&e->devices.lock);
    for (const struct device_export *x = b->exports; x; x = x->next)
        viewed |= x->pass && atomic_load(&x->pass->views);
    pthread_mutex_unlock(&e->devices.lock);
    return viewed;
}

int32_t acp_device_type(const acp_device_block *b)
{
    return b->kind->table->number;
}

void acp_device_give(acp_engine *e, acp_device_block *b)
{
    bool last;
    pthread_mutex_lock(&e->devices.lock);
    if ((last = --b->uses == 0)) {
        acp_device_block **at = &e->devices.blocks;
        while (*at && *at != b)
            at = &(*at)->next;
        if (*at)
            *at = b->next;
    }
    pthread_mutex_unlock(&e->devices.lock);
    if (last)
        block_free(e, b);
}

acp_device_block *device_block_find(acp_engine *e, uint64_t serial)
{
    acp_device_block *found = NULL;
    pthread_mutex_lock(&e->devices.lock);
    for (acp_device_block *b = e->devices.blocks; b && !found; b = b->next)
        for (struct device_export *x = b->exports; x && !found; x = x->next)
            if (x->serial == serial)
                found = b;
    if (found)
        found->uses++;
    pthread_mutex_unlock(&e->devices.lock);
    return found;
}

/* A block that cannot be exported has a ticket that says so: its owner copies then. */
static void block_ticket(acp_device_block *b)
{
    struct kind_fault fault = {0};
    if (b->ticketed)
        return;
    int rc = b->kind->table->publish(b->kind->state, &b->block, &b->ticket, &b->descriptor, &fault);
    if (rc != KIND_OK) {
        b->ticket.how = KIND_BY_NOTHING;
        snprintf((char *)b->ticket.name, sizeof b->ticket.name, "%.63s", fault.words);
    }
    b->ticket.kind = (uint8_t)b->kind->table->number;
    b->ticket.descriptor = b->descriptor;
    b->ticketed = true;
}

/* The export that new regions of the block name. */
static struct device_export *export_open(acp_lane *lane, acp_device_block *b)
{
    acp_engine *e = lane->engine;
    struct device_export *x = b->exports, *made = calloc(1, sizeof *made);
    while (x && x->ends)
        x = x->next;
    if (x || !made) {
        free(made);
        return x;
    }
    struct device_pass *pass = pass_unused(&e->devices, &made->offset);
    if (!pass && (passes_more(lane) != ACP_OK || !(pass = pass_unused(&e->devices, &made->offset)))) {
        free(made);
        return NULL;
    }
    pass->ticket = b->ticket;
    atomic_store(&pass->ends, 0);
    atomic_store(&pass->views, 0);
    for (uint32_t i = 0; i < ATTACH_LINES / 64; i++)
        atomic_store(&pass->importers[i], 0);
    pthread_mutex_lock(&e->devices.lock);
    made->pass = pass;
    made->serial = ++e->devices.serial;
    made->next = b->exports;
    b->exports = made;
    pthread_mutex_unlock(&e->devices.lock);
    atomic_store(&pass->serial, made->serial);
    return made;
}

int acp_device_register(acp_lane *lane, acp_device_block *b, uint64_t offset, uint64_t size, uint32_t color,
                        acp_ga_t *ga, uint64_t *number)
{
    acp_engine *e = lane->engine;
    if (b->import || color >= ACP_COLORS || !size || offset > b->block.size || size > b->block.size - offset)
        return lane_fail(lane, ACP_E_ARGUMENT, 0, size);
    lane->fault.status = ACP_E_SYSTEM;
    pthread_mutex_lock(&e->devices.opening);
    block_ticket(b);
    struct device_export *x = export_open(lane, b);
    int rc = x ? ACP_OK : lane->fault.status;
    if (x) {
        struct region region = {.length = size, .color = color, .kind = SEGMENT_DEVICE, .target = offset,
                                .pass = x->offset, .serial = x->serial};
        rc = segment_publish(lane, &region, ga);
        *number = x->serial;
    }
    if (rc == ACP_OK) {
        pthread_mutex_lock(&e->devices.lock);
        x->regions++;
        b->uses++;
        pthread_mutex_unlock(&e->devices.lock);
    }
    pthread_mutex_unlock(&e->devices.opening);
    return rc;
}

struct drop {
    acp_engine *engine;
    struct device_pass *pass;
};

/* Has each importer let go of it, or died? Those that have it are told, each time: one may just have been opened. */
static bool all_out(void *context)
{
    struct drop *drop = context;
    acp_engine *e = drop->engine;
    bool out = true;
    for (uint32_t line = 0; line < ATTACH_LINES; line++) {
        _Atomic uint64_t *word = &drop->pass->importers[line / 64];
        if (!atomic_load(word)) {
            line |= 63;
        } else if (atomic_load(word) >> line % 64 & 1) {
            if (peer_line_dead(e, e->doors, line))
                atomic_fetch_and(word, ~((uint64_t)1 << line % 64));
            else
                out = false;
        }
    }
    return out;
}

static void drop_tell(struct drop *drop)
{
    acp_engine *e = drop->engine;
    for (uint32_t line = 0; line < ATTACH_LINES; line++) {
        if (!(atomic_load(&drop->pass->importers[line / 64]) >> line % 64 & 1))
            continue;
        uint64_t slot = e->doors->lines[line].holder - 1;
        struct peer *p = newcomers_find(e, slot) ? peer_of_slot(e, (uint32_t)slot) : NULL;
        if (p && !p->lost && peer_attach(e, p) == RELATION_NODE)
            peer_must_look(e, p, LOOK_DEVICES);
    }
}

static int importers_end(acp_engine *e, struct device_pass *pass, int64_t timeout_ns)
{
    struct drop drop = {e, pass};
    atomic_store(&pass->ends, 1);
    if (all_out(&drop))
        return ACP_OK;
    drop_tell(&drop);
    int rc = wait_ready(e, all_out, &drop, timeout_ns, ACP_DOING_UNREGISTER);
    return rc == ACP_E_CLOSED ? ACP_OK : rc; /* nothing copies any more */
}

static void export_free(acp_engine *e, acp_device_block *b, struct device_export *x)
{
    struct device_export **at = &b->exports;
    pthread_mutex_lock(&e->devices.opening);
    pthread_mutex_lock(&e->devices.lock);
    while (*at != x)
        at = &(*at)->next;
    *at = x->next;
    if (x->pass)
        atomic_store(&x->pass->serial, 0);
    free(x);
    pthread_mutex_unlock(&e->devices.lock);
    pthread_mutex_unlock(&e->devices.opening);
}

int acp_device_drop(acp_engine *e, acp_device_block *b, uint64_t number, int64_t timeout_ns)
{
    struct device_export **at = &b->exports, *x;
    pthread_mutex_lock(&e->devices.opening);
    pthread_mutex_lock(&e->devices.lock);
    while (*at && (*at)->serial != number)
        at = &(*at)->next;
    x = *at;
    bool last = x && x->regions == 1;
    if (x && !last)
        x->regions--;
    if (last)
        x->ends = true;
    pthread_mutex_unlock(&e->devices.lock);
    pthread_mutex_unlock(&e->devices.opening);
    if (last) {
        int rc = x->pass ? importers_end(e, x->pass, timeout_ns) : ACP_OK;
        if (rc != ACP_OK)
            return rc;
        export_free(e, b, x);
    }
    if (x)
        acp_device_give(e, b);
    return ACP_OK;
}

void device_block_count(acp_engine *e, const struct device_kind *k, uint32_t *blocks, uint32_t *imports)
{
    *blocks = 0;
    pthread_mutex_lock(&e->devices.lock);
    for (const acp_device_block *b = e->devices.blocks; b; b = b->next)
        *blocks += b->kind == k;
    *imports = device_import_count(e, k);
    pthread_mutex_unlock(&e->devices.lock);
}

/* The holds of regions stay: their keys give them back. */
void device_block_reset(acp_engine *e)
{
    pthread_mutex_lock(&e->devices.lock);
    for (acp_device_block *b = e->devices.blocks; b; b = b->next)
        for (struct device_export *x = b->exports; x; x = x->next)
            x->pass = NULL;
    while (e->devices.passes) {
        struct device_passes *p = e->devices.passes;
        e->devices.passes = p->next;
        free(p);
    }
    pthread_mutex_unlock(&e->devices.lock);
}

void device_block_close(acp_engine *e)
{
    while (e->devices.passes) {
        struct device_passes *p = e->devices.passes;
        e->devices.passes = p->next;
        free(p);
    }
    while (e->devices.blocks) {
        acp_device_block *b = e->devices.blocks;
        e->devices.blocks = b->next;
        block_free(e, b);
    }
}
