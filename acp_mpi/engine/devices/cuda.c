/* The kind of device memory of NVIDIA's driver: its table, and what it says of devices. */
#include "devices/cuda.h"
#include "devices/cuda_memory.h"
#include "devices/cuda_stream.h"

#include <string.h>

static int kind_open(void **state, struct kind_fault *fault)
{
    struct cuda *c;
    int rc = cuda_context_open(&c, fault);
    if (rc == KIND_OK)
        *state = c;
    return rc;
}

static void kind_close(void *state)
{
    cuda_stream_close(state);
    cuda_context_close(state);
}

static bool kind_active(void *state, const uint8_t device[16])
{
    return cuda_context_mapping(state, device) >= 0;
}

static int kind_resolve(void *state, struct kind_place place, int32_t *number, struct kind_fault *fault)
{
    return cuda_context_number(state, place, number, fault);
}

/* How much memory is free is known in a context only, and none is made for that. */
static int kind_list(void *state, uint32_t index, struct kind_device *device, struct kind_fault *fault)
{
    struct cuda *c = state;
    size_t left, size;
    if (index >= c->count)
        return cuda_context_cannot(fault, "there are no more devices");
    int32_t number = (int32_t)index;
    *device = (struct kind_device){.number = number, .active = cuda_context_active(c, number)};
    memcpy(device->device, c->devices[index].uuid, sizeof device->device);
    int rc = CUDA_DO(c, fault, cuDeviceGetName, device->name, sizeof device->name, number);
    if (rc != KIND_OK || !device->active || cuda_context_enter(c, number, false, fault) != KIND_OK)
        return rc;
    if (c->call.cuMemGetInfo_v2(&left, &size) == CUDA_OK) {
        device->free = left;
        device->size = size;
    }
    cuda_context_leave(c);
    return KIND_OK;
}

const struct kind cuda_kind = {
    .name = "cuda",
    .number = CUDA_NUMBER,
    .open = kind_open,
    .close = kind_close,
    .list = kind_list,
    .active = kind_active,
    .resolve = kind_resolve,
    .allocate = cuda_memory_allocate,
    .adopt = cuda_memory_adopt,
    .release = cuda_memory_release,
    .publish = cuda_memory_publish,
    .import = cuda_memory_import,
    .copy = cuda_stream_copy,
    .test = cuda_stream_test,
    .wait = cuda_stream_wait,
    .mark = cuda_stream_mark,
    .follow = cuda_stream_follow,
    .notify = cuda_stream_notify,
    .pin = cuda_memory_pin,
    .unpin = cuda_memory_unpin,
};
