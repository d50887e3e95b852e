/* NVIDIA's driver, loaded at the first use of device memory, and the primary contexts of its devices, which are the
 * ones that CuPy, PyTorch, JAX and Numba use. A context is current in a thread only during a call of ours. */
#include "devices/cuda_context.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cuda_context_cannot(struct kind_fault *fault, const char *words)
{
    *fault = (struct kind_fault){0};
    snprintf(fault->words, sizeof fault->words, "%s", words);
    return KIND_CANNOT;
}

int cuda_context_status(struct cuda *c, struct kind_fault *fault, const char *call, cuda_status status)
{
    const char *name = NULL;
    size_t left, total;
    if (status == CUDA_OK)
        return KIND_OK;
    if (status == CUDA_NOT_READY)
        return KIND_BUSY;
    *fault = (struct kind_fault){.number = status};
    if (c->call.cuGetErrorName(status, &name) != CUDA_OK || !name)
        name = "an error without a name";
    snprintf(fault->words, sizeof fault->words, "%s: %s", call, name);
    if (status == CUDA_NO_MEMORY && c->call.cuMemGetInfo_v2(&left, &total) == CUDA_OK)
        fault->free = left;
    if (status == CUDA_NO_MEMORY)
        return KIND_FULL;
    return status == CUDA_NOT_SUPPORTED || status == CUDA_NOT_PERMITTED ? KIND_CANNOT : KIND_FAILED;
}

static int driver_load(struct cuda *c, struct kind_fault *fault)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); /* for good: it has threads of its own */
    if (!library)
        return cuda_context_cannot(fault, dlerror());
#define CUDA_LOAD(name, arguments)                                                                                     \
    {                                                                                                                  \
        void *symbol = dlsym(library, #name);                                                                          \
        if (!symbol)                                                                                                   \
            return cuda_context_cannot(fault, "libcuda.so.1 is too old: it has no " #name);                            \
        memcpy(&c->call.name, &symbol, sizeof symbol);                                                                 \
    }
    CUDA_CALLS(CUDA_LOAD)
    return KIND_OK;
}

static int device_ask(struct cuda *c, uint32_t number, struct kind_fault *fault)
{
    struct cuda_device *d = &c->devices[number];
    cuda_device device;
    struct cuda_uuid uuid;
    int maps = 0, descriptors = 0;
    int rc = CUDA_DO(c, fault, cuDeviceGet, &device, (int)number);
    if (rc == KIND_OK)
        rc = CUDA_DO(c, fault, cuDeviceGetUuid_v2, &uuid, device);
    if (rc == KIND_OK)
        rc = CUDA_DO(c, fault, cuDeviceGetAttribute, &maps, CUDA_HAS_MAPPED_MEMORY, device);
    if (rc == KIND_OK)
        rc = CUDA_DO(c, fault, cuDeviceGetAttribute, &descriptors, CUDA_HAS_DESCRIPTORS, device);
    if (rc != KIND_OK)
        return rc;
    memcpy(d->uuid, uuid.bytes, sizeof d->uuid);
    d->maps = maps;
    d->descriptors = descriptors;
    return KIND_OK;
}

static void state_free(struct cuda *c)
{
    for (uint32_t i = 0; c->devices && i < c->count; i++)
        pthread_mutex_destroy(&c->devices[i].lock);
    free(c->devices);
    free(c);
}

static int devices_ask(struct cuda *c, struct kind_fault *fault)
{
    int count = 0;
    int rc = CUDA_DO(c, fault, cuInit, 0);
    if (rc == KIND_OK)
        rc = CUDA_DO(c, fault, cuDeviceGetCount, &count);
    if (rc == KIND_OK && !(c->devices = calloc((size_t)count + 1, sizeof *c->devices)))
        rc = cuda_context_cannot(fault, "host memory is out");
    for (; rc == KIND_OK && c->count < (uint32_t)count; c->count++)
        pthread_mutex_init(&c->devices[c->count].lock, NULL);
    for (uint32_t i = 0; rc == KIND_OK && i < c->count; i++)
        rc = device_ask(c, i, fault);
    return rc;
}

int cuda_context_open(struct cuda **state, struct kind_fault *fault)
{
    struct cuda *c = calloc(1, sizeof *c);
    if (!c)
        return cuda_context_cannot(fault, "host memory is out");
    int rc = driver_load(c, fault);
    if (rc == KIND_OK)
        rc = devices_ask(c, fault);
    if (rc == KIND_OK)
        *state = c;
    else
        state_free(c);
    return rc == KIND_OK ? KIND_OK : KIND_CANNOT;
}

void cuda_context_close(struct cuda *c)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->devices[i].context)
            c->call.cuDevicePrimaryCtxRelease_v2((cuda_device)i);
    state_free(c);
}

bool cuda_context_active(struct cuda *c, int32_t number)
{
    unsigned flags;
    int active = 0;
    return c->call.cuDevicePrimaryCtxGetState(number, &flags, &active) == CUDA_OK && active;
}

int32_t cuda_context_mapping(struct cuda *c, const uint8_t uuid[16])
{
    int32_t number = 0, count = (int32_t)c->count;
    while (number < count && memcmp(c->devices[number].uuid, uuid, 16) != 0)
        number++;
    if (number == count) /* it is not visible to this process */
        return -1;
    if (cuda_context_active(c, number))
        return number;
    for (int32_t i = 0; i < count; i++) {
        int can = 0;
        if (i != number && cuda_context_active(c, i) &&
            c->call.cuDeviceCanAccessPeer(&can, i, number) == CUDA_OK && can)
            return i;
    }
    return -1;
}

/* Holds the primary context, which the driver makes if there is none. */
static int context_hold(struct cuda *c, int32_t number, struct kind_fault *fault)
{
    struct cuda_device *d = &c->devices[number];
    cuda_context context = NULL;
    int rc = KIND_OK;
    pthread_mutex_lock(&d->lock);
    if (!d->context && (rc = CUDA_DO(c, fault, cuDevicePrimaryCtxRetain, &context, number)) == KIND_OK)
        atomic_store(&d->context, context);
    pthread_mutex_unlock(&d->lock);
    return rc;
}

int cuda_context_enter(struct cuda *c, int32_t number, bool make, struct kind_fault *fault)
{
    struct cuda_device *d = &c->devices[number];
    if (!atomic_load(&d->context)) {
        if (!make && !cuda_context_active(c, number))
            return cuda_context_cannot(fault, "this process has no context on the device");
        int rc = context_hold(c, number, fault);
        if (rc != KIND_OK)
            return rc;
    }
    return CUDA_DO(c, fault, cuCtxPushCurrent_v2, atomic_load(&d->context));
}

void cuda_context_leave(struct cuda *c)
{
    cuda_context ours;
    c->call.cuCtxPopCurrent_v2(&ours);
}

/* The device on which the thread's current context is the primary one; 0: there is none. */
static int32_t current_number(struct cuda *c, struct kind_fault *fault)
{
    cuda_context current = NULL;
    if (c->call.cuCtxPopCurrent_v2(&current) != CUDA_OK || !current)
        return 0;
    c->call.cuCtxPushCurrent_v2(current);
    for (int32_t i = 0; i < (int32_t)c->count; i++)
        if (cuda_context_active(c, i) && context_hold(c, i, fault) == KIND_OK && c->devices[i].context == current)
            return i;
    return 0;
}

int cuda_context_number(struct cuda *c, struct kind_place place, int32_t *number, struct kind_fault *fault)
{
    char words[80];
    *number = place.number < 0 && c->count ? current_number(c, fault) : place.number;
    if (*number < 0 || *number >= (int32_t)c->count) {
        snprintf(words, sizeof words, "there is no device cuda:%d; the driver has %u", *number, c->count);
        return cuda_context_cannot(fault, words);
    }
    if (place.context && place.context != (void *)atomic_load(&c->devices[*number].context))
        return cuda_context_cannot(fault, "only the primary context of a device is used");
    return KIND_OK;
}
