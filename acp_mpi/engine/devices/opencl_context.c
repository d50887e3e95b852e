/* OpenCL, loaded at the first use of device memory, its devices, and the contexts in which this process has memory. A
 * context of the program is kept for as long as a block of it is. */
#include "devices/opencl_context.h"
#include "base/hash.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLATFORMS 16u
#define LOADER "libOpenCL"

int opencl_context_cannot(struct kind_fault *fault, const char *words)
{
    *fault = (struct kind_fault){0};
    snprintf(fault->words, sizeof fault->words, "%s", words);
    return KIND_CANNOT;
}

static const char *error_name(opencl_status status)
{
#define OPENCL_NAME_OF(number, name)                                                                                   \
    if (status == (number))                                                                                            \
        return "CL_" #name;
    OPENCL_ERRORS(OPENCL_NAME_OF)
    return "an error without a name here";
}

int opencl_context_status(struct kind_fault *fault, const char *call, opencl_status status)
{
    if (status == OPENCL_OK)
        return KIND_OK;
    *fault = (struct kind_fault){.number = status};
    snprintf(fault->words, sizeof fault->words, "%s: %s", call, error_name(status));
    return status == OPENCL_MEM_OBJECT_ALLOCATION_FAILURE || status == OPENCL_INVALID_BUFFER_SIZE ? KIND_FULL
                                                                                                  : KIND_FAILED;
}

/* The name of a loader that is in this process already: pyopencl brings its own. */
static int loader_named(struct dl_phdr_info *info, size_t size, void *found)
{
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    (void)size;
    if (!name || strncmp(name + 1, LOADER, strlen(LOADER)) != 0)
        return 0;
    *(char **)found = strdup(info->dlpi_name);
    return 1;
}

static int loader_open(struct opencl *o, struct kind_fault *fault)
{
    char *here = NULL;
    dl_iterate_phdr(loader_named, &here);
    void *library = dlopen(here ? here : LOADER ".so.1", RTLD_NOW | RTLD_LOCAL); /* for good: drivers have threads */
    free(here);
    if (!library)
        return opencl_context_cannot(fault, dlerror());
#define OPENCL_LOAD(result, name, arguments)                                                                           \
    {                                                                                                                  \
        void *symbol = dlsym(library, #name);                                                                          \
        if (!symbol)                                                                                                   \
            return opencl_context_cannot(fault, LOADER " is too old: it has no " #name);                               \
        memcpy(&o->call.name, &symbol, sizeof symbol);                                                                 \
    }
    OPENCL_CALLS(OPENCL_LOAD)
    return KIND_OK;
}

/* The driver's number that no other device has, or names and versions, and which one of those that are the same it is. */
static void device_identify(struct opencl *o, uint32_t index)
{
    struct opencl_device *d = &o->devices[index];
    char words[384] = {0};
    size_t size = 0, at = strlen(strcpy(words, d->name));
    if (o->call.clGetDeviceInfo(d->id, OPENCL_DEVICE_UUID, sizeof d->identity, d->identity, &size) == OPENCL_OK &&
        size == sizeof d->identity)
        return;
    static const uint32_t asked[] = {OPENCL_DEVICE_VENDOR, OPENCL_DEVICE_DRIVER};
    for (int i = 0; i < 2; i++) {
        o->call.clGetDeviceInfo(d->id, asked[i], sizeof words - at - 1, words + at, NULL);
        at += strlen(words + at);
    }
    uint64_t hash[2] = {hash_bytes(words, at), 0};
    memcpy(d->identity, hash, sizeof d->identity);
    for (uint32_t i = 0; i < index; i++)
        if (memcmp(o->devices[i].identity, d->identity, sizeof hash) == 0)
            memcpy(d->identity, (hash[1]++, hash), sizeof d->identity);
}

static int devices_add(struct opencl *o, opencl_platform platform, struct kind_fault *fault)
{
    uint32_t more = 0;
    if (o->call.clGetDeviceIDs(platform, OPENCL_ANY_DEVICE, 0, NULL, &more) != OPENCL_OK || !more)
        return KIND_OK; /* a driver without a device */
    opencl_device_id *ids = calloc(more, sizeof *ids);
    struct opencl_device *devices = realloc(o->devices, (o->count + more) * sizeof *devices);
    if (devices)
        o->devices = devices;
    int rc = ids && devices ? OPENCL_DO(o, fault, clGetDeviceIDs, platform, OPENCL_ANY_DEVICE, more, ids, NULL)
                            : opencl_context_cannot(fault, "host memory is out");
    for (uint32_t i = 0; rc == KIND_OK && i < more; i++) {
        struct opencl_device *d = &o->devices[o->count];
        opencl_flags type = 0;
        char name[256] = "a device";
        o->call.clGetDeviceInfo(ids[i], OPENCL_DEVICE_TYPE, sizeof type, &type, NULL);
        o->call.clGetDeviceInfo(ids[i], OPENCL_DEVICE_NAME, sizeof name, name, NULL);
        *d = (struct opencl_device){.id = ids[i], .shares = type & OPENCL_PROCESSOR};
        snprintf(d->name, sizeof d->name, "%.63s", name);
        device_identify(o, o->count++);
    }
    free(ids);
    return rc;
}

static void opencl_free(struct opencl *o)
{
    pthread_mutex_destroy(&o->lock);
    pthread_cond_destroy(&o->rung);
    free(o->devices);
    free(o);
}

int opencl_context_open(struct opencl **state, struct kind_fault *fault)
{
    opencl_platform platforms[PLATFORMS];
    uint32_t count = 0;
    struct opencl *o = calloc(1, sizeof *o);
    if (!o)
        return opencl_context_cannot(fault, "host memory is out");
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->rung, NULL);
    int rc = loader_open(o, fault);
    if (rc == KIND_OK)
        rc = OPENCL_DO(o, fault, clGetPlatformIDs, PLATFORMS, platforms, &count);
    for (uint32_t i = 0; rc == KIND_OK && i < count && i < PLATFORMS; i++)
        rc = devices_add(o, platforms[i], fault);
    if (rc == KIND_OK && !o->count)
        rc = opencl_context_cannot(fault, "OpenCL has no device here");
    if (rc == KIND_OK)
        *state = o;
    else
        opencl_free(o);
    return rc == KIND_OK ? KIND_OK : KIND_CANNOT;
}

/* With the lock. */
static void use_end(struct opencl *o, struct opencl_use *use)
{
    struct opencl_use **at = &o->uses;
    if (--use->count)
        return;
    while (*at != use)
        at = &(*at)->next;
    *at = use->next;
    o->call.clReleaseCommandQueue(use->queue);
    o->call.clReleaseContext(use->context);
    free(use);
}

void opencl_context_drop(struct opencl *o, struct opencl_use *use)
{
    pthread_mutex_lock(&o->lock);
    use_end(o, use);
    pthread_mutex_unlock(&o->lock);
}

void opencl_context_close(struct opencl *o)
{
    pthread_mutex_lock(&o->lock);
    while (o->bells)
        pthread_cond_wait(&o->rung, &o->lock);
    while (o->uses) /* of devices: all blocks have been released */
        use_end(o, o->uses);
    pthread_mutex_unlock(&o->lock);
    opencl_free(o);
}

/* Which of the devices is the first of a context. */
static int context_device(struct opencl *o, opencl_context context, uint32_t *device, struct kind_fault *fault)
{
    opencl_device_id ids[64];
    int rc = OPENCL_DO(o, fault, clGetContextInfo, context, OPENCL_CONTEXT_DEVICES, sizeof ids, ids, NULL);
    for (*device = 0; rc == KIND_OK && *device < o->count; ++*device)
        if (o->devices[*device].id == ids[0])
            return KIND_OK;
    return rc != KIND_OK ? rc : opencl_context_cannot(fault, "the context's device is a part of one, or a new one");
}

/* With the lock. A queue whose commands wait for nothing but their events, if the driver has such. Takes over a hold of
 * the context. */
static int use_new(struct opencl *o, opencl_context context, struct opencl_use **out, struct kind_fault *fault)
{
    opencl_status status = OPENCL_OK;
    uint32_t device;
    int rc = context_device(o, context, &device, fault);
    struct opencl_use *use = rc == KIND_OK ? calloc(1, sizeof *use) : NULL;
    if (rc == KIND_OK && !use)
        rc = opencl_context_cannot(fault, "host memory is out");
    if (rc == KIND_OK) {
        opencl_device_id id = o->devices[device].id;
        *use = (struct opencl_use){.next = o->uses, .context = context, .device = device, .count = 1};
        use->queue = o->call.clCreateCommandQueue(context, id, OPENCL_OUT_OF_ORDER, &status);
        if (status != OPENCL_OK)
            use->queue = o->call.clCreateCommandQueue(context, id, 0, &status);
        rc = opencl_context_status(fault, "clCreateCommandQueue", status);
    }
    if (rc == KIND_OK) {
        o->uses = *out = use;
        return KIND_OK;
    }
    free(use);
    o->call.clReleaseContext(context);
    return rc;
}

static struct opencl_use *use_find(const struct opencl *o, opencl_context context)
{
    struct opencl_use *use = o->uses;
    while (use && use->context != context)
        use = use->next;
    return use;
}

/* With the lock: the context in which memory of the device lies if the program names none. */
static int usual(struct opencl *o, uint32_t number, struct opencl_use **use, struct kind_fault *fault)
{
    struct opencl_device *d = &o->devices[number];
    opencl_status status;
    if (d->usual) {
        *use = use_find(o, d->usual);
        return KIND_OK;
    }
    opencl_context made = o->call.clCreateContext(NULL, 1, &d->id, NULL, NULL, &status);
    int rc = opencl_context_status(fault, "clCreateContext", status);
    if (rc == KIND_OK && (rc = use_new(o, made, use, fault)) == KIND_OK)
        d->usual = made;
    return rc;
}

int opencl_context_hold(struct opencl *o, struct kind_place place, struct opencl_use **use, struct kind_fault *fault)
{
    uint32_t number = place.number < 0 ? 0 : (uint32_t)place.number;
    char words[80];
    int rc = KIND_OK;
    *use = NULL;
    if (!place.context && number >= o->count) {
        snprintf(words, sizeof words, "there is no device opencl:%u; OpenCL has %u", number, o->count);
        return opencl_context_cannot(fault, words);
    }
    pthread_mutex_lock(&o->lock);
    if (!place.context) {
        if ((rc = usual(o, number, use, fault)) == KIND_OK)
            (*use)->count++;
    } else if ((*use = use_find(o, place.context))) {
        (*use)->count++;
    } else if ((rc = OPENCL_DO(o, fault, clRetainContext, place.context)) == KIND_OK) {
        rc = use_new(o, place.context, use, fault);
    }
    pthread_mutex_unlock(&o->lock);
    return rc;
}

struct opencl_use *opencl_context_using(struct opencl *o, const uint8_t identity[16])
{
    pthread_mutex_lock(&o->lock);
    struct opencl_use *use = o->uses;
    while (use && memcmp(o->devices[use->device].identity, identity, 16) != 0)
        use = use->next;
    if (use)
        use->count++;
    pthread_mutex_unlock(&o->lock);
    return use;
}

bool opencl_context_active(struct opencl *o, uint32_t device)
{
    pthread_mutex_lock(&o->lock);
    const struct opencl_use *use = o->uses;
    while (use && use->device != device)
        use = use->next;
    pthread_mutex_unlock(&o->lock);
    return use;
}
