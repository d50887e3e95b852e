/* The stand-in is as strict as it promises to be about memory that several processes have. */
#include "device/program.h"

/* Other processes ------------------------------------------------------------------------------------------------ */

/* Shares an allocation by its name, and frees it when the other has closed it. */
static void lend(int line)
{
    struct cuda_ipc_handle name;
    begin();
    cuda_address block = allocated(SIZE), twin;
    put_byte(block + 5000, 5, 100);
    CHECK(cuIpcGetMemHandle(&name, block + 8) == CUDA_BAD_VALUE);
    OK(cuIpcGetMemHandle(&name, block));
    CHECK(cuIpcOpenMemHandle_v2(&twin, name, CUDA_IPC_PEER_ACCESS) == CUDA_BAD_CONTEXT);
    scene_say(line, &name, sizeof name);
    scene_await(line);
    CHECK(byte_at(block + 6000) == 6);
    OK(cuMemFree_v2(block));
    scene_sign(line);
    end();
}

static void names_of_allocations(void)
{
    struct cuda_ipc_handle name;
    cuda_address first, second, third;
    struct scene_peer peer = scene_start(lend);
    scene_hear(peer.line, &name, sizeof name);
    begin();
    OK(cuIpcOpenMemHandle_v2(&first, name, CUDA_IPC_PEER_ACCESS));
    OK(cuIpcOpenMemHandle_v2(&second, name, CUDA_IPC_PEER_ACCESS));
    CHECK(first == second && standin_imports() == 1);
    CHECK(byte_at(first + 5099) == 5 && byte_at(first + 5100) == 0);
    put_byte(first + 6000, 6, 1);
    CHECK(cuIpcCloseMemHandle(first + 8) == CUDA_BAD_VALUE);
    OK(cuIpcCloseMemHandle(first));
    CHECK(byte_at(first + 5000) == 5); /* once more is open */
    OK(cuIpcCloseMemHandle(first));
    CHECK(cuIpcCloseMemHandle(first) == CUDA_BAD_VALUE && standin_imports() == 0);
    scene_sign(peer.line);
    scene_await(peer.line);
    CHECK(cuIpcOpenMemHandle_v2(&third, name, CUDA_IPC_PEER_ACCESS) == CUDA_MAP_FAILED); /* it has been freed */
    CHECK(scene_end(peer) == 0);
    CHECK(cuIpcOpenMemHandle_v2(&third, name, CUDA_IPC_PEER_ACCESS) == CUDA_MAP_FAILED); /* the owner is gone */
    end();
}

static void the_owner_is_killed(void)
{
    struct cuda_ipc_handle name;
    cuda_address address;
    struct scene_peer peer = scene_start(lend);
    scene_hear(peer.line, &name, sizeof name);
    begin();
    OK(cuIpcOpenMemHandle_v2(&address, name, CUDA_IPC_PEER_ACCESS));
    scene_kill(peer);
    OK(cuIpcCloseMemHandle(address));
    CHECK(cuIpcOpenMemHandle_v2(&address, name, CUDA_IPC_PEER_ACCESS) == CUDA_MAP_FAILED);
    end();
}

/* Frees what another process has open. */
static void lend_carelessly(int line)
{
    struct cuda_ipc_handle name;
    begin();
    cuda_address block = allocated(SIZE);
    OK(cuIpcGetMemHandle(&name, block));
    scene_say(line, &name, sizeof name);
    scene_await(line);
    cuMemFree_v2(block);
}

static void freed_before_it_is_closed(void)
{
    struct cuda_ipc_handle name;
    cuda_address address;
    struct scene_peer peer = scene_start(lend_carelessly); /* its complaint goes to where ours does */
    scene_hear(peer.line, &name, sizeof name);
    begin();
    OK(cuIpcOpenMemHandle_v2(&address, name, CUDA_IPC_PEER_ACCESS));
    scene_sign(peer.line);
    CHECK(WIFSIGNALED(scene_end(peer)));
    byte_at(address);
}

/* Borrows until it is killed. */
static void borrow(int line)
{
    struct cuda_ipc_handle name;
    cuda_address address;
    scene_hear(line, &name, sizeof name);
    begin();
    OK(cuIpcOpenMemHandle_v2(&address, name, CUDA_IPC_PEER_ACCESS));
    scene_sign(line);
    scene_await(line);
}

static void a_killed_importer_has_closed(void)
{
    struct cuda_ipc_handle name;
    struct scene_peer peer = scene_start(borrow);
    begin();
    cuda_address block = allocated(SIZE);
    OK(cuIpcGetMemHandle(&name, block));
    scene_say(peer.line, &name, sizeof name);
    scene_await(peer.line);
    CHECK(kill(peer.process, SIGKILL) == 0);
    OK(cuMemFree_v2(block)); /* while it may still be dying */
    CHECK(WIFSIGNALED(scene_end(peer)));
    end();
}

static void imports_are_left_open(void)
{
    struct cuda_ipc_handle name;
    cuda_address address;
    struct scene_peer peer = scene_start(lend);
    scene_hear(peer.line, &name, sizeof name);
    begin();
    OK(cuIpcOpenMemHandle_v2(&address, name, CUDA_IPC_PEER_ACCESS));
    scene_kill(peer);
}

static void nothing_has_a_name(void)
{
    struct cuda_ipc_handle name;
    bool named = true;
    begin();
    cuda_address block = allocated(SIZE);
    OK(cuPointerGetAttributes(1, &(int){CUDA_POINTER_IPC}, &(void *){&named}, block));
    CHECK(!named && cuIpcGetMemHandle(&name, block) != CUDA_OK);
    end();
}

/* Physical memory ------------------------------------------------------------------------------------------------ */

static const struct cuda_memory_kind exportable = {
    .type = CUDA_PINNED, .handle_types = CUDA_DESCRIPTOR, .location = {CUDA_ON_DEVICE, 0}};
static const struct cuda_access all_access = {{CUDA_ON_DEVICE, 0}, CUDA_READ_WRITE};

static cuda_address map_memory(cuda_memory memory, size_t size)
{
    cuda_address address;
    OK(cuMemAddressReserve(&address, size, 0, 0, 0));
    OK(cuMemMap(address, size, 0, memory, 0));
    OK(cuMemSetAccess(address, size, &all_access, 1));
    return address;
}

static void unmap_memory(cuda_address address, size_t size)
{
    OK(cuMemUnmap(address, size));
    OK(cuMemAddressFree(address, size));
}

static void physical_memory_and_addresses_are_apart(void)
{
    begin();
    size_t granule, size = 0;
    cuda_memory memory[2], other;
    cuda_address address, start;
    struct cuda_memory_kind kind;
    OK(cuMemGetAllocationGranularity(&granule, &exportable, 0));
    CHECK(granule == GRANULE && cuMemCreate(&other, granule + 4096, &exportable, 0) == CUDA_BAD_VALUE);
    for (int i = 0; i < 2; i++)
        OK(cuMemCreate(&memory[i], granule, &exportable, 0));
    OK(cuMemAddressReserve(&address, 2 * granule, 0, 0, 0));
    CHECK(cuMemcpyAsync(address, address + 8, 8, NULL) == CUDA_BAD_VALUE); /* nothing is there */
    for (int i = 0; i < 2; i++)
        OK(cuMemMap(address + (cuda_address)i * granule, granule, 0, memory[i], 0));
    CHECK(cuMemMap(address, granule, 0, memory[0], 0) == CUDA_BAD_VALUE);
    CHECK(cuMemcpyAsync(address, address + 8, 8, NULL) == CUDA_BAD_VALUE); /* nobody may */
    OK(cuMemSetAccess(address, 2 * granule, &all_access, 1));
    put_byte(address + granule - 8, 4, 16); /* over both pieces */
    CHECK(byte_at(address + granule - 1) == 4 && byte_at(address + granule) == 4);
    OK(cuMemRetainAllocationHandle(&other, (void *)(uintptr_t)(address + granule + 8)));
    CHECK(other == memory[1]);
    OK(cuMemRelease(other));
    OK(cuMemGetAllocationPropertiesFromHandle(&kind, memory[1]));
    CHECK(kind.handle_types == CUDA_DESCRIPTOR && kind.location.id == 0);
    OK(cuMemGetAddressRange_v2(&start, &size, address + granule + 8));
    CHECK(start == address + granule && size == granule);
    OK(cuMemRelease(memory[0])); /* it stays while it is mapped */
    CHECK(cuMemRelease(memory[0]) == CUDA_BAD_VALUE && byte_at(address + granule - 1) == 4);
    CHECK(cuMemAddressFree(address, 2 * granule) == CUDA_BAD_VALUE);
    CHECK(cuMemUnmap(address, granule / 2) == CUDA_BAD_VALUE);
    unmap_memory(address, 2 * granule);
    OK(cuMemRelease(memory[1]));
    end();
}

static void lend_physical(int line)
{
    cuda_memory memory;
    int fd;
    begin();
    OK(cuMemCreate(&memory, GRANULE, &exportable, 0));
    cuda_address address = map_memory(memory, GRANULE);
    put_byte(address, 8, 8);
    OK(cuMemExportToShareableHandle(&fd, memory, CUDA_DESCRIPTOR, 0));
    scene_say(line, &fd, sizeof fd);
    scene_await(line); /* until it is killed */
}

static void descriptors_outlive_their_process(void)
{
    int fd;
    char path[64];
    cuda_memory memory;
    struct scene_peer peer = scene_start(lend_physical);
    scene_hear(peer.line, &fd, sizeof fd);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)peer.process, fd);
    FILE *file = fopen(path, "r+"); /* as pidfd_getfd does where that is allowed */
    CHECK(file);
    begin();
    OK(cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)fileno(file), CUDA_DESCRIPTOR));
    fclose(file);
    cuda_address address = map_memory(memory, GRANULE);
    OK(cuMemRelease(memory));
    scene_kill(peer);
    CHECK(standin_imports() == 1 && byte_at(address) == 8);
    unmap_memory(address, GRANULE);
    CHECK(cuMemImportFromShareableHandle(&memory, (void *)(intptr_t)0, CUDA_DESCRIPTOR) == CUDA_BAD_VALUE);
    end();
}

static void there_are_no_descriptors(void)
{
    int has;
    cuda_memory memory;
    struct cuda_memory_kind private = exportable;
    private.handle_types = 0;
    begin();
    OK(cuDeviceGetAttribute(&has, CUDA_HAS_DESCRIPTORS, 0));
    CHECK(!has && cuMemCreate(&memory, GRANULE, &exportable, 0) == CUDA_NOT_SUPPORTED);
    OK(cuDeviceGetAttribute(&has, CUDA_HAS_MAPPED_MEMORY, 0));
    CHECK(has == (cuMemCreate(&memory, GRANULE, &private, 0) == CUDA_OK));
    if (has)
        OK(cuMemRelease(memory));
    end();
}

int main(void)
{
    scene_play(names_of_allocations, "", NULL);
    scene_play(the_owner_is_killed, "", NULL);
    scene_play(freed_before_it_is_closed, "", "is freed, and process");
    scene_play(freed_before_it_is_closed, "", "has freed");
    scene_play(a_killed_importer_has_closed, "", NULL);
    scene_play(imports_are_left_open, "", "ends with 1 imports open");
    scene_play(nothing_has_a_name, "FAKE_NO_IPC=1", NULL);
    scene_play(nothing_has_a_name, "FAKE_POOL=1", NULL);
    scene_play(physical_memory_and_addresses_are_apart, "", NULL);
    scene_play(descriptors_outlive_their_process, "", NULL);
    scene_play(there_are_no_descriptors, "FAKE_NO_FD=1", NULL);
    scene_play(there_are_no_descriptors, "FAKE_NO_VMM=1", NULL);
    return 0;
}
