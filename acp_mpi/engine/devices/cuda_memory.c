/* Device memory: what is allocated here, what the program has allocated, and what other processes share.
 *
 * The driver shares memory in two ways, and some memory in none. Physical memory that is apart from its addresses has
 * a descriptor; its pages live while any process maps them. Memory of the usual allocators has a name of 64 bytes,
 * which stands for the whole allocation; it must be closed in all processes before it is freed. */
#include "devices/cuda_memory.h"
#include "devices/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum origin { ORIGIN_MAPPED, ORIGIN_ALLOCATED, ORIGIN_PROGRAM, ORIGIN_NAME, ORIGIN_DESCRIPTOR, ORIGIN_HERE };

struct cuda_block {
    enum origin origin;
    bool maps;                /* physical memory that is apart from its addresses */
    const char *hidden;       /* why other processes cannot have it; NULL: they can */
    struct cuda_block *next;  /* of those of this process that have a name */
    struct cuda_ipc_handle name;
    uint64_t base, size;
    bool named;
};

/* The driver does not open a name in the process that has made it: several engines of one process share their blocks
 * as they are. */
static pthread_mutex_t named_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_block *named;

static struct kind_block block_fill(struct cuda *c, struct cuda_block *own, cuda_address base, uint64_t size,
                                    int32_t number)
{
    struct kind_block block = {.base = base, .size = size, .place = {.number = number}, .own = own};
    memcpy(block.device, c->devices[number].uuid, sizeof block.device);
    own->base = base;
    own->size = size;
    return block;
}

bool cuda_memory_maps(const struct kind_block *block)
{
    const struct cuda_block *own = block->own;
    return own->maps;
}

/* Mapped memory ---------------------------------------------------------------------------------------------------- */

/* Maps physical memory for the device `number`; its handle may be released then. */
static int map(struct cuda *c, int32_t number, cuda_memory memory, uint64_t size, size_t granule,
               cuda_address *address, struct kind_fault *fault)
{
    const struct cuda_access access = {{CUDA_ON_DEVICE, number}, CUDA_READ_WRITE};
    int rc = CUDA_DO(c, fault, cuMemAddressReserve, address, size, granule, 0, 0);
    if (rc != KIND_OK)
        return rc;
    rc = CUDA_DO(c, fault, cuMemMap, *address, size, 0, memory, 0);
    if (rc == KIND_OK && (rc = CUDA_DO(c, fault, cuMemSetAccess, *address, size, &access, 1)) != KIND_OK)
        c->call.cuMemUnmap(*address, size);
    if (rc != KIND_OK)
        c->call.cuMemAddressFree(*address, size);
    return rc;
}

static struct cuda_memory_kind kind_of(const struct cuda_device *d, int32_t number)
{
    return (struct cuda_memory_kind){
        .type = CUDA_PINNED,
        .handle_types = d->descriptors ? CUDA_DESCRIPTOR : 0,
        .location = {CUDA_ON_DEVICE, number},
    };
}

/* KIND_CANNOT: the device or the system does not let memory be had in this way. */
static int allocate_mapped(struct cuda *c, int32_t number, struct cuda_block *own, uint64_t *size,
                           cuda_address *address, struct kind_fault *fault)
{
    const struct cuda_memory_kind kind = kind_of(&c->devices[number], number);
    cuda_memory memory;
    size_t granule;
    if (!kind.handle_types)
        return cuda_context_cannot(fault, "the device's memory has no descriptors");
    int rc = CUDA_DO(c, fault, cuMemGetAllocationGranularity, &granule, &kind, 0);
    if (rc != KIND_OK)
        return rc;
    *size = (*size + granule - 1) / granule * granule;
    if ((rc = CUDA_DO(c, fault, cuMemCreate, &memory, *size, &kind, 0)) != KIND_OK)
        return rc;
    rc = map(c, number, memory, *size, granule, address, fault);
    c->call.cuMemRelease(memory); /* the mapping keeps it */
    own->origin = ORIGIN_MAPPED;
    own->maps = true;
    return rc;
}

static int allocate(struct cuda *c, int32_t number, struct cuda_block *own, uint64_t size, struct kind_block *block,
                    struct kind_fault *fault)
{
    cuda_address address = 0;
    uint64_t rounded = size;
    int rc = allocate_mapped(c, number, own, &rounded, &address, fault);
    if (rc == KIND_CANNOT) {
        *own = (struct cuda_block){.origin = ORIGIN_ALLOCATED};
        rounded = size;
        rc = CUDA_DO(c, fault, cuMemAlloc_v2, &address, size);
    }
    if (rc == KIND_OK)
        *block = block_fill(c, own, address, rounded, number);
    return rc;
}

int cuda_memory_allocate(void *state, struct kind_place place, uint64_t size, struct kind_block *block,
                         struct kind_fault *fault)
{
    struct cuda *c = state;
    struct cuda_block *own = calloc(1, sizeof *own);
    int32_t number;
    int rc = own ? cuda_context_number(c, place, &number, fault) : cuda_context_cannot(fault, "host memory is out");
    if (rc == KIND_OK && (rc = cuda_context_enter(c, number, true, fault)) == KIND_OK) {
        rc = allocate(c, number, own, size, block, fault);
        cuda_context_leave(c);
    }
    if (rc != KIND_OK)
        free(own);
    return rc;
}

/* Memory of the program -------------------------------------------------------------------------------------------- */

struct pointer {
    unsigned type;
    int device;
    cuda_context context;
    uint64_t managed, named, handles; /* the driver may write fewer bytes */
};

static int pointer_ask(struct cuda *c, cuda_address address, struct pointer *p, struct kind_fault *fault)
{
    cuda_pointer_attribute asked[] = {CUDA_POINTER_TYPE,    CUDA_POINTER_DEVICE, CUDA_POINTER_CONTEXT,
                                      CUDA_POINTER_MANAGED, CUDA_POINTER_IPC,    CUDA_POINTER_HANDLES};
    void *values[] = {&p->type, &p->device, &p->context, &p->managed, &p->named, &p->handles};
    *p = (struct pointer){.device = -1};
    int rc = CUDA_DO(c, fault, cuPointerGetAttributes, 6, asked, values, address);
    if (rc != KIND_OK)
        return rc;
    if (p->type == CUDA_HOST_MEMORY)
        return cuda_context_cannot(fault, "the address is of host memory");
    if (p->type != CUDA_DEVICE_MEMORY || p->device < 0 || p->device >= (int)c->count)
        return cuda_context_cannot(fault, "the driver does not know the address");
    return KIND_OK;
}

/* The whole allocation, or, of an array over several pieces of physical memory, the array alone. */
static int adopt(struct cuda *c, const struct pointer *p, struct cuda_block *own, cuda_address address, uint64_t size,
                 struct kind_block *block, struct kind_fault *fault)
{
    cuda_address start;
    size_t length;
    cuda_context primary = c->devices[p->device].context;
    if (p->context && p->context != primary)
        return cuda_context_cannot(fault, "the memory is not of the device's primary context");
    int rc = CUDA_DO(c, fault, cuMemGetAddressRange_v2, &start, &length, address);
    if (rc != KIND_OK)
        return rc;
    own->origin = ORIGIN_PROGRAM;
    own->maps = !p->named;
    if (address - start + size > length) {
        start = address;
        length = size;
        own->maps = true;
        own->hidden = "the array lies in several pieces of memory";
    } else if (p->managed)
        own->hidden = "managed memory cannot be exported";
    else if (!p->named && !(p->handles & CUDA_DESCRIPTOR))
        own->hidden = "its allocator makes memory that cannot be exported";
    *block = block_fill(c, own, start, length, p->device);
    block->offset = address - start;
    return KIND_OK;
}

int cuda_memory_adopt(void *state, struct kind_place place, uint64_t address, uint64_t size, struct kind_block *block,
                      struct kind_fault *fault)
{
    struct cuda *c = state;
    struct pointer p;
    (void)place; /* the driver knows better */
    int rc = pointer_ask(c, address, &p, fault);
    struct cuda_block *own = rc == KIND_OK ? calloc(1, sizeof *own) : NULL;
    if (rc == KIND_OK && !own)
        rc = cuda_context_cannot(fault, "host memory is out");
    if (rc == KIND_OK && (rc = cuda_context_enter(c, p.device, false, fault)) == KIND_OK) {
        rc = adopt(c, &p, own, address, size, block, fault);
        cuda_context_leave(c);
    }
    if (rc != KIND_OK)
        free(own);
    return rc;
}

/* Exports ---------------------------------------------------------------------------------------------------------- */

static int publish_descriptor(struct cuda *c, const struct kind_block *block, struct kind_ticket *ticket,
                              int *descriptor, struct kind_fault *fault)
{
    const struct cuda_memory_kind kind = kind_of(&c->devices[block->place.number], block->place.number);
    cuda_memory memory;
    size_t granule = 0;
    int rc = CUDA_DO(c, fault, cuMemGetAllocationGranularity, &granule, &kind, 0);
    if (rc == KIND_OK)
        rc = CUDA_DO(c, fault, cuMemRetainAllocationHandle, &memory, (void *)(uintptr_t)block->base);
    if (rc != KIND_OK)
        return rc;
    rc = CUDA_DO(c, fault, cuMemExportToShareableHandle, descriptor, memory, CUDA_DESCRIPTOR, 0);
    c->call.cuMemRelease(memory);
    ticket->how = KIND_BY_DESCRIPTOR;
    while ((size_t)1 << ticket->granule < granule)
        ticket->granule++;
    return rc;
}

/* The name is of the allocation as a whole: places in it are the ticket's reader's to count. */
static int publish_name(struct cuda *c, const struct kind_block *block, struct kind_ticket *ticket,
                        struct kind_fault *fault)
{
    struct cuda_block *own = block->own;
    int rc = CUDA_DO(c, fault, cuIpcGetMemHandle, &own->name, block->base);
    if (rc != KIND_OK)
        return rc;
    ticket->how = KIND_BY_NAME;
    memcpy(ticket->name, own->name.bytes, sizeof ticket->name);
    pthread_mutex_lock(&named_lock);
    own->named = true;
    own->next = named;
    named = own;
    pthread_mutex_unlock(&named_lock);
    return KIND_OK;
}

int cuda_memory_publish(void *state, const struct kind_block *block, struct kind_ticket *ticket, int *descriptor,
                        struct kind_fault *fault)
{
    struct cuda *c = state;
    const struct cuda_block *own = block->own;
    *descriptor = -1;
    *ticket = (struct kind_ticket){.kind = CUDA_NUMBER, .descriptor = -1, .size = block->size};
    memcpy(ticket->device, block->device, sizeof ticket->device);
    if (own->hidden)
        return cuda_context_cannot(fault, own->hidden);
    int rc = cuda_context_enter(c, block->place.number, false, fault);
    if (rc == KIND_OK) {
        rc = own->maps ? publish_descriptor(c, block, ticket, descriptor, fault)
                       : publish_name(c, block, ticket, fault);
        cuda_context_leave(c);
    }
    if (rc == KIND_OK)
        return KIND_OK;
    ticket->how = KIND_BY_NOTHING;
    return KIND_CANNOT; /* whatever it was: the owner copies */
}

/* Imports ---------------------------------------------------------------------------------------------------------- */

static int import_descriptor(struct cuda *c, int32_t number, const struct kind_ticket *ticket, int descriptor,
                             struct cuda_block *own, cuda_address *address, struct kind_fault *fault)
{
    cuda_memory memory;
    if (ticket->granule >= 64 || ticket->size % ((uint64_t)1 << ticket->granule))
        return cuda_context_cannot(fault, "the ticket's size is wrong");
    int rc = CUDA_DO(c, fault, cuMemImportFromShareableHandle, &memory, (void *)(intptr_t)descriptor, CUDA_DESCRIPTOR);
    if (rc != KIND_OK)
        return rc;
    rc = map(c, number, memory, ticket->size, (size_t)1 << ticket->granule, address, fault);
    c->call.cuMemRelease(memory);
    own->origin = ORIGIN_DESCRIPTOR;
    own->maps = true;
    return rc;
}

/* Where the block of this process is that has the name, and how long it is; 0: there is none. */
static cuda_address named_here(const struct cuda_ipc_handle *name, size_t *length)
{
    pthread_mutex_lock(&named_lock);
    const struct cuda_block *each = named;
    while (each && memcmp(&each->name, name, sizeof *name) != 0)
        each = each->next;
    cuda_address base = each ? each->base : 0;
    *length = each ? each->size : 0;
    pthread_mutex_unlock(&named_lock);
    return base;
}

static int import_name(struct cuda *c, const struct kind_ticket *ticket, struct cuda_block *own,
                       cuda_address *address, struct kind_fault *fault)
{
    struct cuda_ipc_handle name;
    cuda_address start;
    size_t length = 0;
    memcpy(name.bytes, ticket->name, sizeof name.bytes);
    own->origin = ORIGIN_HERE;
    if ((*address = named_here(&name, &length)))
        return length >= ticket->size ? KIND_OK : cuda_context_cannot(fault, "the ticket's size is wrong");
    own->origin = ORIGIN_NAME;
    int rc = CUDA_DO(c, fault, cuIpcOpenMemHandle_v2, address, name, CUDA_IPC_PEER_ACCESS);
    if (rc != KIND_OK)
        return rc;
    if (c->call.cuMemGetAddressRange_v2(&start, &length, *address) == CUDA_OK && length >= ticket->size)
        return KIND_OK;
    c->call.cuIpcCloseMemHandle(*address);
    return cuda_context_cannot(fault, "the ticket's size is wrong");
}

int cuda_memory_import(void *state, const struct kind_ticket *ticket, int descriptor, struct kind_block *block,
                       struct kind_fault *fault)
{
    struct cuda *c = state;
    cuda_address address = 0;
    int32_t number = cuda_context_mapping(c, ticket->device);
    if (number < 0)
        return cuda_context_cannot(fault, "this process has no context that reaches the device");
    struct cuda_block *own = calloc(1, sizeof *own);
    int rc = own ? cuda_context_enter(c, number, false, fault) : cuda_context_cannot(fault, "host memory is out");
    if (rc == KIND_OK) {
        rc = ticket->how == KIND_BY_NAME ? import_name(c, ticket, own, &address, fault)
             : ticket->how == KIND_BY_DESCRIPTOR
                 ? import_descriptor(c, number, ticket, descriptor, own, &address, fault)
                 : cuda_context_cannot(fault, "its owner does not export it");
        cuda_context_leave(c);
    }
    if (rc != KIND_OK) {
        free(own);
        return KIND_CANNOT; /* the owner copies */
    }
    *block = block_fill(c, own, address, ticket->size, number);
    memcpy(block->device, ticket->device, sizeof block->device);
    return KIND_OK;
}

/* The end ---------------------------------------------------------------------------------------------------------- */

static void name_forget(struct cuda_block *own)
{
    pthread_mutex_lock(&named_lock);
    struct cuda_block **at = &named;
    while (*at && *at != own)
        at = &(*at)->next;
    if (*at)
        *at = own->next;
    pthread_mutex_unlock(&named_lock);
}

void cuda_memory_release(void *state, struct kind_block *block)
{
    struct cuda *c = state;
    struct cuda_block *own = block->own;
    struct kind_fault fault;
    bool entered = cuda_context_enter(c, block->place.number, false, &fault) == KIND_OK;
    if (own->named)
        name_forget(own);
    if (entered && (own->origin == ORIGIN_MAPPED || own->origin == ORIGIN_DESCRIPTOR)) {
        c->call.cuMemUnmap(block->base, block->size);
        c->call.cuMemAddressFree(block->base, block->size);
    } else if (entered && own->origin == ORIGIN_ALLOCATED) {
        c->call.cuMemFree_v2(block->base);
    } else if (entered && own->origin == ORIGIN_NAME) {
        c->call.cuIpcCloseMemHandle(block->base);
    }
    if (entered)
        cuda_context_leave(c);
    free(own);
    block->own = NULL;
}

/* Host memory ------------------------------------------------------------------------------------------------------ */

int cuda_memory_pin(void *state, struct kind_place place, void *host, uint64_t size, uint64_t *address,
                    struct kind_fault *fault)
{
    struct cuda *c = state;
    cuda_address at = 0;
    int32_t number;
    int rc = cuda_context_number(c, place, &number, fault);
    if (rc != KIND_OK || (rc = cuda_context_enter(c, number, false, fault)) != KIND_OK)
        return rc;
    rc = CUDA_DO(c, fault, cuMemHostRegister_v2, host, size, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);
    if (rc == KIND_OK && (rc = CUDA_DO(c, fault, cuMemHostGetDevicePointer_v2, &at, host, 0)) != KIND_OK)
        c->call.cuMemHostUnregister(host);
    *address = at;
    cuda_context_leave(c);
    return rc;
}

/* With any context that is held: it was pinned for all of them. */
void cuda_memory_unpin(void *state, void *host)
{
    struct cuda *c = state;
    struct kind_fault fault;
    for (int32_t number = 0; number < (int32_t)c->count; number++) {
        if (!c->devices[number].context || cuda_context_enter(c, number, false, &fault) != KIND_OK)
            continue;
        c->call.cuMemHostUnregister(host);
        cuda_context_leave(c);
        return;
    }
}
