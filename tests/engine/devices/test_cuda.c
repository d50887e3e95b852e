/* The kind of memory of NVIDIA's driver, with the stand-in for that driver, which is late, strict, and counts. */
#include "device/scene.h"
#include "devices/conformance.h"
#include "devices/cuda.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

enum { SIZE = 10000, MANY = 16, THREADS = 4, ROUNDS = 40 };

static const struct kind *const kind = &cuda_kind;
static const struct kind_place anywhere = {.number = -1};
static void *state;
static struct kind_fault fault;

static void begin(void)
{
    unsigned contexts = standin_contexts();
    CHECK(kind->open(&state, &fault) == KIND_OK && standin_contexts() == contexts);
}

static bool is_empty(void)
{
    return standin_contexts() == 0 && standin_streams() == 0 && standin_events() == 0 && standin_blocks() == 0 &&
           standin_reserved() == 0 && standin_imports() == 0;
}

/* Nothing is left of the kind, nor of the program. */
static void end(void)
{
    kind->close(state);
    CHECK(is_empty());
}

/* The program has a context on a device, and it is current. */
static cuda_context program(int device)
{
    cuda_context context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxPushCurrent_v2(context));
    return context;
}

static void program_end(int device)
{
    OK(cuCtxPopCurrent_v2(NULL));
    OK(cuDevicePrimaryCtxRelease_v2(device));
}

static cuda_address program_memory(size_t size)
{
    cuda_address address;
    OK(cuMemAlloc_v2(&address, size));
    return address;
}

static struct kind_block allocated(struct kind_place place, uint64_t size)
{
    struct kind_block block;
    CHECK(kind->allocate(state, place, size, &block, &fault) == KIND_OK && block.size >= size);
    return block;
}

static struct kind_block adopted(uint64_t address, uint64_t size)
{
    struct kind_block block;
    CHECK(kind->adopt(state, anywhere, address, size, &block, &fault) == KIND_OK);
    CHECK(block.base + block.offset == address);
    return block;
}

static struct kind_end in_block(const struct kind_block *block, uint64_t offset)
{
    return (struct kind_end){.block = block, .offset = offset};
}

static struct kind_end in_host(void *at)
{
    return (struct kind_end){.host = at};
}

static struct kind_event *started(struct kind_end to, struct kind_end from, uint64_t size, struct kind_event *behind)
{
    const struct kind_copy copy = {to, from, size, behind};
    struct kind_event *event;
    CHECK(kind->copy(state, &copy, &event, &fault) == KIND_OK && event);
    return event;
}

static void copied(struct kind_end to, struct kind_end from, uint64_t size)
{
    CHECK(kind->wait(state, started(to, from, size, NULL), &fault) == KIND_OK);
}

static void put_byte(const struct kind_block *block, uint64_t offset, unsigned char byte)
{
    copied(in_block(block, offset), in_host(&byte), 1);
}

static unsigned char byte_at(const struct kind_block *block, uint64_t offset)
{
    unsigned char byte;
    copied(in_host(&byte), in_block(block, offset), 1);
    return byte;
}

static struct kind_event *marked(uint64_t stream)
{
    struct kind_event *event;
    CHECK(kind->mark(state, anywhere, stream, &event, &fault) == KIND_OK);
    return event;
}

static bool says(const char *words)
{
    bool right = strstr(fault.words, words) != NULL;
    if (!right)
        fprintf(stderr, "words: %s\n", fault.words);
    return right;
}

static void count(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

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

/* Order ---------------------------------------------------------------------------------------------------------- */

static void copies_start_behind_what_the_program_has_enqueued(void)
{
    unsigned char one = 1, two = 2, got[2] = {0}, free_copy = 0;
    cuda_stream stream;
    program(0);
    cuda_address memory = program_memory(SIZE);
    begin();
    struct kind_block block = adopted(memory, SIZE);
    OK(cuStreamCreateWithPriority(&stream, CUDA_STREAM_NON_BLOCKING, 0));
    standin_hold(stream);
    standin_hold(CUDA_STREAM_DEFAULT);
    OK(cuMemcpyAsync(memory, (uintptr_t)&one, 1, CUDA_STREAM_DEFAULT));
    OK(cuMemcpyAsync(memory + 1, (uintptr_t)&two, 1, stream));
    struct kind_event *events[] = {
        started(in_host(&got[0]), in_block(&block, 0), 1, marked(0)),
        started(in_host(&got[1]), in_block(&block, 1), 1, marked((uint64_t)(uintptr_t)stream)),
    };
    copied(in_host(&free_copy), in_block(&block, 2), 1); /* which nothing holds up */
    standin_settle();
    for (int i = 0; i < 2; i++)
        CHECK(kind->test(state, events[i], &fault) == KIND_BUSY);
    standin_go_on(stream); /* one program's stream does not hold up the other's copy */
    CHECK(kind->wait(state, events[1], &fault) == KIND_OK && got[1] == 2);
    CHECK(kind->test(state, events[0], &fault) == KIND_BUSY && got[0] == 0);
    standin_go_on(CUDA_STREAM_DEFAULT);
    CHECK(kind->wait(state, events[0], &fault) == KIND_OK && got[0] == 1);
    OK(cuStreamDestroy_v2(stream));
    kind->release(state, &block);
    OK(cuMemFree_v2(memory));
    program_end(0);
    end();
}

/* With more copies than lanes, each of which waits for a stream of its own. */
static void many_copies_wait_and_each_goes_on(void)
{
    cuda_stream streams[MANY];
    struct kind_event *events[MANY];
    unsigned char bytes[MANY], got[MANY] = {0};
    program(0);
    cuda_address memory = program_memory(SIZE);
    begin();
    struct kind_block block = adopted(memory, SIZE);
    for (unsigned i = 0; i < MANY; i++) {
        bytes[i] = (unsigned char)(i + 1);
        OK(cuStreamCreateWithPriority(&streams[i], CUDA_STREAM_NON_BLOCKING, 0));
        standin_hold(streams[i]);
        OK(cuMemcpyAsync(memory + i, (uintptr_t)&bytes[i], 1, streams[i]));
        events[i] = started(in_host(&got[i]), in_block(&block, i), 1, marked((uint64_t)(uintptr_t)streams[i]));
    }
    for (unsigned i = 0; i < MANY; i++) {
        standin_go_on(streams[i]);
        CHECK(kind->wait(state, events[i], &fault) == KIND_OK && got[i] == bytes[i]);
        OK(cuStreamDestroy_v2(streams[i]));
    }
    kind->release(state, &block);
    OK(cuMemFree_v2(memory));
    program_end(0);
    end();
}

static void the_program_goes_on_behind_a_copy(void)
{
    unsigned char byte = 6, got = 0;
    cuda_stream before, after;
    cuda_event done;
    program(0);
    cuda_address memory = program_memory(SIZE);
    begin();
    struct kind_block block = adopted(memory, SIZE);
    OK(cuStreamCreateWithPriority(&before, CUDA_STREAM_NON_BLOCKING, 0));
    OK(cuStreamCreateWithPriority(&after, CUDA_STREAM_NON_BLOCKING, 0));
    OK(cuEventCreate(&done, CUDA_EVENT_NO_TIMING));
    standin_hold(before);
    OK(cuMemcpyAsync(memory, (uintptr_t)&byte, 1, before));
    struct kind_event *event =
        started(in_block(&block, 1), in_block(&block, 0), 1, marked((uint64_t)(uintptr_t)before));
    CHECK(kind->follow(state, event, anywhere, (uint64_t)(uintptr_t)after, &fault) == KIND_OK);
    OK(cuMemcpyAsync((uintptr_t)&got, memory + 1, 1, after));
    OK(cuEventRecord(done, after));
    standin_settle();
    CHECK(cuEventQuery(done) == CUDA_NOT_READY);
    standin_go_on(before);
    OK(cuEventSynchronize(done));
    CHECK(got == 6 && kind->wait(state, event, &fault) == KIND_OK);
    OK(cuEventDestroy_v2(done));
    OK(cuStreamDestroy_v2(before));
    OK(cuStreamDestroy_v2(after));
    kind->release(state, &block);
    OK(cuMemFree_v2(memory));
    program_end(0);
    end();
}

static void bells_ring_when_a_copy_is_done(void)
{
    atomic_int rings = 0;
    struct kind_event *events[MANY + 1];
    program(0);
    cuda_address memory = program_memory(SIZE);
    begin();
    struct kind_block block = adopted(memory, SIZE);
    standin_hold(CUDA_STREAM_DEFAULT);
    OK(cuMemcpyAsync(memory, memory + 8, 8, CUDA_STREAM_DEFAULT));
    for (uint64_t i = 0; i < MANY + 1; i++)
        events[i] = started(in_block(&block, 16 * i), in_block(&block, 5000), 8, marked(0));
    for (int i = MANY; i > 0; i--)
        CHECK(kind->notify(state, events[i], count, &rings, &fault) == KIND_OK);
    CHECK(kind->notify(state, events[0], count, &rings, &fault) == KIND_CANNOT && says("all bells"));
    standin_settle();
    CHECK(rings == 0);
    standin_go_on(CUDA_STREAM_DEFAULT);
    for (int i = 0; i < MANY + 1; i++)
        CHECK(kind->wait(state, events[i], &fault) == KIND_OK);
    standin_settle();
    CHECK(rings == MANY);
    struct kind_event *event = started(in_block(&block, 0), in_block(&block, 8), 8, NULL);
    CHECK(kind->notify(state, event, count, &rings, &fault) == KIND_OK);
    CHECK(kind->wait(state, event, &fault) == KIND_OK);
    kind->release(state, &block);
    OK(cuMemFree_v2(memory));
    program_end(0);
    end();
    CHECK(rings == MANY + 1); /* the end has waited for it */
}

static void *copy_often(void *data)
{
    const struct kind_block *block = data;
    atomic_int rings = 0;
    unsigned char bytes[64], back[64];
    static atomic_uint threads;
    uint64_t at = 1000 * (uint64_t)atomic_fetch_add(&threads, 1);
    for (unsigned i = 0; i < ROUNDS; i++) {
        memset(bytes, (int)(at / 1000 + i), sizeof bytes);
        struct kind_event *behind = started(in_block(block, at), in_host(bytes), sizeof bytes, marked(0));
        CHECK(kind->notify(state, behind, count, &rings, &fault) != KIND_FAILED);
        struct kind_event *event = started(in_host(back), in_block(block, at), sizeof back, behind);
        while (kind->test(state, event, &(struct kind_fault){0}) == KIND_BUSY)
            sched_yield();
        CHECK(memcmp(bytes, back, sizeof bytes) == 0);
    }
    standin_settle();
    return NULL;
}

static void threads_copy_at_the_same_time(void)
{
    pthread_t threads[THREADS];
    begin();
    struct kind_block block = allocated(anywhere, SIZE);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, copy_often, &block) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    kind->release(state, &block);
    end();
}

static void a_broken_context_fails_its_operations(void)
{
    begin();
    struct kind_block block = allocated(anywhere, SIZE);
    put_byte(&block, 0, 1);
    struct kind_event *event = started(in_block(&block, 0), in_block(&block, 8), 8, NULL);
    CHECK(kind->wait(state, event, &fault) == KIND_FAILED && fault.number == CUDA_BAD_ADDRESS);
    CHECK(says("CUDA_ERROR_ILLEGAL_ADDRESS"));
    const struct kind_copy copy = {in_block(&block, 0), in_block(&block, 8), 8, NULL};
    CHECK(kind->copy(state, &copy, &event, &fault) == KIND_FAILED && !event);
    kind->release(state, &block);
    kind->close(state);
}

/* Each waits, and the lane of the one before is free again. */
static void lanes_are_used_again(void)
{
    unsigned char byte = 1;
    program(0);
    cuda_address memory = program_memory(SIZE);
    begin();
    struct kind_block block = adopted(memory, SIZE);
    for (unsigned i = 0; i < MANY; i++) {
        standin_hold(CUDA_STREAM_DEFAULT);
        OK(cuMemcpyAsync(memory, (uintptr_t)&byte, 1, CUDA_STREAM_DEFAULT));
        struct kind_event *event = started(in_block(&block, 1), in_block(&block, 0), 1, marked(0));
        standin_go_on(CUDA_STREAM_DEFAULT);
        CHECK(kind->wait(state, event, &fault) == KIND_OK);
        standin_settle();
    }
    CHECK(standin_streams() == 1);
    kind->release(state, &block);
    OK(cuMemFree_v2(memory));
    program_end(0);
    end();
}

static void the_end_waits_for_bells(void)
{
    atomic_int rings = 0;
    program(0); /* whose context stays, with all streams in it that are not ended */
    begin();
    struct kind_block block = allocated(anywhere, SIZE);
    struct kind_event *event = started(in_block(&block, 0), in_block(&block, 8), 8, NULL);
    CHECK(kind->notify(state, event, count, &rings, &fault) == KIND_OK);
    CHECK(kind->wait(state, event, &fault) == KIND_OK);
    kind->release(state, &block);
    kind->close(state);
    CHECK(rings == 1 && standin_streams() == 0 && standin_events() == 0 && standin_contexts() == 1);
    program_end(0);
    CHECK(is_empty());
}

/* Mapped memory is reached by its own device; the usual one by all. */
static void copies_between_two_devices(void)
{
    struct kind_event *event;
    begin();
    struct kind_block one = allocated((struct kind_place){.number = 0}, SIZE);
    struct kind_block two = allocated((struct kind_place){.number = 1}, SIZE);
    const struct kind_copy copies[] = {{in_block(&one, 0), in_block(&two, 0), 8, NULL},
                                       {in_block(&two, 0), in_block(&one, 0), 8, NULL}};
    put_byte(&one, 0, 3);
    for (int i = 1; i >= 0; i--) {
        int rc = kind->copy(state, &copies[i], &event, &fault);
        CHECK(getenv("FAKE_NO_VMM") ? rc == KIND_OK && kind->wait(state, event, &fault) == KIND_OK
                                    : rc == KIND_CANNOT && !event && says("its own device"));
    }
    CHECK(byte_at(&two, 0) == (getenv("FAKE_NO_VMM") ? 3 : 0));
    kind->release(state, &one);
    kind->release(state, &two);
    end();
}

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

/* Other processes ------------------------------------------------------------------------------------------------ */

struct offer {
    struct kind_ticket ticket;
    uint64_t offset;
};

/* Has an array of 1000 bytes, all 5, in the middle of its memory, and lets others have it until they say so. */
static void lend(int line)
{
    struct offer offer;
    unsigned char bytes[1000];
    program(0);
    cuda_address memory = program_memory(SIZE);
    begin();
    struct kind_block own = allocated((struct kind_place){.number = 0}, SIZE), array = adopted(memory + 4000, 1000);
    int by_name = getenv("BY_DESCRIPTOR") == NULL, descriptor;
    const struct kind_block *block = by_name ? &array : &own;
    memset(bytes, 5, sizeof bytes);
    copied(in_block(block, 4000), in_host(bytes), sizeof bytes);
    CHECK(kind->publish(state, block, &offer.ticket, &descriptor, &fault) == KIND_OK);
    CHECK(offer.ticket.how == (by_name ? KIND_BY_NAME : KIND_BY_DESCRIPTOR) && by_name == (descriptor < 0));
    offer.ticket.descriptor = descriptor;
    offer.offset = 4000;
    scene_say(line, &offer, sizeof offer);
    scene_await(line);
    CHECK(byte_at(block, 4007) == 7 && byte_at(block, 4008) == 5);
    kind->release(state, &own);
    kind->release(state, &array);
    if (descriptor >= 0)
        close(descriptor);
    OK(cuMemFree_v2(memory));
    program_end(0);
    end();
}

static struct scene_peer lender(struct offer *offer)
{
    struct scene_peer peer = scene_start(lend);
    scene_hear(peer.line, offer, sizeof *offer);
    return peer;
}

static int import(struct scene_peer peer, const struct kind_ticket *ticket, struct kind_block *block)
{
    char path[64];
    int descriptor = -1;
    if (ticket->how == KIND_BY_DESCRIPTOR) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)peer.process, ticket->descriptor);
        CHECK((descriptor = open(path, O_RDWR | O_CLOEXEC)) >= 0);
    }
    int rc = kind->import(state, ticket, descriptor, block, &fault);
    if (descriptor >= 0)
        close(descriptor);
    return rc;
}

/* On the device of that number, which may be another one than the lender's. */
static void imported(int device)
{
    struct offer offer;
    struct kind_block first, second;
    struct scene_peer peer = lender(&offer);
    begin();
    CHECK(!kind->active(state, offer.ticket.device));
    CHECK(import(peer, &offer.ticket, &first) == KIND_CANNOT && says("no context"));
    program(device);
    CHECK(kind->active(state, offer.ticket.device));
    CHECK(import(peer, &offer.ticket, &first) == KIND_OK && import(peer, &offer.ticket, &second) == KIND_OK);
    CHECK(first.size == offer.ticket.size && memcmp(first.device, offer.ticket.device, 16) == 0);
    CHECK(standin_contexts() == 1 && standin_imports());
    CHECK(byte_at(&first, offer.offset) == 5 && byte_at(&first, offer.offset - 1) == 0);
    kind->release(state, &first);
    CHECK(byte_at(&second, offer.offset + 999) == 5); /* it is open as long as one of them is */
    put_byte(&second, offer.offset + 7, 7);
    kind->release(state, &second);
    CHECK(standin_imports() == 0);
    scene_sign(peer.line);
    CHECK(scene_end(peer) == 0);
    CHECK(offer.ticket.how == KIND_BY_DESCRIPTOR || import(peer, &offer.ticket, &first) == KIND_CANNOT);
    program_end(device);
    end();
}

static void peers_map_each_others_memory(void)
{
    imported(0);
}

static void a_device_maps_memory_of_another_one(void)
{
    imported(1);
}

static void a_device_without_a_path_does_not(void)
{
    struct offer offer;
    struct kind_block block;
    struct scene_peer peer = lender(&offer);
    begin();
    program(1);
    CHECK(!kind->active(state, offer.ticket.device) && import(peer, &offer.ticket, &block) == KIND_CANNOT);
    scene_kill(peer);
    program_end(1);
    end();
}

static void an_import_outlives_its_owner(void)
{
    struct offer offer;
    struct kind_block block;
    struct scene_peer peer = lender(&offer);
    begin();
    program(0);
    CHECK(import(peer, &offer.ticket, &block) == KIND_OK);
    scene_kill(peer);
    if (offer.ticket.how == KIND_BY_DESCRIPTOR)
        CHECK(byte_at(&block, offer.offset) == 5);
    kind->release(state, &block);
    program_end(0);
    end();
}

static void blocks_of_this_process_are_imported_as_they_are(void)
{
    struct kind_ticket ticket;
    struct kind_block twin;
    int descriptor;
    program(0);
    cuda_address memory = program_memory(SIZE);
    begin();
    struct kind_block block = adopted(memory + 100, 8);
    CHECK(kind->publish(state, &block, &ticket, &descriptor, &fault) == KIND_OK && ticket.how == KIND_BY_NAME);
    CHECK(kind->import(state, &ticket, -1, &twin, &fault) == KIND_OK && twin.base == memory);
    put_byte(&twin, 100, 4);
    CHECK(byte_at(&block, 100) == 4);
    kind->release(state, &twin);
    kind->release(state, &block);
    OK(cuMemFree_v2(memory));
    program_end(0);
    end();
}

static void wrong_tickets_are_refused(void)
{
    struct offer offer;
    struct kind_block block;
    struct scene_peer peer = lender(&offer);
    begin();
    program(0);
    struct kind_ticket good = offer.ticket, bad = good;
    bad.size *= 2;
    CHECK(import(peer, &bad, &block) == KIND_CANNOT);
    bad = good;
    bad.size += 1;
    CHECK(import(peer, &bad, &block) == KIND_CANNOT);
    bad = good;
    bad.granule = 200;
    CHECK(good.how == KIND_BY_NAME || import(peer, &bad, &block) == KIND_CANNOT);
    bad = good;
    memset(bad.name, 0xa5, sizeof bad.name);
    CHECK(good.how == KIND_BY_DESCRIPTOR || import(peer, &bad, &block) == KIND_CANNOT);
    bad = good;
    memset(bad.device, 0xa5, sizeof bad.device);
    CHECK(import(peer, &bad, &block) == KIND_CANNOT);
    bad = good;
    bad.how = 17;
    CHECK(import(peer, &bad, &block) == KIND_CANNOT);
    int other = open("/dev/null", O_RDWR | O_CLOEXEC);
    CHECK(good.how == KIND_BY_NAME || kind->import(state, &good, other, &block, &fault) == KIND_CANNOT);
    close(other);
    CHECK(standin_imports() == 0);
    scene_kill(peer);
    program_end(0);
    end();
}

int main(void)
{
    scene_play(no_device, "FAKE_DEVICES=0", NULL);
    scene_play(looking_makes_no_context, "FAKE_DEVICES=2 FAKE_NO_PEER=1", NULL);
    scene_play(contexts_of_threads_stay_as_they_are, "FAKE_DEVICES=2", NULL);
    const char *drivers[] = {"", "FAKE_NO_FD=1", "FAKE_NO_VMM=1 FAKE_NO_IPC=1", "FAKE_DEVICES=2 FAKE_SEED=3"};
    for (int i = 0; i < 4; i++)
        scene_play(it_does_what_the_engine_relies_on, drivers[i], NULL);
    scene_play(memory_is_had_as_the_device_allows, "FAKE_MEMORY=8388608", NULL);
    scene_play(memory_is_had_as_the_device_allows, "FAKE_MEMORY=8388608 FAKE_NO_FD=1", NULL);
    scene_play(memory_is_had_as_the_device_allows, "FAKE_MEMORY=8388608 FAKE_NO_VMM=1", NULL);
    scene_play(arrays_of_the_program_share_their_block, "", NULL);
    scene_play(memory_that_cannot_be_exported_says_why, "FAKE_POOL=1", NULL);
    scene_play(memory_that_cannot_be_exported_says_why, "FAKE_NO_IPC=1", NULL);
    scene_play(an_array_over_several_pieces_is_copied_by_its_owner, "", NULL);
    scene_play(pinned_memory_has_an_address_for_kernels, "", NULL);
    scene_play(copies_start_behind_what_the_program_has_enqueued, "", NULL);
    scene_play(many_copies_wait_and_each_goes_on, "FAKE_DELAY=20", NULL);
    scene_play(the_program_goes_on_behind_a_copy, "", NULL);
    scene_play(bells_ring_when_a_copy_is_done, "FAKE_DELAY=20", NULL);
    scene_play(threads_copy_at_the_same_time, "FAKE_DELAY=20", NULL);
    scene_play(lanes_are_used_again, "FAKE_DELAY=20", NULL);
    scene_play(the_end_waits_for_bells, "FAKE_DELAY=20000", NULL);
    scene_play(copies_between_two_devices, "FAKE_DEVICES=2", NULL);
    scene_play(copies_between_two_devices, "FAKE_DEVICES=2 FAKE_NO_VMM=1", NULL);
    scene_play(a_call_that_fails_leaves_nothing, "FAKE_DELAY=0", NULL);
    scene_play(a_call_that_fails_leaves_nothing, "FAKE_DELAY=0 FAKE_NO_VMM=1", NULL);
    scene_play(a_driver_that_fails_at_once, "", NULL);
    scene_play(a_broken_context_fails_its_operations, "FAKE_BREAK=2", NULL);
    const char *ways[] = {"", "BY_DESCRIPTOR=1"};
    for (int i = 0; i < 2; i++) {
        scene_play(peers_map_each_others_memory, ways[i], NULL);
        scene_play(an_import_outlives_its_owner, ways[i], NULL);
        scene_play(wrong_tickets_are_refused, ways[i], NULL);
    }
    scene_play(a_device_maps_memory_of_another_one, "FAKE_DEVICES=2", NULL);
    scene_play(a_device_maps_memory_of_another_one, "FAKE_DEVICES=2 BY_DESCRIPTOR=1", NULL);
    scene_play(a_device_without_a_path_does_not, "FAKE_DEVICES=2 FAKE_NO_PEER=1", NULL);
    scene_play(blocks_of_this_process_are_imported_as_they_are, "", NULL);
    return 0;
}
