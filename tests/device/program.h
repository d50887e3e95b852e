/* A program that uses the first device by the driver's calls. */
#ifndef ACP_PROGRAM_H
#define ACP_PROGRAM_H

#include "device/scene.h"

enum { SIZE = 8000, GRANULE = 2 << 20 };

static inline cuda_context begin(void)
{
    cuda_context context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxPushCurrent_v2(context));
    return context;
}

/* Leaves nothing: the thread sanitizer and the report of leaks see that. */
static inline void end(void)
{
    OK(cuCtxPopCurrent_v2(NULL));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    CHECK(standin_contexts() == 0 && standin_blocks() == 0 && standin_imports() == 0);
}

static inline cuda_address allocated(size_t size)
{
    cuda_address address;
    OK(cuMemAlloc_v2(&address, size));
    return address;
}

static inline cuda_stream stream_of_its_own(void)
{
    cuda_stream stream;
    OK(cuStreamCreateWithPriority(&stream, CUDA_STREAM_NON_BLOCKING, -100));
    return stream;
}

static inline cuda_event recorded(cuda_stream stream)
{
    cuda_event event;
    OK(cuEventCreate(&event, CUDA_EVENT_NO_TIMING));
    OK(cuEventRecord(event, stream));
    return event;
}

/* Returns when the stream has done what it has. */
static inline void finish(cuda_stream stream)
{
    cuda_event event = recorded(stream);
    OK(cuEventSynchronize(event));
    OK(cuEventQuery(event));
    OK(cuEventDestroy_v2(event));
}

static inline cuda_address host(const void *at)
{
    return (cuda_address)(uintptr_t)at;
}

static inline void put_byte(cuda_address to, unsigned char byte, size_t size)
{
    unsigned char *bytes = malloc(size);
    CHECK(bytes);
    memset(bytes, byte, size);
    OK(cuMemcpyAsync(to, host(bytes), size, CUDA_STREAM_DEFAULT));
    finish(CUDA_STREAM_DEFAULT);
    free(bytes);
}

static inline unsigned char byte_at(cuda_address from)
{
    unsigned char byte;
    OK(cuMemcpyAsync(host(&byte), from, 1, CUDA_STREAM_DEFAULT));
    finish(CUDA_STREAM_DEFAULT);
    return byte;
}

#endif
