/* Questions of the probe about contexts, and about memory that other processes have. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void without_context(void)
{
    cuda_context popped;
    cuda_address address, other;
    cuda_event event;
    cuda_stream stream;
    cuda_memory memory;
    struct cuda_ipc_handle handle;
    size_t size;
    unsigned type = 0;
    begin();
    NEED(cuMemAlloc_v2, &address, 2 * MIB);
    NEED(cuStreamCreateWithPriority, &stream, CUDA_STREAM_NON_BLOCKING, -1000);
    row("a stream of the priority -1000 (cut to the device's)", "yes");
    NEED(cuEventCreate, &event, CUDA_EVENT_NO_TIMING);
    NEED(cuEventRecord, event, stream);
    NEED(cuCtxPopCurrent_v2, &popped);
    row("without a current context: cuMemAlloc", "%s", words(call.cuMemAlloc_v2(&other, MIB)));
    row("  cuMemcpyAsync in a stream", "%s", words(call.cuMemcpyAsync(address, address + MIB, 8, stream)));
    row("  cuEventRecord", "%s", words(call.cuEventRecord(event, stream)));
    cuda_status status = call.cuEventQuery(event);
    row("  cuEventQuery", "%s", status == CUDA_NOT_READY ? "yes" : words(status));
    row("  cuEventSynchronize", "%s", words(call.cuEventSynchronize(event)));
    row("  cuStreamWaitEvent", "%s", words(call.cuStreamWaitEvent(stream, event, 0)));
    row("  cuPointerGetAttributes", "%s",
        words(call.cuPointerGetAttributes(1, &(int){CUDA_POINTER_TYPE}, &(void *){&type}, address)));
    row("  its type is right", "%s", type == CUDA_DEVICE_MEMORY ? "yes" : "no");
    row("  cuMemGetAddressRange", "%s", words(call.cuMemGetAddressRange_v2(&other, &size, address)));
    row("  cuIpcGetMemHandle", "%s", words(call.cuIpcGetMemHandle(&handle, address)));
    row("  cuMemCreate", "%s", words(call.cuMemCreate(&memory, 2 * MIB, &exportable, 0)));
    row("  cuMemAddressReserve", "%s", words(call.cuMemAddressReserve(&other, 2 * MIB, 0, 0, 0)));
}

/* Export --------------------------------------------------------------------------------------------------------- */

static void attributes(const char *what, cuda_address address)
{
    unsigned type = 0;
    int device = -1;
    cuda_context context = NULL;
    uint64_t managed = 0, named = 0, handles = 0;
    cuda_address start = 0, base = 0;
    size_t size = 0, length = 0;
    unsigned long long buffer = 0;
    struct cuda_ipc_handle handle;
    cuda_memory memory;
    int asked[] = {CUDA_POINTER_TYPE, CUDA_POINTER_DEVICE,  CUDA_POINTER_CONTEXT, CUDA_POINTER_MANAGED,
                   CUDA_POINTER_IPC,  CUDA_POINTER_HANDLES, CUDA_POINTER_START,   CUDA_POINTER_SIZE,
                   CUDA_POINTER_BUFFER};
    void *values[] = {&type, &device, &context, &managed, &named, &handles, &start, &size, &buffer};
    cuda_status status = call.cuPointerGetAttributes(9, asked, values, address + 4096);
    cuda_status ranged = call.cuMemGetAddressRange_v2(&base, &length, address + 4096);
    row(what, "%s: type %u, device %d, context %s, managed %d, name %d, handles %#llx, buffer %llu", words(status),
        type, device, context ? "yes" : "none", (int)managed, (int)named, (unsigned long long)handles, buffer);
    row("  its range by attributes", "starts %lld before, %zu bytes", (long long)(address + 4096 - start), size);
    row("  its range by cuMemGetAddressRange", "%s: starts %lld before, %zu bytes", words(ranged),
        (long long)(address + 4096 - base), length);
    row("  cuIpcGetMemHandle", "%s", words(call.cuIpcGetMemHandle(&handle, address)));
    row("  cuIpcGetMemHandle of an address in it", "%s", words(call.cuIpcGetMemHandle(&handle, address + 4096)));
    status = call.cuMemRetainAllocationHandle(&memory, (void *)(uintptr_t)(address + 4096));
    row("  cuMemRetainAllocationHandle of an address in it", "%s", words(status));
    if (status == CUDA_OK) {
        int fd = -1;
        status = call.cuMemExportToShareableHandle(&fd, memory, CUDA_DESCRIPTOR, 0);
        row("  cuMemExportToShareableHandle", "%s", words(status));
        call.cuMemRelease(memory);
    }
}

void exports(void)
{
    begin();
    cuda_address address;
    cuda_memory memory;
    size_t size;
    struct cuda_memory_kind hidden = exportable;
    hidden.handle_types = 0;
    NEED(cuMemAlloc_v2, &address, 4 * MIB);
    attributes("cuMemAlloc, 4 MiB", address);
    NEED(cuMemAlloc_v2, &address, 16384);
    attributes("cuMemAlloc, 16 KiB", address);
    if (more.cuMemAllocAsync && more.cuMemAllocAsync(&address, 4 * MIB, CUDA_STREAM_LEGACY) == CUDA_OK) {
        finish(CUDA_STREAM_LEGACY);
        attributes("cuMemAllocAsync, the default pool", address);
    } else
        row("cuMemAllocAsync", "not there");
    if (more.cuMemAllocManaged && more.cuMemAllocManaged(&address, 4 * MIB, 1) == CUDA_OK)
        attributes("cuMemAllocManaged", address);
    else
        row("cuMemAllocManaged", "not there");
    attributes("cuMemCreate with a descriptor", mapped(&exportable, &memory, &size));
    attributes("cuMemCreate without one", mapped(&hidden, &memory, &size));
}

struct offer {
    struct cuda_ipc_handle name;
    int fd;
    size_t size;
};

/* A named allocation with 1 in it, and physical memory with 2; serves until it is killed: 'f' frees the first. */
static void lend(int line)
{
    struct offer offer = {.fd = -1};
    cuda_memory memory;
    char order;
    begin();
    cuda_address named, twin;
    NEED(cuMemAlloc_v2, &named, 64 * MIB);
    fill(named, 1);
    need("the owner's cuIpcGetMemHandle", call.cuIpcGetMemHandle(&offer.name, named));
    row("cuIpcOpenMemHandle in the process that has made it", "%s",
        words(call.cuIpcOpenMemHandle_v2(&twin, offer.name, CUDA_IPC_PEER_ACCESS)));
    cuda_address physical = mapped(&exportable, &memory, &offer.size);
    fill(physical, 2);
    need("the owner's cuMemExportToShareableHandle",
         call.cuMemExportToShareableHandle(&offer.fd, memory, CUDA_DESCRIPTOR, 0));
    say(line, &offer, sizeof offer);
    while (hear(line, &order, 1)) {
        if (order == 'f')
            row("the owner's cuMemFree while it is imported", "%s", words(call.cuMemFree_v2(named)));
        if (order == 'c')
            row("the importer's bytes at the owner", "%s", check(named + MIB, 7));
        say(line, &order, 1);
    }
}

static void tell(struct peer peer, char order)
{
    say(peer.line, &order, 1);
    hear_or_end(peer.line, &order, 1);
}

static int descriptor_take(struct peer peer, int theirs)
{
    char path[64];
    int pidfd = (int)syscall(SYS_pidfd_open, peer.process, 0);
    int fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, theirs, 0);
    row("pidfd_getfd", "%s", fd < 0 ? strerror(errno) : "yes");
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)peer.process, theirs);
    int other = open(path, O_RDWR | O_CLOEXEC);
    row("/proc/PID/fd opens it, too", "%s", other < 0 ? strerror(errno) : "yes");
    return fd < 0 ? other : fd;
}

static cuda_address import_physical(struct peer peer, const struct offer *offer)
{
    cuda_memory memory;
    cuda_address address;
    int fd = descriptor_take(peer, offer->fd);
    need("cuMemImportFromShareableHandle",
         call.cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fd, CUDA_DESCRIPTOR));
    NEED(cuMemAddressReserve, &address, offer->size, 0, 0, 0);
    row("a mapping of twice its size is refused", "%s",
        call.cuMemMap(address, 2 * offer->size, 0, memory, 0) == CUDA_OK ? "no" : "yes");
    NEED(cuMemMap, address, offer->size, 0, memory, 0);
    NEED(cuMemSetAccess, address, offer->size, &everything, 1);
    call.cuMemRelease(memory);
    return address;
}

void imports(void)
{
    struct offer offer;
    struct peer peer = peer_start(lend);
    hear_or_end(peer.line, &offer, sizeof offer);
    begin();
    cuda_address first, second, start = 0, physical;
    size_t size = 0;
    NEED(cuIpcOpenMemHandle_v2, &first, offer.name, CUDA_IPC_PEER_ACCESS);
    row("the second opening of a name", "%s",
        words(call.cuIpcOpenMemHandle_v2(&second, offer.name, CUDA_IPC_PEER_ACCESS)));
    row("  has the same address", "%s", first == second ? "yes" : "no");
    cuda_status status = call.cuMemGetAddressRange_v2(&start, &size, first + 4096);
    row("  its range", "%s: starts %lld before, %zu bytes", words(status), (long long)(first + 4096 - start), size);
    row("  its bytes", "%s", check(first, 1));
    fill(first + MIB, 7);
    tell(peer, 'c');
    row("  closed once, its bytes", "%s, %s", words(call.cuIpcCloseMemHandle(first)), check(first, 1));
    cuda_address own;
    NEED(cuMemAlloc_v2, &own, 64 * MIB);
    speed("own memory into another process's, 8 B", first + 2 * MIB, own, 8);
    speed("own memory into another process's, 16 MiB", first + 2 * MIB, own, 16 * MIB);
    speed("own memory into another process's, 62 MiB", first + 2 * MIB, own, 62 * MIB);
    physical = import_physical(peer, &offer);
    row("physical memory of another process, its bytes", "%s", check(physical, 2));
    peer_kill(peer);
    row("the owner is killed: bytes of its physical memory", "%s", check(physical, 2));
    row("the owner is killed: bytes of its named allocation", "%s", check(first, 1));
    row("  cuIpcCloseMemHandle", "%s", words(call.cuIpcCloseMemHandle(first)));
    row("  cuIpcOpenMemHandle of its name", "%s",
        words(call.cuIpcOpenMemHandle_v2(&second, offer.name, CUDA_IPC_PEER_ACCESS)));
    row("  the context still works", "%s", check(physical, 2));
}

void freed_while_imported(void)
{
    struct offer offer;
    struct peer peer = peer_start(lend);
    hear_or_end(peer.line, &offer, sizeof offer);
    begin();
    cuda_address first;
    NEED(cuIpcOpenMemHandle_v2, &first, offer.name, CUDA_IPC_PEER_ACCESS);
    tell(peer, 'f');
    row("its bytes after the owner's cuMemFree", "%s", check(first, 1));
    row("  cuIpcCloseMemHandle", "%s", words(call.cuIpcCloseMemHandle(first)));
    peer_kill(peer);
}
