/* What the stand-in has in one process: its settings, devices and contexts, and the beginning and end of each call. */
#include "inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct standin standin = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

enum { STACK = 32, UNKNOWN = 999 };
static _Thread_local struct cuda_context *stack[STACK]; /* the contexts of the thread; the last one is current */
static _Thread_local unsigned depth;
static const char *failing; /* the call that fails, after `calls_before` others of it; NULL: none */
static unsigned calls_before;

void standin_complain(const char *format, ...)
{
    char words[512];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    fprintf(stderr, "stand-in: process %d: %s\n", (int)getpid(), words);
    abort();
}

void *standin_new(size_t size)
{
    void *new = calloc(1, size);
    if (!new)
        standin_complain("host memory is out");
    return new;
}

/* xorshift: the state is never 0. */
uint64_t standin_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

cuda_status standin_enter(const char *call, struct cuda_context **context)
{
    if (stream_in_host_function)
        standin_complain("%s is called by a host function of a stream", call);
    if (!standin.process || standin.process != getpid()) /* a child of fork has no driver */
        return CUDA_NOT_INITIALIZED;
    pthread_mutex_lock(&standin.lock);
    if (failing && strcmp(failing, call) == 0 && calls_before-- == 0) {
        failing = NULL;
        return standin_leave(UNKNOWN);
    }
    if (!context)
        return CUDA_OK;
    *context = depth ? stack[depth - 1] : NULL;
    if (!*context)
        return standin_leave(CUDA_BAD_CONTEXT);
    if (!(*context)->alive)
        return standin_leave(CUDA_CONTEXT_DESTROYED);
    return (*context)->broken ? standin_leave((*context)->broken) : CUDA_OK;
}

cuda_status standin_leave(cuda_status status)
{
    pthread_mutex_unlock(&standin.lock);
    return status;
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

static void settings_read(void)
{
    int there = (int)setting("FAKE_DEVICES", 1);
    if (there < 0 || there > DEVICES)
        standin_complain("FAKE_DEVICES is %d; it may be 0 to %d", there, DEVICES);
    for (standin.devices = 0; standin.devices < there; standin.devices++)
        standin.visible[standin.devices] = standin.devices;
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (visible) { /* as the driver does: up to the first that is not there */
        standin.devices = 0;
        for (char *end; *visible && standin.devices < there; visible = *end ? end + 1 : end) {
            long number = strtol(visible, &end, 10);
            if (end == visible || number < 0 || number >= there)
                break;
            standin.visible[standin.devices++] = (int)number;
        }
    }
    standin.memory = setting("FAKE_MEMORY", (size_t)1 << 30);
    standin.delay = (unsigned)setting("FAKE_DELAY", 200);
    standin.seed = setting("FAKE_SEED", 1);
    standin.break_at = (unsigned)setting("FAKE_BREAK", 0);
    standin.no_ipc = setting("FAKE_NO_IPC", 0);
    standin.no_fd = setting("FAKE_NO_FD", 0);
    standin.no_vmm = setting("FAKE_NO_VMM", 0);
    standin.pool = setting("FAKE_POOL", 0);
    standin.no_peer = setting("FAKE_NO_PEER", 0);
    standin.fresh = setting("FAKE_FRESH", 0);
}

cuda_status cuInit(unsigned flags)
{
    if (standin.process && standin.process != getpid())
        return CUDA_NOT_INITIALIZED;
    pthread_mutex_lock(&standin.lock);
    REFUSE_IF(flags, CUDA_BAD_VALUE);
    if (!standin.process)
        settings_read();
    REFUSE_IF(!standin.devices, CUDA_NO_DEVICE);
    standin.process = getpid();
    LEAVE(CUDA_OK);
}

cuda_status cuDriverGetVersion(int *version)
{
    *version = 12040;
    return CUDA_OK;
}

cuda_status cuGetErrorName(cuda_status status, const char **name)
{
    static const struct {
        cuda_status status;
        const char *name;
    } names[] = {
        {CUDA_OK, "CUDA_SUCCESS"},
        {CUDA_BAD_VALUE, "CUDA_ERROR_INVALID_VALUE"},
        {CUDA_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
        {CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
        {CUDA_BAD_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
        {CUDA_BAD_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
        {CUDA_MAP_FAILED, "CUDA_ERROR_MAP_FAILED"},
        {CUDA_NO_PEER_ACCESS, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
        {CUDA_BAD_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {CUDA_BAD_STATE, "CUDA_ERROR_ILLEGAL_STATE"},
        {CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
        {CUDA_NOT_READY, "CUDA_ERROR_NOT_READY"},
        {CUDA_BAD_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
        {CUDA_CONTEXT_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED"},
        {CUDA_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"},
        {CUDA_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"},
        {CUDA_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED"},
        {CUDA_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
        {UNKNOWN, "CUDA_ERROR_UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].status == status) {
            *name = names[i].name;
            return CUDA_OK;
        }
    *name = NULL;
    return CUDA_BAD_VALUE;
}

/* Devices ------------------------------------------------------------------------------------------------------- */

bool standin_device_is(int device)
{
    return device >= 0 && device < standin.devices;
}

cuda_status cuDeviceGetCount(int *count)
{
    ENTER(NULL);
    *count = standin.devices;
    LEAVE(CUDA_OK);
}

cuda_status cuDeviceGet(cuda_device *device, int ordinal)
{
    ENTER(NULL);
    REFUSE_IF(!standin_device_is(ordinal), CUDA_BAD_DEVICE);
    *device = ordinal;
    LEAVE(CUDA_OK);
}

cuda_status cuDeviceGetName(char *name, int size, cuda_device device)
{
    ENTER(NULL);
    REFUSE_IF(size < 1, CUDA_BAD_VALUE);
    REFUSE_IF(!standin_device_is(device), CUDA_BAD_DEVICE);
    snprintf(name, (size_t)size, "stand-in %d", standin.visible[device]);
    LEAVE(CUDA_OK);
}

/* All processes count other devices, and know each by the same 16 bytes. */
cuda_status cuDeviceGetUuid_v2(struct cuda_uuid *uuid, cuda_device device)
{
    ENTER(NULL);
    REFUSE_IF(!standin_device_is(device), CUDA_BAD_DEVICE);
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, "stand-in", 8);
    uuid->bytes[15] = (unsigned char)(1 + standin.visible[device]);
    LEAVE(CUDA_OK);
}

cuda_status cuDeviceGetAttribute(int *value, cuda_attribute attribute, cuda_device device)
{
    ENTER(NULL);
    REFUSE_IF(!standin_device_is(device), CUDA_BAD_DEVICE);
    switch (attribute) {
    case CUDA_HAS_UNIFIED_ADDRESSES:
        *value = 1;
        break;
    case CUDA_HAS_MAPPED_MEMORY:
        *value = !standin.no_vmm;
        break;
    case CUDA_HAS_DESCRIPTORS:
        *value = !standin.no_vmm && !standin.no_fd;
        break;
    default:
        standin_complain("it does not know the attribute %d of a device", attribute);
    }
    LEAVE(CUDA_OK);
}

cuda_status cuDeviceCanAccessPeer(int *can, cuda_device device, cuda_device peer)
{
    ENTER(NULL);
    REFUSE_IF(!standin_device_is(device) || !standin_device_is(peer), CUDA_BAD_DEVICE);
    *can = device != peer && !standin.no_peer;
    LEAVE(CUDA_OK);
}

/* Contexts ------------------------------------------------------------------------------------------------------- */

static struct cuda_context *primary(int device)
{
    struct cuda_context *context = standin.contexts;
    while (context && !(context->alive && context->device == device))
        context = context->earlier;
    return context;
}

cuda_status cuDevicePrimaryCtxGetState(cuda_device device, unsigned *flags, int *active)
{
    ENTER(NULL);
    REFUSE_IF(!standin_device_is(device), CUDA_BAD_DEVICE);
    *flags = 0;
    *active = primary(device) != NULL;
    LEAVE(CUDA_OK);
}

cuda_status cuDevicePrimaryCtxRetain(cuda_context *context, cuda_device device)
{
    ENTER(NULL);
    REFUSE_IF(!standin_device_is(device), CUDA_BAD_DEVICE);
    *context = primary(device);
    if (!*context) {
        struct cuda_context *new = standin_new(sizeof *new);
        *new = (struct cuda_context){.device = device, .alive = true, .earlier = standin.contexts};
        new->streams = stream_new(new, true);
        standin.contexts = *context = new;
    }
    (*context)->users++;
    LEAVE(CUDA_OK);
}

/* The end of a context is the end of its streams, of its memory and of what it has imported. */
cuda_status cuDevicePrimaryCtxRelease_v2(cuda_device device)
{
    ENTER(NULL);
    REFUSE_IF(!standin_device_is(device), CUDA_BAD_DEVICE);
    struct cuda_context *context = primary(device);
    REFUSE_IF(!context, CUDA_BAD_CONTEXT);
    if (--context->users)
        LEAVE(CUDA_OK);
    stream_end_all(context);
    context->alive = false;
    for (struct range *range = standin.ranges, *next; range; range = next) {
        next = range->next;
        if (range->context == context && range->kind != RANGE_MAPPED)
            memory_free(range);
    }
    LEAVE(CUDA_OK);
}

cuda_status cuCtxPushCurrent_v2(cuda_context context)
{
    ENTER(NULL);
    struct cuda_context *known = standin.contexts;
    while (known && known != context)
        known = known->earlier;
    REFUSE_IF(!known, CUDA_BAD_CONTEXT);
    REFUSE_IF(!known->alive, CUDA_CONTEXT_DESTROYED);
    if (depth == STACK)
        standin_complain("a thread has pushed %d contexts and popped none", STACK);
    stack[depth++] = context;
    LEAVE(CUDA_OK);
}

cuda_status cuCtxPopCurrent_v2(cuda_context *context)
{
    ENTER(NULL);
    REFUSE_IF(!depth, CUDA_BAD_CONTEXT);
    depth--;
    if (context)
        *context = stack[depth];
    LEAVE(CUDA_OK);
}

/* What tests ask ------------------------------------------------------------------------------------------------- */

bool standin_fail(const char *name, unsigned after)
{
    pthread_mutex_lock(&standin.lock);
    bool came = !failing;
    failing = name;
    calls_before = after;
    pthread_mutex_unlock(&standin.lock);
    return came;
}

unsigned standin_contexts(void)
{
    pthread_mutex_lock(&standin.lock);
    unsigned count = 0;
    for (struct cuda_context *context = standin.contexts; context; context = context->earlier)
        count += context->alive;
    pthread_mutex_unlock(&standin.lock);
    return count;
}

unsigned standin_blocks(void)
{
    pthread_mutex_lock(&standin.lock);
    unsigned count = 0;
    for (struct block *block = standin.blocks; block; block = block->next)
        count++;
    pthread_mutex_unlock(&standin.lock);
    return count;
}

/* Imports by name, and blocks of others by descriptor. */
unsigned standin_imports(void)
{
    pthread_mutex_lock(&standin.lock);
    unsigned count = 0;
    for (struct range *range = standin.ranges; range; range = range->next)
        count += range->kind == RANGE_IMPORTED;
    for (struct block *block = standin.blocks; block; block = block->next)
        count += !block->own && block->handle_types;
    pthread_mutex_unlock(&standin.lock);
    return count;
}

__attribute__((destructor)) static void report(void)
{
    if (standin.process != getpid())
        return;
    unsigned open = standin_imports();
    if (!open)
        return;
    fprintf(stderr, "stand-in: process %d ends with %u imports open\n", (int)getpid(), open);
    if (getenv("FAKE_LEAKS"))
        abort();
}
