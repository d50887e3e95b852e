/* Device memory of several processes: names of allocations, and physical memory that is apart from its addresses and
 * has descriptors. A name holds the process and the descriptor of its memory file, which others open through /proc:
 * nothing is left when a process is killed. */
#include "inside.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct name {
    uint64_t serial, size;
    int32_t process, fd;
};
_Static_assert(sizeof(struct name) <= sizeof(struct cuda_ipc_handle), "a name fits in the driver's 64 bytes");

cuda_status cuIpcGetMemHandle(struct cuda_ipc_handle *handle, cuda_address address)
{
    struct cuda_context *context;
    ENTER(&context);
    REFUSE_IF(standin.no_ipc, CUDA_NOT_SUPPORTED);
    struct range *range = memory_find(address);
    REFUSE_IF(!range || range->kind != RANGE_ALLOCATED || range->start != address || standin.pool, CUDA_BAD_VALUE);
    struct name name = {range->block->shared->serial, range->size, getpid(), range->block->fd};
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &name, sizeof name);
    LEAVE(CUDA_OK);
}

static struct range *import_find(uint64_t serial)
{
    struct range *range = standin.ranges;
    while (range && !(range->kind == RANGE_IMPORTED && range->block->shared->serial == serial))
        range = range->next;
    return range;
}

static bool import_note(struct shared *shared)
{
    for (int i = 0; i < IMPORTERS; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&shared->importers[i], &none, getpid()))
            return true;
    }
    return false;
}

/* The same name again has the same address, and is closed as often as it was opened. */
cuda_status cuIpcOpenMemHandle_v2(cuda_address *address, struct cuda_ipc_handle handle, unsigned flags)
{
    struct cuda_context *context;
    ENTER(&context);
    struct name name;
    memcpy(&name, &handle, sizeof name);
    REFUSE_IF(standin.no_ipc, CUDA_NOT_SUPPORTED);
    REFUSE_IF(flags != CUDA_IPC_PEER_ACCESS, CUDA_BAD_VALUE);
    REFUSE_IF(name.process == getpid(), CUDA_BAD_CONTEXT);
    struct range *range = import_find(name.serial);
    if (!range) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)name.process, (int)name.fd);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        REFUSE_IF(fd < 0, CUDA_MAP_FAILED); /* the process is gone */
        struct block *block = memory_block_open(fd);
        if (!block)
            close(fd);
        REFUSE_IF(!block, CUDA_MAP_FAILED);
        cuda_status refused = block->shared->serial != name.serial || block->shared->freed ? CUDA_MAP_FAILED
                              : block->device != context->device && standin.no_peer        ? CUDA_NO_PEER_ACCESS
                              : !import_note(block->shared)                                ? CUDA_NO_MEMORY
                                                                                           : CUDA_OK;
        if (refused)
            memory_block_leave(block);
        REFUSE_IF(refused, refused);
        range = memory_range_new(RANGE_IMPORTED, memory_reserve(name.size, SMALL_PAGE), name.size, block);
        range->access = CUDA_READ_WRITE;
        range->context = context;
    }
    REFUSE_IF(range->context != context, CUDA_BAD_CONTEXT); /* one context of a process opens it */
    range->opens++;
    *address = range->start;
    LEAVE(CUDA_OK);
}

cuda_status cuIpcCloseMemHandle(cuda_address address)
{
    struct cuda_context *context;
    ENTER(&context);
    struct range *range = memory_find(address);
    REFUSE_IF(!range || range->kind != RANGE_IMPORTED || range->start != address, CUDA_BAD_VALUE);
    if (!--range->opens)
        memory_free(range);
    LEAVE(CUDA_OK);
}

/* Physical memory ------------------------------------------------------------------------------------------------ */

/* Physical memory of a handle that is not released. */
static struct block *block_of(cuda_memory memory)
{
    struct block *block = standin.blocks;
    while (block && !(block->number == memory && block->handles))
        block = block->next;
    return block;
}

static cuda_status kind_check(const struct cuda_memory_kind *kind)
{
    if (standin.no_vmm)
        return CUDA_NOT_SUPPORTED;
    if (kind->type != CUDA_PINNED || kind->location.type != CUDA_ON_DEVICE)
        return CUDA_BAD_VALUE;
    if (!standin_device_is(kind->location.id))
        return CUDA_BAD_DEVICE;
    return kind->handle_types & ~CUDA_DESCRIPTOR || (kind->handle_types && standin.no_fd) ? CUDA_NOT_SUPPORTED
                                                                                           : CUDA_OK;
}

cuda_status cuMemGetAllocationGranularity(size_t *size, const struct cuda_memory_kind *kind, cuda_granularity option)
{
    ENTER(NULL);
    cuda_status refused = option != 0 && option != 1 ? CUDA_BAD_VALUE : kind_check(kind);
    REFUSE_IF(refused, refused);
    *size = GRANULE;
    LEAVE(CUDA_OK);
}

cuda_status cuMemCreate(cuda_memory *memory, size_t size, const struct cuda_memory_kind *kind,
                        unsigned long long flags)
{
    ENTER(NULL);
    cuda_status refused = flags || !size || size % GRANULE ? CUDA_BAD_VALUE : kind_check(kind);
    REFUSE_IF(refused, refused);
    struct block *block = memory_block_new(kind->location.id, size, kind->handle_types);
    REFUSE_IF(!block, CUDA_NO_MEMORY);
    block->handles = 1;
    *memory = block->number;
    LEAVE(CUDA_OK);
}

cuda_status cuMemRelease(cuda_memory memory)
{
    ENTER(NULL);
    struct block *block = block_of(memory);
    REFUSE_IF(!block, CUDA_BAD_VALUE);
    block->handles--;
    memory_block_leave(block);
    LEAVE(CUDA_OK);
}

cuda_status cuMemAddressReserve(cuda_address *address, size_t size, size_t alignment, cuda_address wish,
                                unsigned long long flags)
{
    ENTER(NULL);
    (void)wish; /* a hint */
    REFUSE_IF(flags || !size || size % GRANULE || (alignment & (alignment - 1)), CUDA_BAD_VALUE);
    *address = memory_reserve(size, alignment > GRANULE ? alignment : GRANULE);
    LEAVE(*address ? CUDA_OK : CUDA_NO_MEMORY);
}

/* Whether anything is mapped in addresses. */
static bool mapped(cuda_address start, size_t size)
{
    for (struct range *range = standin.ranges; range; range = range->next)
        if (start < range->start + range->size && range->start < start + size)
            return true;
    return false;
}

cuda_status cuMemAddressFree(cuda_address address, size_t size)
{
    ENTER(NULL);
    REFUSE_IF(!memory_reserved(address, size, true) || mapped(address, size), CUDA_BAD_VALUE);
    memory_unreserve(address, size);
    LEAVE(CUDA_OK);
}

cuda_status cuMemMap(cuda_address address, size_t size, size_t offset, cuda_memory memory, unsigned long long flags)
{
    ENTER(NULL);
    struct block *block = block_of(memory);
    REFUSE_IF(flags || offset || !block || size != block->size || address % GRANULE, CUDA_BAD_VALUE);
    REFUSE_IF(!memory_reserved(address, size, false) || mapped(address, size), CUDA_BAD_VALUE);
    memory_range_new(RANGE_MAPPED, address, size, block);
    LEAVE(CUDA_OK);
}

/* Of whole mappings. */
cuda_status cuMemUnmap(cuda_address address, size_t size)
{
    ENTER(NULL);
    cuda_address at = address;
    for (struct range *range; at < address + size; at += range->size) {
        range = memory_find(at);
        REFUSE_IF(!range || range->kind != RANGE_MAPPED || range->start != at, CUDA_BAD_VALUE);
    }
    REFUSE_IF(at != address + size, CUDA_BAD_VALUE);
    for (at = address; at < address + size;) {
        struct range *range = memory_find(at);
        at += range->size;
        memory_range_end(range);
    }
    LEAVE(CUDA_OK);
}

cuda_status cuMemSetAccess(cuda_address address, size_t size, const struct cuda_access *access, size_t count)
{
    ENTER(NULL);
    for (size_t i = 0; i < count; i++)
        REFUSE_IF(access[i].location.type != CUDA_ON_DEVICE || !standin_device_is(access[i].location.id),
                  CUDA_BAD_VALUE);
    for (cuda_address at = address; at < address + size;) {
        struct range *range = memory_find(at);
        REFUSE_IF(!range || range->kind != RANGE_MAPPED, CUDA_BAD_VALUE);
        for (size_t i = 0; i < count; i++) {
            REFUSE_IF(access[i].location.id != range->block->device && standin.no_peer, CUDA_BAD_VALUE);
            range->access = access[i].flags;
        }
        at = range->start + range->size;
    }
    LEAVE(CUDA_OK);
}

cuda_status cuMemExportToShareableHandle(void *handle, cuda_memory memory, cuda_handle_type type,
                                         unsigned long long flags)
{
    ENTER(NULL);
    struct block *block = block_of(memory);
    REFUSE_IF(flags || !block || type != CUDA_DESCRIPTOR || !(block->handle_types & type), CUDA_BAD_VALUE);
    int fd = fcntl(block->fd, F_DUPFD_CLOEXEC, 0);
    REFUSE_IF(fd < 0, CUDA_NO_MEMORY);
    *(int *)handle = fd;
    LEAVE(CUDA_OK);
}

/* The descriptor stays the caller's. */
cuda_status cuMemImportFromShareableHandle(cuda_memory *memory, void *handle, cuda_handle_type type)
{
    ENTER(NULL);
    REFUSE_IF(type != CUDA_DESCRIPTOR || standin.no_fd || standin.no_vmm, CUDA_NOT_SUPPORTED);
    int fd = fcntl((int)(intptr_t)handle, F_DUPFD_CLOEXEC, 0);
    REFUSE_IF(fd < 0, CUDA_BAD_VALUE);
    struct block *block = memory_block_open(fd);
    if (!block)
        close(fd);
    REFUSE_IF(!block, CUDA_BAD_VALUE);
    block->handle_types = CUDA_DESCRIPTOR;
    block->handles = 1;
    *memory = block->number;
    LEAVE(CUDA_OK);
}

cuda_status cuMemRetainAllocationHandle(cuda_memory *memory, void *address)
{
    ENTER(NULL);
    struct range *range = memory_find((cuda_address)(uintptr_t)address);
    REFUSE_IF(!range || range->kind != RANGE_MAPPED, CUDA_BAD_VALUE);
    range->block->handles++;
    *memory = range->block->number;
    LEAVE(CUDA_OK);
}

cuda_status cuMemGetAllocationPropertiesFromHandle(struct cuda_memory_kind *kind, cuda_memory memory)
{
    ENTER(NULL);
    struct block *block = block_of(memory);
    REFUSE_IF(!block, CUDA_BAD_VALUE);
    *kind = (struct cuda_memory_kind){
        .type = CUDA_PINNED,
        .handle_types = block->handle_types,
        .location = {CUDA_ON_DEVICE, block->device},
    };
    LEAVE(CUDA_OK);
}
