/* The order of copies of the CUDA kind, with the stand-in for the driver. */
#include "devices/cuda_program.h"

#include <pthread.h>

enum { MANY = 16, THREADS = 4, ROUNDS = 40 };

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

/* Only one that waits is looked at later. */
static void a_copy_that_need_not_wait_has_one_event(void)
{
    begin();
    struct kind_block block = allocated(anywhere, SIZE);
    put_byte(&block, 0, 1);
    CHECK(byte_at(&block, 0) == 1 && standin_events() == 1);
    kind->release(state, &block);
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

int main(void)
{
    scene_play(copies_start_behind_what_the_program_has_enqueued, "", NULL);
    scene_play(many_copies_wait_and_each_goes_on, "FAKE_DELAY=20", NULL);
    scene_play(the_program_goes_on_behind_a_copy, "", NULL);
    scene_play(bells_ring_when_a_copy_is_done, "FAKE_DELAY=20", NULL);
    scene_play(threads_copy_at_the_same_time, "FAKE_DELAY=20", NULL);
    scene_play(lanes_are_used_again, "FAKE_DELAY=20", NULL);
    scene_play(a_copy_that_need_not_wait_has_one_event, "", NULL);
    scene_play(the_end_waits_for_bells, "FAKE_DELAY=20000", NULL);
    scene_play(copies_between_two_devices, "FAKE_DEVICES=2", NULL);
    scene_play(copies_between_two_devices, "FAKE_DEVICES=2 FAKE_NO_VMM=1", NULL);
    scene_play(a_broken_context_fails_its_operations, "FAKE_BREAK=2", NULL);
    return 0;
}
