/* The stand-in for the driver is as strict as it promises to be about contexts, memory and streams. */
#include "device/program.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

/* Contexts ------------------------------------------------------------------------------------------------------- */

static void *call_without_context(void *data)
{
    (void)data;
    cuda_address address;
    CHECK(cuMemAlloc_v2(&address, SIZE) == CUDA_BAD_CONTEXT);
    return NULL;
}

static void contexts_are_those_of_the_thread(void)
{
    unsigned flags;
    int active, count;
    cuda_address address;
    cuda_context first, second, popped;
    CHECK(cuDeviceGetCount(&count) == CUDA_NOT_INITIALIZED);
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    CHECK(count == 2);
    OK(cuDevicePrimaryCtxGetState(1, &flags, &active));
    CHECK(!active && cuDevicePrimaryCtxRetain(&first, 2) == CUDA_BAD_DEVICE);
    CHECK(cuMemAlloc_v2(&address, SIZE) == CUDA_BAD_CONTEXT);
    OK(cuDevicePrimaryCtxRetain(&first, 0));
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent_v2(first));
    cuda_stream stream = stream_of_its_own();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, call_without_context, NULL) == 0 && pthread_join(thread, NULL) == 0);
    OK(cuCtxPushCurrent_v2(second));
    address = allocated(SIZE);
    CHECK(cuMemcpyAsync(address, address + 8, 8, stream) == CUDA_BAD_CONTEXT);
    cuda_event event = recorded(CUDA_STREAM_DEFAULT);
    OK(cuCtxPopCurrent_v2(&popped));
    CHECK(popped == second && cuEventRecord(event, stream) == CUDA_BAD_HANDLE);
    OK(cuStreamWaitEvent(stream, event, 0)); /* of another device: that is allowed */
    OK(cuEventDestroy_v2(event));
    OK(cuDevicePrimaryCtxRelease_v2(1));
    CHECK(cuCtxPushCurrent_v2(second) == CUDA_CONTEXT_DESTROYED);
    CHECK(cuDevicePrimaryCtxRelease_v2(1) == CUDA_BAD_CONTEXT);
    end();
    CHECK(cuCtxPopCurrent_v2(&popped) == CUDA_BAD_CONTEXT);
}

static void devices_are_counted_by_each_process(void)
{
    struct cuda_uuid first, second;
    int count, can;
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    OK(cuDeviceGetUuid_v2(&first, 0));
    OK(cuDeviceGetUuid_v2(&second, 1));
    CHECK(count == 2 && first.bytes[15] == 3 && second.bytes[15] == 1);
    OK(cuDeviceCanAccessPeer(&can, 0, 1));
    CHECK(!can);
}

static void no_device(void)
{
    const char *name;
    CHECK(cuInit(0) == CUDA_NO_DEVICE);
    OK(cuGetErrorName(CUDA_NO_DEVICE, &name));
    CHECK(strcmp(name, "CUDA_ERROR_NO_DEVICE") == 0);
}

static void use_after_fork(int line)
{
    int count;
    (void)line;
    CHECK(cuDeviceGetCount(&count) == CUDA_NOT_INITIALIZED && cuInit(0) == CUDA_NOT_INITIALIZED);
    _exit(0);
}

static void a_child_has_no_driver(void)
{
    begin();
    CHECK(scene_end(scene_start(use_after_fork)) == 0);
    end();
}

/* Memory --------------------------------------------------------------------------------------------------------- */

static void the_processor_reaches_no_device_memory(void)
{
    begin();
    cuda_address address = allocated(SIZE);
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)(uintptr_t)address, 1};
    CHECK(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == -1 && errno == EFAULT);
    put_byte(address + 4000, 7, 4000);
    CHECK(byte_at(address + 3999) == 0 && byte_at(address + 4000) == 7 && byte_at(address + SIZE - 1) == 7);
    CHECK(standin_bytes(address)[4000] == 7);
    CHECK(cuMemcpyAsync(address + 1, host(&byte), SIZE, NULL) == CUDA_BAD_VALUE);
    size_t left, total;
    OK(cuMemGetInfo_v2(&left, &total));
    CHECK(total == 1 << 20 && left == total - SIZE);
    cuda_address other;
    CHECK(cuMemAlloc_v2(&other, left + 1) == CUDA_NO_MEMORY && cuMemFree_v2(address + 1) == CUDA_BAD_VALUE);
    OK(cuMemFree_v2(address));
    CHECK(allocated(SIZE) == address); /* as the driver does, whose addresses come again */
    CHECK(byte_at(address + 4000) == 0);
    end();
}

static void attributes_tell_what_an_address_is(void)
{
    cuda_context context = begin();
    cuda_address address = allocated(SIZE), start = 1;
    char *pages = aligned_alloc(4096, 8192);
    CHECK(pages);
    unsigned type = 0;
    unsigned long long buffer = 0, later = 0;
    int device = -1;
    size_t size = 0;
    bool named = false;
    cuda_context its = NULL;
    int asked[] = {CUDA_POINTER_TYPE,  CUDA_POINTER_BUFFER, CUDA_POINTER_DEVICE, CUDA_POINTER_IPC,
                   CUDA_POINTER_START, CUDA_POINTER_SIZE,   CUDA_POINTER_CONTEXT};
    void *values[] = {&type, &buffer, &device, &named, &start, &size, &its};
    OK(cuPointerGetAttributes(7, asked, values, address + 100));
    CHECK(type == CUDA_DEVICE_MEMORY && buffer && device == 0 && named && its == context);
    CHECK(start == address && size == SIZE);
    OK(cuMemGetAddressRange_v2(&start, &size, address + SIZE - 1));
    CHECK(start == address && size == SIZE);
    CHECK(cuMemGetAddressRange_v2(&start, &size, host(pages)) == CUDA_NOT_FOUND);
    OK(cuMemFree_v2(address));
    CHECK(allocated(SIZE) == address);
    OK(cuPointerGetAttributes(1, &(int){CUDA_POINTER_BUFFER}, &(void *){&later}, address));
    CHECK(later != buffer);
    OK(cuPointerGetAttributes(7, asked, values, host(pages)));
    CHECK(type == 0 && buffer == 0 && !named);

    cuda_address mapped;
    CHECK(cuMemHostGetDevicePointer_v2(&mapped, pages, 0) == CUDA_BAD_VALUE);
    OK(cuMemHostRegister_v2(pages, 8192, CUDA_HOST_MAPPED));
    CHECK(cuMemHostRegister_v2(pages + 4096, 4096, CUDA_HOST_MAPPED) == CUDA_ALREADY_REGISTERED);
    OK(cuMemHostGetDevicePointer_v2(&mapped, pages + 8, 0));
    CHECK(mapped == host(pages + 8));
    OK(cuPointerGetAttributes(1, asked, values, mapped));
    CHECK(type == CUDA_HOST_MEMORY);
    put_byte(mapped, 3, 8);
    CHECK(pages[8] == 3);
    OK(cuMemHostUnregister(pages));
    CHECK(cuMemHostUnregister(pages) == CUDA_NOT_REGISTERED);
    free(pages);
    end();
}

static void use_of_freed_memory(void)
{
    begin();
    cuda_address address = allocated(SIZE);
    OK(cuMemFree_v2(address));
    cuMemcpyAsync(address, address + 8, 8, NULL);
}

static void free_under_a_copy(void)
{
    begin();
    cuda_address address = allocated(SIZE);
    standin_hold(CUDA_STREAM_DEFAULT);
    OK(cuMemcpyAsync(address, address + 8, 8, NULL));
    OK(cuMemFree_v2(address));
    CHECK(allocated(SIZE) == address); /* the same address, and other memory */
    standin_go_on(CUDA_STREAM_DEFAULT);
    finish(CUDA_STREAM_DEFAULT);
}

/* Streams -------------------------------------------------------------------------------------------------------- */

static void streams_keep_their_order_and_are_late(void)
{
    begin();
    cuda_address address = allocated(SIZE);
    cuda_stream stream = stream_of_its_own();
    unsigned char bytes[] = {1, 2, 3}, after = 0;
    standin_hold(stream);
    for (int i = 0; i < 3; i++)
        OK(cuMemcpyAsync(address, host(&bytes[i]), 1, stream));
    OK(cuMemcpyAsync(host(&after), address, 1, stream));
    cuda_event event = recorded(stream);
    bytes[2] = 9; /* not read yet */
    standin_settle();
    CHECK(cuEventQuery(event) == CUDA_NOT_READY && byte_at(address) == 0);
    standin_go_on(stream);
    OK(cuEventSynchronize(event));
    CHECK(after == 9);
    OK(cuEventDestroy_v2(event));
    OK(cuStreamDestroy_v2(stream));
    CHECK(cuStreamDestroy_v2(stream) == CUDA_BAD_HANDLE || true); /* it may not exist any more */
    end();
}

static void the_legacy_stream_waits_for_blocking_streams_and_they_for_it(void)
{
    begin();
    cuda_address address = allocated(SIZE);
    cuda_stream blocking, free_stream = stream_of_its_own();
    OK(cuStreamCreateWithPriority(&blocking, 0, 0));
    unsigned char one = 1, two = 2, three = 3;
    standin_hold(blocking);
    OK(cuMemcpyAsync(address, host(&one), 1, blocking));
    OK(cuMemcpyAsync(address + 1, address, 1, CUDA_STREAM_LEGACY)); /* behind it */
    OK(cuMemcpyAsync(address + 2, host(&two), 1, CUDA_STREAM_PER_THREAD)); /* behind that */
    OK(cuMemcpyAsync(address + 3, host(&three), 1, free_stream));
    standin_settle();
    unsigned char *bytes = standin_bytes(address);
    CHECK(bytes[0] == 0 && bytes[1] == 0 && bytes[2] == 0 && bytes[3] == 3);
    standin_go_on(blocking);
    finish(CUDA_STREAM_PER_THREAD);
    CHECK(bytes[0] == 1 && bytes[1] == 1 && bytes[2] == 2);
    end();
}

static void a_stream_waits_for_the_recording_of_an_event_that_it_has_seen(void)
{
    begin();
    cuda_stream first = stream_of_its_own(), second = stream_of_its_own();
    cuda_event event = recorded(first); /* at once */
    OK(cuEventSynchronize(event));
    standin_hold(first);
    OK(cuEventRecord(event, first));
    CHECK(cuEventQuery(event) == CUDA_NOT_READY);
    OK(cuStreamWaitEvent(second, event, 0));
    OK(cuEventRecord(event, CUDA_STREAM_DEFAULT)); /* another recording, which the second stream does not know */
    OK(cuEventSynchronize(event));
    cuda_event behind = recorded(second);
    standin_settle();
    CHECK(cuEventQuery(behind) == CUDA_NOT_READY);
    standin_go_on(first);
    OK(cuEventSynchronize(behind));
    OK(cuEventDestroy_v2(behind));
    CHECK(cuEventQuery(behind) == CUDA_BAD_HANDLE);
    OK(cuEventDestroy_v2(event));
    end();
}

static void count(void *data)
{
    atomic_fetch_add((atomic_int *)data, 1);
}

static void host_functions_run_in_the_order_of_the_stream(void)
{
    begin();
    atomic_int calls = 0;
    standin_hold(CUDA_STREAM_DEFAULT);
    OK(cuLaunchHostFunc(CUDA_STREAM_DEFAULT, count, &calls));
    standin_settle();
    CHECK(calls == 0);
    standin_go_on(CUDA_STREAM_DEFAULT);
    finish(CUDA_STREAM_DEFAULT);
    CHECK(calls == 1);
    end();
}

static void call_driver(void *data)
{
    cuEventQuery(data);
}

static void a_host_function_calls_the_driver(void)
{
    begin();
    OK(cuLaunchHostFunc(CUDA_STREAM_DEFAULT, call_driver, NULL));
    finish(CUDA_STREAM_DEFAULT);
}

static void a_broken_context_refuses_everything(void)
{
    begin();
    cuda_address address = allocated(SIZE);
    put_byte(address, 1, 8);
    OK(cuMemcpyAsync(address, address + 8, 8, CUDA_STREAM_DEFAULT));
    standin_settle();
    CHECK(cuMemcpyAsync(address, address + 8, 8, CUDA_STREAM_DEFAULT) == CUDA_BAD_ADDRESS);
    CHECK(cuMemAlloc_v2(&address, 8) == CUDA_BAD_ADDRESS);
    OK(cuCtxPopCurrent_v2(NULL));
    OK(cuDevicePrimaryCtxRelease_v2(0));
}

int main(void)
{
    scene_play(contexts_are_those_of_the_thread, "FAKE_DEVICES=2", NULL);
    scene_play(devices_are_counted_by_each_process, "FAKE_DEVICES=4 CUDA_VISIBLE_DEVICES=2,0,9,1 FAKE_NO_PEER=1", NULL);
    scene_play(no_device, "FAKE_DEVICES=0", NULL);
    scene_play(a_child_has_no_driver, "", NULL);
    scene_play(the_processor_reaches_no_device_memory, "FAKE_MEMORY=1048576", NULL);
    scene_play(attributes_tell_what_an_address_is, "", NULL);
    scene_play(use_of_freed_memory, "FAKE_FRESH=1", "device memory that has been freed");
    scene_play(free_under_a_copy, "", "was freed before a copy had run");
    scene_play(streams_keep_their_order_and_are_late, "", NULL);
    scene_play(the_legacy_stream_waits_for_blocking_streams_and_they_for_it, "FAKE_SEED=7", NULL);
    scene_play(a_stream_waits_for_the_recording_of_an_event_that_it_has_seen, "FAKE_DELAY=0", NULL);
    scene_play(host_functions_run_in_the_order_of_the_stream, "", NULL);
    scene_play(a_host_function_calls_the_driver, "", "cuEventQuery is called by a host function");
    scene_play(a_broken_context_refuses_everything, "FAKE_BREAK=2", NULL);
    return 0;
}
