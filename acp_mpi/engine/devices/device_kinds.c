/* The kinds of device memory that an engine knows, each opened at its first use: a driver takes 100 ms and memory, and
 * a program without device memory pays nothing. */
#include "devices/device_kinds.h"
#include "core/devices.h"
#include "devices/device_block.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct device_kind *kind_find(acp_engine *e, int32_t number)
{
    for (uint32_t i = 0; i < DEVICE_KINDS; i++)
        if (e->devices.kinds[i].table && e->devices.kinds[i].table->number == number)
            return &e->devices.kinds[i];
    return NULL;
}

int acp_device_kind(acp_engine *e, const struct kind *kind)
{
    int rc = ACP_E_FULL;
    pthread_mutex_lock(&e->devices.opening);
    for (uint32_t i = 0; rc != ACP_OK && i < DEVICE_KINDS; i++) {
        if (e->devices.kinds[i].table && e->devices.kinds[i].table != kind)
            continue;
        e->devices.kinds[i].table = kind;
        rc = ACP_OK;
    }
    pthread_mutex_unlock(&e->devices.opening);
    return rc;
}

struct device_kind *device_kinds_opened(acp_engine *e, int32_t number)
{
    struct device_kind *k = kind_find(e, number);
    return k && atomic_load_explicit(&k->opened, memory_order_acquire) == KIND_OPEN ? k : NULL;
}

/* A driver that was not to be had is looked for again: it may be there by now. */
static bool opened(acp_engine *e, struct device_kind *k, struct kind_fault *fault)
{
    pthread_mutex_lock(&e->devices.opening);
    if (k->opened == KIND_UNOPENED && k->table->open(&k->state, fault) == KIND_OK) {
        atomic_store_explicit(&k->opened, KIND_OPEN, memory_order_release);
        atomic_store(&e->devices.used, true);
    }
    pthread_mutex_unlock(&e->devices.opening);
    return k->opened == KIND_OPEN;
}

struct device_kind *device_kinds_open(acp_lane *lane, int32_t number)
{
    struct device_kind *k = kind_find(lane->engine, number);
    struct kind_fault fault = {0};
    if (k && opened(lane->engine, k, &fault))
        return k;
    if (!k)
        snprintf(fault.words, sizeof fault.words, "no kind of memory has the number %d here", number);
    device_kinds_fail(lane, KIND_CANNOT, &fault);
    return NULL;
}

int device_kinds_fail(acp_lane *lane, int rc, const struct kind_fault *fault)
{
    acp_engine *e = lane->engine;
    pthread_mutex_lock(&e->devices.lock);
    memcpy(e->devices.words, fault->words, sizeof e->devices.words);
    e->devices.free = fault->free;
    pthread_mutex_unlock(&e->devices.lock);
    errno = fault->number;
    lane_fail(lane, rc == KIND_FULL ? ACP_E_FULL : ACP_E_DRIVER, ACP_GA_NULL, 0);
    lane->fault.rank = acp_rank(e);
    return lane->fault.status;
}

void acp_device_words(acp_engine *e, char words[112], uint64_t *bytes)
{
    pthread_mutex_lock(&e->devices.lock);
    memcpy(words, e->devices.words, sizeof e->devices.words);
    *bytes = e->devices.free;
    pthread_mutex_unlock(&e->devices.lock);
}

bool acp_device_list(acp_engine *e, uint32_t index, acp_device_info *out)
{
    for (uint32_t i = 0; i < DEVICE_KINDS && e->devices.kinds[i].table; i++) {
        struct device_kind *k = &e->devices.kinds[i];
        struct kind_device device = {0};
        struct kind_fault fault = {0};
        uint32_t count = 0;
        *out = (acp_device_info){0};
        snprintf(out->kind, sizeof out->kind, "%s", k->table->name);
        if (!opened(e, k, &fault)) {
            memcpy(out->words, fault.words, sizeof out->words);
            count = 1;
        } else {
            while (count <= index && k->table->list(k->state, count, &device, &fault) == KIND_OK)
                count++;
        }
        if (index >= count) {
            index -= count;
            continue;
        }
        memcpy(out->name, device.name, sizeof out->name);
        memcpy(out->device, device.device, sizeof out->device);
        out->number = device.number;
        out->active = device.active;
        out->free = device.free;
        out->size = device.size;
        device_block_count(e, k, &out->blocks, &out->imports);
        return true;
    }
    return false;
}

int acp_device_resolve(acp_lane *lane, acp_device_place place, int32_t *number)
{
    struct device_kind *k = device_kinds_open(lane, place.kind);
    struct kind_place at = {.number = place.number};
    struct kind_fault fault = {0};
    if (!k)
        return lane->fault.status;
    *number = place.number < 0 ? 0 : place.number;
    int rc = k->table->resolve ? k->table->resolve(k->state, at, number, &fault) : KIND_OK;
    return rc == KIND_OK ? ACP_OK : device_kinds_fail(lane, rc, &fault);
}

int acp_device_pin(acp_lane *lane, acp_device_place place, void *host, uint64_t size, uint64_t *address)
{
    struct device_kind *k = device_kinds_open(lane, place.kind);
    struct kind_place at = {.number = place.number};
    struct kind_fault fault = {0};
    if (!k)
        return lane->fault.status;
    if (!k->table->pin)
        snprintf(fault.words, sizeof fault.words, "host memory has no address in kernels of %s", k->table->name);
    int rc = k->table->pin ? k->table->pin(k->state, at, host, size, address, &fault) : KIND_CANNOT;
    return rc == KIND_OK ? ACP_OK : device_kinds_fail(lane, rc, &fault);
}

void acp_device_unpin(acp_engine *e, int32_t kind, void *host)
{
    struct device_kind *k = device_kinds_opened(e, kind);
    if (k && k->table->unpin)
        k->table->unpin(k->state, host);
}

void device_kinds_close(acp_engine *e)
{
    for (uint32_t i = 0; i < DEVICE_KINDS; i++) {
        struct device_kind *k = &e->devices.kinds[i];
        if (k->table && k->opened == KIND_OPEN)
            k->table->close(k->state);
        k->opened = KIND_CLOSED;
    }
}
