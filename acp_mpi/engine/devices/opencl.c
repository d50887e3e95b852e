/* The kind of device memory of OpenCL: its table, and what it says of devices. */
#include "devices/opencl.h"
#include "devices/opencl_memory.h"
#include "devices/opencl_stream.h"

#include <string.h>

static int opencl_open(void **state, struct kind_fault *fault)
{
    struct opencl *o;
    int rc = opencl_context_open(&o, fault);
    if (rc == KIND_OK)
        *state = o;
    return rc;
}

static void opencl_close(void *state)
{
    opencl_context_close(state);
}

static bool opencl_active(void *state, const uint8_t identity[16])
{
    struct opencl_use *use = opencl_context_using(state, identity);
    if (use)
        opencl_context_drop(state, use);
    return use;
}

/* OpenCL does not tell how much memory is free. */
static int opencl_list(void *state, uint32_t index, struct kind_device *device, struct kind_fault *fault)
{
    struct opencl *o = state;
    if (index >= o->count)
        return opencl_context_cannot(fault, "there are no more devices");
    const struct opencl_device *d = &o->devices[index];
    *device = (struct kind_device){.number = (int32_t)index, .active = opencl_context_active(o, index)};
    memcpy(device->device, d->identity, sizeof device->device);
    memcpy(device->name, d->name, sizeof device->name);
    o->call.clGetDeviceInfo(d->id, OPENCL_DEVICE_MEMORY, sizeof device->size, &device->size, NULL);
    return KIND_OK;
}

const struct kind opencl_kind = {
    .name = "opencl",
    .number = OPENCL_NUMBER,
    .handles = true,
    .open = opencl_open,
    .close = opencl_close,
    .list = opencl_list,
    .active = opencl_active,
    .allocate = opencl_memory_allocate,
    .adopt = opencl_memory_adopt,
    .release = opencl_memory_release,
    .publish = opencl_memory_publish,
    .import = opencl_memory_import,
    .copy = opencl_stream_copy,
    .test = opencl_stream_test,
    .wait = opencl_stream_wait,
    .mark = opencl_stream_mark,
    .follow = opencl_stream_follow,
    .notify = opencl_stream_notify,
};
