/* The kind of memory of NVIDIA's driver, with the stand-in for that driver, which is late, strict, and counts: devices,
 * contexts, memory, and calls that fail. */
#include "devices/conformance.h"
#include "devices/cuda_program.h"

#include <fcntl.h>
#include <pthread.h>

/* Devices and contexts ------------------------------------------------------------------------------------------- */

static void no_device(void)
{
    CHECK(kind->open(&state, &fault) == KIND_CANNOT && fault.number == CUDA_NO_DEVICE);
    CHECK(says("cuInit: CUDA_ERROR_NO_DEVICE"));
}

static void looking_makes_no_context(void)
{
    struct kind_device device;
    struct kind_event *event;
    const uint8_t unknown[16] = {1};
    atomic_int rings = 0;
    begin();
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(kind->list(state, i, &device, &fault) == KIND_OK && device.number == (int32_t)i);
        CHECK(strstr(device.name, "stand-in") && !device.active && !device.size);
        CHECK(!kind->active(state, device.device));
    }
    CHECK(kind->list(state, 2, &device, &fault) == KIND_CANNOT && !kind->active(state, unknown));
    CHECK(kind->mark(state, anywhere, 0, &event, &fault) == KIND_OK); /* nothing has been enqueued */
    CHECK(kind->test(state, event, &fault) == KIND_OK);
    CHECK(kind->mark(state, anywhere, 0, &event, &fault) == KIND_OK);
    CHECK(kind->follow(state, event, anywhere, 0, &fault) == KIND_OK);
    CHECK(kind->notify(state, event, count, &rings, &fault) == KIND_OK && rings == 1);
    CHECK(kind->wait(state, event, &fault) == KIND_OK && standin_contexts() == 0);
    program(1);
    CHECK(kind->list(state, 1, &device, &fault) == KIND_OK && device.active && device.size == 1 << 30);
    CHECK(device.free == device.size);
    CHECK(kind->active(state, device.device) && standin_contexts() == 1);
    struct kind_block block = allocated(anywhere, SIZE); /* where the program is */
    CHECK(block.place.number == 1 && standin_contexts() == 1);
    kind->release(state, &block);
    cuda_context other = program(0); /* on top of the first one */
    block = allocated(anywhere, SIZE);
    CHECK(block.place.number == 0);
    kind->release(state, &block);
    block = allocated((struct kind_place){.number = 0, .context = other}, SIZE);
    kind->release(state, &block);
    CHECK(kind->allocate(state, (struct kind_place){.number = 1, .context = other}, SIZE, &block, &fault) == KIND_CANNOT);
    CHECK(says("only the primary context"));
    program_end(0);
    CHECK(kind->allocate(state, (struct kind_place){.number = 2}, SIZE, &block, &fault) == KIND_CANNOT);
    CHECK(says("there is no device cuda:2; the driver has 2"));
    block = allocated(anywhere, SIZE); /* again on the other one */
    CHECK(block.place.number == 1);
    kind->release(state, &block);
    program_end(1);
    end();
}

static void *copy_in_a_thread(void *data)
{
    const struct kind_block *block = data;
    cuda_context current;
    put_byte(block, SIZE - 1, 9);
    CHECK(byte_at(block, SIZE - 1) == 9);
    CHECK(cuCtxPopCurrent_v2(&current) == CUDA_BAD_CONTEXT); /* as before */
    return NULL;
}

static void contexts_of_threads_stay_as_they_are(void)
{
    pthread_t thread;
    cuda_context current;
    begin();
    struct kind_block block = allocated((struct kind_place){.number = 1}, SIZE);
    CHECK(pthread_create(&thread, NULL, copy_in_a_thread, &block) == 0 && pthread_join(thread, NULL) == 0);
    cuda_context other = program(0);
    CHECK(byte_at(&block, SIZE - 1) == 9);
    OK(cuCtxPopCurrent_v2(&current));
    CHECK(current == other);
    OK(cuCtxPushCurrent_v2(current));
    program_end(0);
    kind->release(state, &block);
    end();
}

static void *device_memory(uint64_t size)
{
    return (void *)(uintptr_t)program_memory(size);
}

static void device_memory_free(void *memory)
{
    OK(cuMemFree_v2((uintptr_t)memory));
}

static void poke(void *memory, const void *bytes, uint64_t size)
{
    memcpy(standin_bytes((uintptr_t)memory), bytes, size);
}

static void peek(const void *memory, void *bytes, uint64_t size)
{
    memcpy(bytes, standin_bytes((uintptr_t)memory), size);
}

/* As all kinds do. */
static void it_does_what_the_engine_relies_on(void)
{
    const struct subject subject = {.kind = kind, .allocate = device_memory, .free = device_memory_free,
                                    .poke = poke, .peek = peek, .place = {.number = -1},
                                    .imports_own = true};
    program(0);
    conformance(&subject);
    program_end(0);
    CHECK(is_empty());
}

/* Memory --------------------------------------------------------------------------------------------------------- */

static void memory_is_had_as_the_device_allows(void)
{
    struct kind_block block, other;
    unsigned char bytes[SIZE], back[SIZE];
    struct kind_ticket ticket;
    int descriptor;
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 7);
    begin();
    block = allocated((struct kind_place){.number = 0}, SIZE);
    other = allocated((struct kind_place){.number = 0}, SIZE);
    copied(in_block(&block, 0), in_host(bytes), SIZE);
    copied(in_block(&other, 100), in_block(&block, 50), SIZE - 100);
    copied(in_host(back), in_block(&other, 100), SIZE - 100);
    CHECK(memcmp(back, bytes + 50, SIZE - 100) == 0);
    kind->release(state, &other);
    CHECK(kind->allocate(state, anywhere, (uint64_t)1 << 30, &other, &fault) == KIND_FULL);
    CHECK(fault.free >= 4 << 20 && fault.free < 8 << 20 && says("CUDA_ERROR_OUT_OF_MEMORY"));
    bool mapped = !getenv("FAKE_NO_FD") && !getenv("FAKE_NO_VMM");
    CHECK(kind->publish(state, &block, &ticket, &descriptor, &fault) == KIND_OK);
    CHECK(ticket.how == (mapped ? KIND_BY_DESCRIPTOR : KIND_BY_NAME) && (!mapped || close(descriptor) == 0));
    kind->release(state, &block);
    end();
}

static void arrays_of_the_program_share_their_block(void)
{
    struct kind_block block, other;
    char host;
    program(0);
    cuda_address memory = program_memory(SIZE);
    begin();
    block = adopted(memory + 300, 200);
    other = adopted(memory + SIZE - 8, 8);
    CHECK(block.base == memory && block.size == SIZE && block.offset == 300 && other.base == memory);
    kind->release(state, &other);
    put_byte(&block, block.offset, 3);
    CHECK(standin_bytes(memory)[300] == 3 && standin_bytes(memory)[0] == 0);
    CHECK(kind->adopt(state, anywhere, (uintptr_t)&host, 1, &other, &fault) == KIND_CANNOT);
    CHECK(says("the driver does not know the address"));
    kind->release(state, &block);
    CHECK(standin_bytes(memory)[300] == 3); /* it stays the program's */
    OK(cuMemFree_v2(memory));
    program_end(0);
    end();
}

static void memory_that_cannot_be_exported_says_why(void)
{
    struct kind_ticket ticket;
    int descriptor;
    program(0);
    cuda_address memory = program_memory(SIZE);
    begin();
    struct kind_block block = adopted(memory, SIZE);
    CHECK(kind->publish(state, &block, &ticket, &descriptor, &fault) == KIND_CANNOT);
    CHECK(ticket.how == KIND_BY_NOTHING && descriptor == -1 && says("cannot be exported"));
    CHECK(kind->import(state, &ticket, -1, &block, &fault) == KIND_CANNOT && says("does not export it"));
    kind->release(state, &block);
    OK(cuMemFree_v2(memory));
    program_end(0);
    end();
}

/* As PyTorch makes it with expandable segments: an array may lie in several pieces. */
static void an_array_over_several_pieces_is_copied_by_its_owner(void)
{
    const struct cuda_memory_kind exportable = {CUDA_PINNED, CUDA_DESCRIPTOR, {CUDA_ON_DEVICE, 0}, NULL, 0, 0, 0, {0}};
    const struct cuda_access access = {{CUDA_ON_DEVICE, 0}, CUDA_READ_WRITE};
    struct kind_ticket ticket;
    cuda_address address;
    cuda_memory memory;
    size_t granule;
    int descriptor;
    program(0);
    OK(cuMemGetAllocationGranularity(&granule, &exportable, 0));
    OK(cuMemAddressReserve(&address, 2 * granule, 0, 0, 0));
    for (size_t i = 0; i < 2; i++) {
        OK(cuMemCreate(&memory, granule, &exportable, 0));
        OK(cuMemMap(address + i * granule, granule, 0, memory, 0));
        OK(cuMemRelease(memory));
    }
    OK(cuMemSetAccess(address, 2 * granule, &access, 1));
    begin();
    struct kind_block block = adopted(address + 8, 100), both = adopted(address + granule - 50, 100);
    CHECK(block.size == granule && block.offset == 8);
    CHECK(kind->publish(state, &block, &ticket, &descriptor, &fault) == KIND_OK && ticket.how == KIND_BY_DESCRIPTOR);
    CHECK((size_t)1 << ticket.granule == granule && close(descriptor) == 0);
    CHECK(kind->publish(state, &both, &ticket, &descriptor, &fault) == KIND_CANNOT && says("several pieces"));
    put_byte(&both, both.offset + 99, 5);
    CHECK(standin_bytes(address + granule)[49] == 5);
    kind->release(state, &both);
    kind->release(state, &block);
    OK(cuMemUnmap(address, 2 * granule));
    OK(cuMemAddressFree(address, 2 * granule));
    program_end(0);
    end();
}

static void pinned_memory_has_an_address_for_kernels(void)
{
    uint64_t address;
    void *host = aligned_alloc(4096, 8192);
    CHECK(host);
    begin();
    CHECK(kind->pin(state, anywhere, host, 8192, &address, &fault) == KIND_CANNOT && says("no context"));
    struct kind_block block = allocated(anywhere, SIZE);
    CHECK(kind->pin(state, anywhere, host, 8192, &address, &fault) == KIND_OK && address == (uintptr_t)host);
    CHECK(kind->pin(state, anywhere, host, 8192, &address, &fault) == KIND_FAILED);
    kind->unpin(state, host);
    CHECK(kind->pin(state, anywhere, host, 8192, &address, &fault) == KIND_OK);
    kind->unpin(state, host);
    kind->release(state, &block);
    free(host);
    end();
}

/* Failures ------------------------------------------------------------------------------------------------------- */

/* All that an engine does with a block; returns whether all of it went well. */
static bool life_of_a_block(uint64_t size)
{
    struct kind_block block, twin;
    struct kind_ticket ticket;
    struct kind_event *event = NULL, *mark;
    static atomic_int rings; /* bells may ring until the kind is closed */
    uint64_t address;
    int descriptor = -1;
    void *host = aligned_alloc(4096, 4096);
    int rc = kind->allocate(state, anywhere, size, &block, &fault);
    if (rc != KIND_OK) {
        free(host);
        return false;
    }
    bool well = kind->pin(state, anywhere, host, 4096, &address, &fault) == KIND_OK;
    if (well)
        kind->unpin(state, host);
    rc = kind->mark(state, anywhere, 0, &mark, &fault);
    struct kind_copy copy = {in_block(&block, 0), in_block(&block, 8), 8, rc == KIND_OK ? mark : NULL};
    well &= rc == KIND_OK;
    rc = kind->copy(state, &copy, &event, &fault);
    well &= rc == KIND_OK;
    CHECK((rc == KIND_OK) == (event != NULL));
    if (event) {
        well &= kind->notify(state, event, count, &rings, &fault) == KIND_OK;
        well &= kind->follow(state, event, anywhere, 0, &fault) == KIND_OK;
        well &= kind->wait(state, event, &fault) == KIND_OK;
    }
    rc = kind->publish(state, &block, &ticket, &descriptor, &fault);
    CHECK(rc == KIND_OK || (rc == KIND_CANNOT && ticket.how == KIND_BY_NOTHING && fault.words[0]));
    well &= rc == KIND_OK;
    if (rc == KIND_OK && kind->import(state, &ticket, descriptor, &twin, &fault) == KIND_OK)
        kind->release(state, &twin);
    else
        well = false;
    if (descriptor >= 0)
        close(descriptor);
    rc = kind->adopt(state, anywhere, block.base + 8, 8, &twin, &fault);
    if (rc == KIND_OK)
        kind->release(state, &twin);
    kind->release(state, &block);
    free(host);
    return well && rc == KIND_OK;
}

/* Each call of the driver fails once, in each of its places: it is told, and nothing is left. */
static void a_call_that_fails_leaves_nothing(void)
{
    static const struct {
        const char *name;
        bool mended; /* done in another way then */
    } calls[] = {{"cuEventRecord", true},
                 {"cuEventSynchronize", true},
                 {"cuDevicePrimaryCtxRetain", false},
                 {"cuStreamCreateWithPriority", false},
                 {"cuStreamWaitEvent", false},
                 {"cuEventCreate", false},
                 {"cuLaunchHostFunc", false},
                 {"cuMemcpyAsync", false},
                 {"cuPointerGetAttributes", false},
                 {"cuMemGetAddressRange_v2", false},
                 {"cuMemAlloc_v2", false},
                 {"cuIpcGetMemHandle", false},
                 {"cuMemGetAllocationGranularity", false},
                 {"cuMemCreate", false},
                 {"cuMemAddressReserve", false},
                 {"cuMemMap", false},
                 {"cuMemSetAccess", false},
                 {"cuMemExportToShareableHandle", false},
                 {"cuMemImportFromShareableHandle", false},
                 {"cuMemRetainAllocationHandle", false},
                 {"cuMemHostRegister_v2", false},
                 {"cuMemHostGetDevicePointer_v2", false}};
    unsigned failures = 0;
    begin();
    CHECK(life_of_a_block(SIZE)); /* the driver's calls are good */
    end();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        for (unsigned after = 0;; after++) {
            begin();
            standin_fail(calls[i].name, after);
            bool well = life_of_a_block(SIZE);
            bool came = standin_fail(NULL, 0);
            end();
            if (!came)
                break;
            failures++;
            if (well && !calls[i].mended)
                fprintf(stderr, "%s failed after %u, and nobody heard of it\n", calls[i].name, after);
            CHECK(!well || calls[i].mended);
        }
    }
    CHECK(failures > 10); /* a copy may have to wait, or not */
}

static void a_driver_that_fails_at_once(void)
{
    static const char *const calls[] = {"cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetUuid_v2",
                                        "cuDeviceGetAttribute"};
    OK(cuInit(0));
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        standin_fail(calls[i], 0);
        CHECK(kind->open(&state, &fault) == KIND_CANNOT && says(calls[i]) && says("CUDA_ERROR_UNKNOWN"));
        CHECK(standin_fail(NULL, 0));
    }
}

int main(void)
{
    scene_play(no_device, "FAKE_DEVICES=0", NULL);
    scene_play(looking_makes_no_context, "FAKE_DEVICES=2 FAKE_NO_PEER=1", NULL);
    scene_play(contexts_of_threads_stay_as_they_are, "FAKE_DEVICES=2", NULL);
    /* Each setting of the stand-in by itself, and what goes together. FAKE_DEVICES=0 and FAKE_BREAK leave nothing that
     * could conform: no_device, and a_broken_context_fails_its_operations of test_cuda_order.c. */
    static const char *const drivers[] = {
        "", "FAKE_DEVICES=2", "FAKE_DEVICES=2 CUDA_VISIBLE_DEVICES=1", "FAKE_DEVICES=2 FAKE_NO_PEER=1",
        "FAKE_MEMORY=8388608", "FAKE_DELAY=0", "FAKE_DELAY=1000", "FAKE_SEED=3", "FAKE_NO_IPC=1", "FAKE_NO_FD=1",
        "FAKE_NO_VMM=1", "FAKE_NO_VMM=1 FAKE_NO_IPC=1", "FAKE_POOL=1", "FAKE_FRESH=1", "FAKE_LEAKS=1"};
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++)
        scene_play(it_does_what_the_engine_relies_on, drivers[i], NULL);
    scene_play(memory_is_had_as_the_device_allows, "FAKE_MEMORY=8388608", NULL);
    scene_play(memory_is_had_as_the_device_allows, "FAKE_MEMORY=8388608 FAKE_NO_FD=1", NULL);
    scene_play(memory_is_had_as_the_device_allows, "FAKE_MEMORY=8388608 FAKE_NO_VMM=1", NULL);
    scene_play(arrays_of_the_program_share_their_block, "", NULL);
    scene_play(memory_that_cannot_be_exported_says_why, "FAKE_POOL=1", NULL);
    scene_play(memory_that_cannot_be_exported_says_why, "FAKE_NO_IPC=1", NULL);
    scene_play(an_array_over_several_pieces_is_copied_by_its_owner, "", NULL);
    scene_play(pinned_memory_has_an_address_for_kernels, "", NULL);
    scene_play(a_call_that_fails_leaves_nothing, "FAKE_DELAY=0", NULL);
    scene_play(a_call_that_fails_leaves_nothing, "FAKE_DELAY=0 FAKE_NO_VMM=1", NULL);
    scene_play(a_driver_that_fails_at_once, "", NULL);
    return 0;
}
