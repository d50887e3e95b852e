/* Device memory of OpenCL: buffers, which have a handle and no address.
 *
 * OpenCL itself shares no memory between processes. Where the device is the processor a buffer can lie over memory of a
 * file, which other processes map and lay a buffer over, too: all of them load and store the same bytes. That the driver
 * keeps no copy of them is tried once for each device. Memory of other devices, and of the program, stays in its
 * process, and its owner copies. */
#include "devices/opencl_memory.h"
#include "base/linux.h"
#include "devices/opencl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANULE ((uint64_t)4096)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

struct mapping {
    void *start;
    uint64_t size;
};

/* Memory that a buffer lies over ends with the buffer, which the program may hold longer than we do. */
static void mapping_end(opencl_memory memory, void *data)
{
    struct mapping *m = data;
    (void)memory;
    munmap(m->start, m->size);
    free(m);
}

static void block_show(struct opencl *o, struct opencl_block *own, uint64_t size, struct kind_block *block)
{
    *block = (struct kind_block){
        .base = (uint64_t)(uintptr_t)own->memory,
        .size = size,
        .place = {(int32_t)own->use->device, own->use->context, (uint64_t)(uintptr_t)own->stream},
        .own = own,
    };
    memcpy(block->device, o->devices[own->use->device].identity, sizeof block->device);
}

/* A buffer over memory of the file. */
static int buffer_over(struct opencl *o, struct opencl_block *own, uint64_t size, struct kind_fault *fault)
{
    opencl_status status = OPENCL_OUT_OF_HOST_MEMORY;
    struct mapping *m = calloc(1, sizeof *m);
    void *start = m ? linux_map(own->fd, 0, size, PROT_READ | PROT_WRITE) : MAP_FAILED;
    if (start != MAP_FAILED) {
        *m = (struct mapping){start, size};
        own->memory =
            o->call.clCreateBuffer(own->use->context, OPENCL_READ_WRITE | OPENCL_OVER_HOST, size, start, &status);
    }
    if (status == OPENCL_OK) {
        own->host = start;
        status = o->call.clSetMemObjectDestructorCallback(own->memory, mapping_end, m);
        if (status == OPENCL_OK)
            return KIND_OK;
        o->call.clReleaseMemObject(own->memory);
    }
    if (start != MAP_FAILED)
        munmap(start, size);
    free(m);
    own->host = NULL;
    own->memory = NULL;
    return opencl_context_status(fault, "clCreateBuffer", status);
}

/* Does the device see what the processor stores, and the other way round, with no call between? */
static bool shares(struct opencl *o, const struct opencl_block *own)
{
    const unsigned char given[8] = "to there", stored[8] = "from it.";
    unsigned char back[8] = {0};
    opencl_queue queue = own->use->queue;
    bool same = o->call.clEnqueueWriteBuffer(queue, own->memory, 1, 0, 8, given, 0, NULL, NULL) == OPENCL_OK &&
                memcmp(own->host, given, 8) == 0;
    memcpy(own->host, stored, 8);
    same = o->call.clEnqueueReadBuffer(queue, own->memory, 1, 0, 8, back, 0, NULL, NULL) == OPENCL_OK &&
           memcmp(back, stored, 8) == 0 && same;
    memset(own->host, 0, 8);
    return same;
}

/* Memory that other processes can map; its pages are there already, and a store never fails for want of one. */
static int allocate_shared(struct opencl *o, struct opencl_block *own, uint64_t size, struct kind_fault *fault)
{
    struct opencl_device *d = &o->devices[own->use->device];
    own->fd = memfd_create("acp_mpi.opencl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (own->fd < 0 || posix_fallocate(own->fd, 0, (off_t)size) || fcntl(own->fd, F_ADD_SEALS, SEALS)) {
        linux_shut(&own->fd);
        return opencl_context_status(fault, "posix_fallocate", OPENCL_MEM_OBJECT_ALLOCATION_FAILURE);
    }
    int rc = buffer_over(o, own, size, fault);
    if (rc == KIND_OK && !shares(o, own)) {
        d->shares = false;
        o->call.clReleaseMemObject(own->memory);
        own->host = NULL;
        rc = opencl_context_cannot(fault, "the device keeps a copy of its own");
    }
    if (rc != KIND_OK)
        linux_shut(&own->fd);
    return rc;
}

static int block_allocate(struct opencl *o, struct opencl_block *own, uint64_t *size, struct kind_fault *fault)
{
    const struct opencl_device *d = &o->devices[own->use->device];
    uint64_t most = UINT64_MAX, whole = (*size + GRANULE - 1) / GRANULE * GRANULE;
    opencl_status status;
    o->call.clGetDeviceInfo(d->id, OPENCL_DEVICE_LARGEST, sizeof most, &most, NULL);
    if (*size > most) {
        opencl_context_status(fault, "the device's largest buffer is smaller", OPENCL_INVALID_BUFFER_SIZE);
        fault->free = most;
        return KIND_FULL;
    }
    if (d->shares) {
        int rc = allocate_shared(o, own, whole, fault);
        if (rc == KIND_OK)
            *size = whole;
        if (rc != KIND_CANNOT)
            return rc;
    }
    own->memory = o->call.clCreateBuffer(own->use->context, OPENCL_READ_WRITE, *size, NULL, &status);
    return opencl_context_status(fault, "clCreateBuffer", status);
}

/* What both kinds of blocks begin with. */
static int block_begin(struct opencl *o, struct kind_place place, struct opencl_block **out, struct kind_fault *fault)
{
    struct opencl_block *own = calloc(1, sizeof *own);
    *out = own;
    if (!own)
        return opencl_context_cannot(fault, "host memory is out");
    own->fd = -1;
    int rc = opencl_context_hold(o, place, &own->use, fault);
    opencl_queue stream = (opencl_queue)(uintptr_t)place.stream;
    if (rc == KIND_OK && stream && (rc = OPENCL_DO(o, fault, clRetainCommandQueue, stream)) == KIND_OK)
        own->stream = stream;
    return rc;
}

static void block_end(struct opencl *o, struct opencl_block *own)
{
    if (!own)
        return;
    if (own->memory)
        o->call.clReleaseMemObject(own->memory);
    if (own->stream)
        o->call.clReleaseCommandQueue(own->stream);
    if (own->use)
        opencl_context_drop(o, own->use);
    linux_shut(&own->fd);
    free(own);
}

int opencl_memory_allocate(void *state, struct kind_place place, uint64_t size, struct kind_block *block,
                           struct kind_fault *fault)
{
    struct opencl *o = state;
    struct opencl_block *own;
    int rc = block_begin(o, place, &own, fault);
    if (rc == KIND_OK)
        rc = block_allocate(o, own, &size, fault);
    if (rc == KIND_OK)
        block_show(o, own, size, block);
    else
        block_end(o, own);
    return rc;
}

/* A part of a buffer is a place in the whole. */
static int buffer_whole(struct opencl *o, opencl_memory *memory, size_t *offset, struct kind_fault *fault)
{
    opencl_memory parent = NULL;
    uint32_t type = 0;
    *offset = 0;
    int rc = OPENCL_DO(o, fault, clGetMemObjectInfo, *memory, OPENCL_MEMORY_TYPE, sizeof type, &type, NULL);
    if (rc == KIND_OK && type != OPENCL_BUFFER)
        return opencl_context_cannot(fault, "it is an image or a pipe, and no buffer");
    if (rc == KIND_OK)
        rc = OPENCL_DO(o, fault, clGetMemObjectInfo, *memory, OPENCL_MEMORY_PARENT, sizeof parent, &parent, NULL);
    if (rc != KIND_OK || !parent)
        return rc;
    rc = OPENCL_DO(o, fault, clGetMemObjectInfo, *memory, OPENCL_MEMORY_OFFSET, sizeof *offset, offset, NULL);
    *memory = parent;
    return rc;
}

/* `address` is the handle of a buffer. */
int opencl_memory_adopt(void *state, struct kind_place place, uint64_t address, uint64_t size,
                        struct kind_block *block, struct kind_fault *fault)
{
    struct opencl *o = state;
    struct opencl_block *own = NULL;
    opencl_memory memory = (opencl_memory)(uintptr_t)address;
    size_t offset, whole = 0;
    int rc = buffer_whole(o, &memory, &offset, fault);
    if (rc == KIND_OK)
        rc = OPENCL_DO(o, fault, clGetMemObjectInfo, memory, OPENCL_MEMORY_CONTEXT, sizeof place.context,
                       &place.context, NULL);
    if (rc == KIND_OK)
        rc = OPENCL_DO(o, fault, clGetMemObjectInfo, memory, OPENCL_MEMORY_SIZE, sizeof whole, &whole, NULL);
    if (rc == KIND_OK && (offset > whole || size > whole - offset))
        rc = opencl_context_cannot(fault, "the buffer is shorter than the array");
    if (rc == KIND_OK)
        rc = block_begin(o, place, &own, fault);
    if (rc == KIND_OK && (rc = OPENCL_DO(o, fault, clRetainMemObject, memory)) == KIND_OK) {
        own->memory = memory;
        block_show(o, own, whole, block);
        block->offset = offset;
    }
    if (rc != KIND_OK)
        block_end(o, own);
    return rc;
}

void opencl_memory_release(void *state, struct kind_block *block)
{
    block_end(state, block->own);
    block->own = NULL;
}

int opencl_memory_publish(void *state, const struct kind_block *block, struct kind_ticket *ticket, int *descriptor,
                          struct kind_fault *fault)
{
    const struct opencl_block *own = block->own;
    (void)state;
    *descriptor = -1;
    *ticket = (struct kind_ticket){.kind = OPENCL_NUMBER, .descriptor = -1, .size = block->size};
    memcpy(ticket->device, block->device, sizeof ticket->device);
    if (own->fd < 0)
        return opencl_context_cannot(fault, "OpenCL does not share this buffer with other processes");
    if ((*descriptor = fcntl(own->fd, F_DUPFD_CLOEXEC, 0)) < 0)
        return opencl_context_cannot(fault, "there is no descriptor left");
    ticket->how = KIND_BY_DESCRIPTOR;
    return KIND_OK;
}

int opencl_memory_import(void *state, const struct kind_ticket *ticket, int descriptor, struct kind_block *block,
                         struct kind_fault *fault)
{
    struct opencl *o = state;
    struct stat file;
    struct opencl_block *own = NULL;
    int seals = fcntl(descriptor, F_GET_SEALS);
    if (fstat(descriptor, &file) || seals < 0 || !(seals & F_SEAL_SHRINK) || (uint64_t)file.st_size != ticket->size)
        return opencl_context_cannot(fault, "the ticket's size is wrong");
    struct opencl_use *use = opencl_context_using(o, ticket->device);
    if (!use)
        return opencl_context_cannot(fault, "this process has no context on the device");
    int rc = block_begin(o, (struct kind_place){(int32_t)use->device, use->context, 0}, &own, fault);
    if (rc == KIND_OK) {
        own->fd = descriptor;
        rc = buffer_over(o, own, ticket->size, fault);
        own->fd = -1; /* the caller's */
    }
    if (rc == KIND_OK)
        block_show(o, own, ticket->size, block);
    else
        block_end(o, own);
    opencl_context_drop(o, use);
    return rc == KIND_OK ? KIND_OK : KIND_CANNOT; /* the owner copies */
}
