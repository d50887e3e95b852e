/* The kind of memory of OpenCL, with a driver that is installed here; without one there is nothing to test. */
#include "devices/conformance.h"
#include "devices/opencl.h"
#include "devices/opencl_memory.h"

#include <dlfcn.h>
#include <sys/mman.h>

#define OK(call) CHECK((call) == OPENCL_OK)
#define SIZE ((uint64_t)100000)
#define REFERENCES 0x1080 /* of a context */

static const struct kind *const kind = &opencl_kind;
static struct opencl *state;
static struct kind_fault fault;

/* The program: a context, a queue, and what the kind does not call. */
static opencl_context context;
static opencl_queue queue;
static opencl_memory buffer;
static opencl_memory (*part_of)(opencl_memory, opencl_flags, uint32_t, const size_t *, opencl_status *);
static opencl_event (*event_new)(opencl_context, opencl_status *);
static opencl_status (*event_set)(opencl_event, opencl_status);

static void symbol(void *function, const char *name)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW), *found = library ? dlsym(library, name) : NULL;
    CHECK(found);
    memcpy(function, &found, sizeof found);
}

static void program_begin(void)
{
    opencl_status status;
    context = state->call.clCreateContext(NULL, 1, &state->devices[0].id, NULL, NULL, &status);
    OK(status);
    queue = state->call.clCreateCommandQueue(context, state->devices[0].id, 0, &status);
    OK(status);
    symbol(&part_of, "clCreateSubBuffer");
    symbol(&event_new, "clCreateUserEvent");
    symbol(&event_set, "clSetUserEventStatus");
}

static uint32_t references(void)
{
    uint32_t count = 0;
    OK(state->call.clGetContextInfo(context, REFERENCES, sizeof count, &count, NULL));
    return count;
}

/* A driver gives back what ended commands have held some time after their events. */
static void references_become(uint32_t count)
{
    while (references() != count)
        usleep(1000);
}

static void *buffer_new(uint64_t size)
{
    opencl_status status;
    buffer = state->call.clCreateBuffer(context, OPENCL_READ_WRITE, size, NULL, &status);
    OK(status);
    return buffer;
}

static void buffer_free(void *memory)
{
    OK(state->call.clReleaseMemObject(memory));
}

static size_t place_in(const void *memory)
{
    return (size_t)((const unsigned char *)memory - (const unsigned char *)buffer);
}

static void buffer_write(void *memory, const void *bytes, uint64_t size)
{
    OK(state->call.clEnqueueWriteBuffer(queue, buffer, 1, place_in(memory), size, bytes, 0, NULL, NULL));
}

static void buffer_read(const void *memory, void *bytes, uint64_t size)
{
    OK(state->call.clEnqueueReadBuffer(queue, buffer, 1, place_in(memory), size, bytes, 0, NULL, NULL));
}

static struct subject subject = {.kind = &opencl_kind, .allocate = buffer_new, .free = buffer_free,
                                       .poke = buffer_write, .peek = buffer_read, .imports_own = true};

/* A device whose memory the processor does not reach: all copies are commands, and no block is exported. */
static void far_conformance(void)
{
    void *far;
    SUBJECT_OK(kind->open(&far, &fault));
    for (uint32_t i = 0; i < ((struct opencl *)far)->count; i++)
        ((struct opencl *)far)->devices[i].shares = false;
    conformance_copies(&subject, far);
    conformance_events(&subject, far);
    conformance_exports(&subject, far);
    conformance_threads(&subject, far);
    kind->close(far);
}

static struct kind_block allocated(struct kind_place place, uint64_t size)
{
    struct kind_block block;
    SUBJECT_OK(kind->allocate(state, place, size, &block, &fault));
    return block;
}

static struct kind_block adopted(opencl_memory memory, uint64_t size, uint64_t stream)
{
    struct kind_block block;
    SUBJECT_OK(kind->adopt(state, (struct kind_place){.stream = stream}, (uint64_t)(uintptr_t)memory, size, &block, &fault));
    return block;
}

static unsigned char byte_of(const struct kind_block *block, uint64_t offset)
{
    unsigned char byte = 0;
    conformance_copy(kind, state, conformance_end(NULL, 0, &byte), conformance_end(block, offset, NULL), 1, NULL);
    return byte;
}

static void byte_set(const struct kind_block *block, uint64_t offset, unsigned char byte)
{
    conformance_copy(kind, state, conformance_end(block, offset, NULL), conformance_end(NULL, 0, &byte), 1, NULL);
}

/* A context of the program is kept for as long as a block of it is here, and so is a queue. */
static void contexts_are_given_back(void)
{
    uint32_t before = references();
    struct kind_block one = allocated((struct kind_place){.context = context, .stream = (uint64_t)(uintptr_t)queue}, SIZE);
    struct kind_block two = adopted(buffer_new(SIZE), SIZE, 0);
    CHECK(one.place.context == context && two.place.context == context && one.place.stream && !two.place.stream);
    CHECK(kind->active(state, one.device));
    kind->release(state, &one);
    CHECK(kind->active(state, two.device));
    kind->release(state, &two);
    buffer_free(buffer);
    CHECK(!kind->active(state, two.device));
    references_become(before);
    CHECK(kind->allocate(state, (struct kind_place){.number = 64}, SIZE, &one, &fault) == KIND_CANNOT);
    CHECK(strstr(fault.words, "no device opencl:64"));
    int rc = kind->allocate(state, (struct kind_place){0}, (uint64_t)1 << 50, &one, &fault);
    CHECK(rc == KIND_FULL && fault.free && strstr(fault.words, "INVALID_BUFFER_SIZE"));
}

/* A part of a buffer is a place in the whole. */
static void parts_are_places(void)
{
    const size_t region[2] = {4096, 8192};
    opencl_status status;
    opencl_memory part = part_of(buffer_new(SIZE), OPENCL_READ_WRITE, 0x1220, region, &status);
    OK(status);
    struct kind_block whole = adopted(buffer, SIZE, 0), block = adopted(part, 8192, 0);
    CHECK(block.base == whole.base && block.size == SIZE && block.offset == 4096);
    byte_set(&whole, 5000, 42);
    CHECK(byte_of(&block, block.offset + 904) == 42);
    kind->release(state, &whole);
    CHECK(kind->adopt(state, (struct kind_place){0}, (uint64_t)(uintptr_t)part, SIZE, &whole, &fault) == KIND_CANNOT);
    kind->release(state, &block);
    buffer_free(part);
    buffer_free(buffer);
}

/* Of two contexts a copy is made if the processor has the bytes of one; else it is refused, and what it was to wait for
 * is still there. */
static void contexts_share_by_the_processor(void)
{
    struct kind_block mine = allocated((struct kind_place){0}, SIZE), theirs = adopted(buffer_new(SIZE), SIZE, 0);
    struct kind_event *event;
    struct kind_copy copy = {.to = {&mine, 0, NULL}, .from = {&theirs, 0, NULL}, .size = SIZE};
    CHECK(mine.place.context != theirs.place.context);
    byte_set(&theirs, SIZE - 1, 7);
    if (((struct opencl_block *)mine.own)->host) {
        conformance_copy(kind, state, copy.to, copy.from, SIZE, NULL);
        CHECK(byte_of(&mine, SIZE - 1) == 7);
        byte_set(&mine, 0, 8);
        conformance_copy(kind, state, copy.from, copy.to, SIZE, NULL);
        CHECK(byte_of(&theirs, 0) == 8);
    }
    bool shares = state->devices[0].shares;
    kind->release(state, &mine);
    state->devices[0].shares = false;
    mine = allocated((struct kind_place){0}, SIZE);
    SUBJECT_OK(kind->mark(state, theirs.place, (uint64_t)(uintptr_t)queue, &copy.behind, &fault));
    CHECK(kind->copy(state, &copy, &event, &fault) == KIND_CANNOT && strstr(fault.words, "two contexts"));
    unsigned char bytes[8];
    struct kind_copy other = {.to = {.host = bytes}, .from = {&mine, 0, NULL}, .size = 8};
    opencl_status status;
    opencl_event gate = event_new(context, &status);
    OK(status);
    SUBJECT_OK(kind->wait(state, copy.behind, &fault));
    OK(state->call.clEnqueueBarrierWithWaitList(queue, 1, &gate, NULL));
    SUBJECT_OK(kind->mark(state, theirs.place, (uint64_t)(uintptr_t)queue, &other.behind, &fault));
    CHECK(kind->copy(state, &other, &event, &fault) == KIND_CANNOT && strstr(fault.words, "another context"));
    OK(event_set(gate, OPENCL_COMPLETE));
    SUBJECT_OK(kind->wait(state, other.behind, &fault));
    OK(state->call.clReleaseEvent(gate));
    state->devices[0].shares = shares;
    kind->release(state, &mine);
    kind->release(state, &theirs);
    buffer_free(buffer);
}

/* Behind a queue that stands still, named or the block's own, nothing moves; what need not wait is not held up. */
static void copies_stand_behind_queues(void)
{
    uint64_t number = (uint64_t)(uintptr_t)queue;
    for (int i = 0; i < 2; i++) {
        struct kind_place place = {.context = context, .stream = i ? number : 0};
        struct kind_block block = allocated(place, SIZE), other = allocated(place, SIZE);
        unsigned char byte = 5;
        _Atomic int rings = 0;
        struct kind_event *event;
        struct kind_copy copy = {.to = {&block, 9, NULL}, .from = {.host = &byte}, .size = 1};
        opencl_status status;
        opencl_event gate = event_new(context, &status);
        OK(status);
        byte_set(&block, 9, 1);
        OK(state->call.clEnqueueBarrierWithWaitList(queue, 1, &gate, NULL));
        SUBJECT_OK(kind->mark(state, block.place, i ? 0 : number, &copy.behind, &fault));
        SUBJECT_OK(kind->copy(state, &copy, &event, &fault));
        CHECK(kind->test(state, event, &fault) == KIND_BUSY);
        SUBJECT_OK(kind->notify(state, event, conformance_ring, &rings, &fault));
        byte_set(&other, 0, 77); /* the engine's queue is not the one that stands */
        CHECK(byte_of(&other, 0) == 77 && byte_of(&block, 9) == 1 && rings == 0);
        OK(event_set(gate, OPENCL_COMPLETE));
        SUBJECT_OK(kind->wait(state, event, &fault));
        CHECK(byte_of(&block, 9) == 5);
        while (!rings)
            sched_yield();
        CHECK(rings == 1);
        OK(state->call.clReleaseEvent(gate));
        kind->release(state, &block);
        kind->release(state, &other);
    }
    struct kind_event *event;
    CHECK(kind->mark(state, (struct kind_place){0}, 2, &event, &fault) == KIND_FAILED);
    CHECK(strstr(fault.words, "INVALID_COMMAND_QUEUE"));
}

static opencl_status failed(opencl_event event, uint32_t what, size_t size, void *value, size_t *out)
{
    const opencl_status status = -5;
    (void)event, (void)what, (void)out;
    CHECK(size == sizeof status);
    memcpy(value, &status, sizeof status);
    return 0;
}

/* A driver that says so of a command; PoCL has none that fails. */
static void a_command_that_fails_is_told(void)
{
    enum { LONG = 3 << 20 }; /* not copied by the processor at once */
    static unsigned char bytes[LONG];
    struct kind_block block = allocated((struct kind_place){.context = context}, LONG);
    struct kind_copy copy = {.to = {&block, 0, NULL}, .from = {.host = bytes}, .size = LONG};
    struct kind_event *event;
    SUBJECT_OK(kind->copy(state, &copy, &event, &fault));
    __typeof__(state->call.clGetEventInfo) asked = state->call.clGetEventInfo;
    state->call.clGetEventInfo = failed;
    CHECK(kind->test(state, event, &fault) == KIND_FAILED && fault.number == -5 && strstr(fault.words, "a command"));
    state->call.clGetEventInfo = asked;
    kind->release(state, &block);
}

/* An import lies over the same bytes; its file is looked at; the memory stays while anybody has a buffer over it. */
static void imports_lie_over_the_same_bytes(void)
{
    struct kind_block block = allocated((struct kind_place){0}, SIZE), imported;
    struct kind_ticket ticket;
    int descriptor;
    if (kind->publish(state, &block, &ticket, &descriptor, &fault) != KIND_OK) {
        printf("test_opencl: the processor does not share memory with %s\n", state->devices[0].name);
        kind->release(state, &block);
        return;
    }
    CHECK(ticket.size == block.size && block.size % 4096 == 0 && block.size >= SIZE);
    SUBJECT_OK(kind->import(state, &ticket, descriptor, &imported, &fault));
    CHECK(imported.base != block.base);
    byte_set(&imported, 99999, 3);
    CHECK(byte_of(&block, 99999) == 3);
    opencl_memory kept = (opencl_memory)(uintptr_t)imported.base;
    OK(state->call.clRetainMemObject(kept));
    kind->release(state, &block);
    kind->release(state, &imported);
    unsigned char byte = 0;
    block = adopted(kept, SIZE, 0);
    CHECK(byte_of(&block, 99999) == 3);
    CHECK(kind->publish(state, &block, &ticket, &(int){0}, &fault) == KIND_CANNOT); /* it is the program's now */
    kind->release(state, &block);
    OK(state->call.clReleaseMemObject(kept));
    int loose = memfd_create("loose", 0);
    CHECK(loose >= 0 && ftruncate(loose, (off_t)ticket.size) == 0 && byte == 0);
    CHECK(kind->import(state, &ticket, loose, &imported, &fault) == KIND_CANNOT); /* it could be made shorter */
    CHECK(kind->import(state, &ticket, -1, &imported, &fault) == KIND_CANNOT);
    close(loose);
    close(descriptor);
}

int main(void)
{
    void *opened = NULL;
    if (kind->open(&opened, &fault) != KIND_OK) {
        printf("test_opencl: skipped: %s\n", fault.words);
        return 0;
    }
    state = opened;
    program_begin();
    subject.place.context = context;
    contexts_are_given_back();
    conformance(&subject);
    far_conformance();
    parts_are_places();
    contexts_share_by_the_processor();
    copies_stand_behind_queues();
    a_command_that_fails_is_told();
    imports_lie_over_the_same_bytes();
    OK(state->call.clReleaseCommandQueue(queue));
    references_become(1);
    OK(state->call.clReleaseContext(context));
    kind->close(state);
    return 0;
}
