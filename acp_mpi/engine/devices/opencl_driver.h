/* The part of OpenCL that is used here, declared anew: no header and no package is needed to build. Names of functions,
 * argument orders and numbers are OpenCL's; types and constants have names of their own. The library is the loader of
 * drivers that the program has loaded already, such as that of pyopencl, or libOpenCL.so.1. */
#ifndef ACP_OPENCL_DRIVER_H
#define ACP_OPENCL_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t opencl_status;
typedef uint64_t opencl_flags;
typedef struct opencl_platform_object *opencl_platform;
typedef struct opencl_device_object *opencl_device_id;
typedef struct opencl_context_object *opencl_context;
typedef struct opencl_queue_object *opencl_queue;
typedef struct opencl_memory_object *opencl_memory;
typedef struct opencl_event_object *opencl_event;
typedef void (*opencl_context_notice)(const char *words, const void *data, size_t size, void *context);
typedef void (*opencl_memory_ended)(opencl_memory memory, void *data);
typedef void (*opencl_event_reached)(opencl_event event, opencl_status status, void *data);

/* ERROR(number, name) */
#define OPENCL_ERRORS(ERROR)                                                                                           \
    ERROR(-1, DEVICE_NOT_FOUND)                                                                                        \
    ERROR(-2, DEVICE_NOT_AVAILABLE)                                                                                    \
    ERROR(-4, MEM_OBJECT_ALLOCATION_FAILURE)                                                                           \
    ERROR(-5, OUT_OF_RESOURCES)                                                                                        \
    ERROR(-6, OUT_OF_HOST_MEMORY)                                                                                      \
    ERROR(-8, MEM_COPY_OVERLAP)                                                                                        \
    ERROR(-14, EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)                                                              \
    ERROR(-30, INVALID_VALUE)                                                                                          \
    ERROR(-33, INVALID_DEVICE)                                                                                         \
    ERROR(-34, INVALID_CONTEXT)                                                                                        \
    ERROR(-35, INVALID_QUEUE_PROPERTIES)                                                                               \
    ERROR(-36, INVALID_COMMAND_QUEUE)                                                                                  \
    ERROR(-38, INVALID_MEM_OBJECT)                                                                                     \
    ERROR(-57, INVALID_EVENT_WAIT_LIST)                                                                                \
    ERROR(-58, INVALID_EVENT)                                                                                          \
    ERROR(-59, INVALID_OPERATION)                                                                                      \
    ERROR(-61, INVALID_BUFFER_SIZE)                                                                                    \
    ERROR(-1001, PLATFORM_NOT_FOUND_KHR)

#define OPENCL_NUMBER_OF(number, name) OPENCL_##name = (number),
enum { OPENCL_OK = 0, OPENCL_ERRORS(OPENCL_NUMBER_OF) };

enum { OPENCL_COMPLETE = 0 }; /* status of an event; above: not yet; below: an error */
enum { OPENCL_BUFFER = 0x10f0 };
enum { /* of a device */
    OPENCL_DEVICE_TYPE = 0x1000,
    OPENCL_DEVICE_LARGEST = 0x1010,
    OPENCL_DEVICE_MEMORY = 0x101f,
    OPENCL_DEVICE_NAME = 0x102b,
    OPENCL_DEVICE_VENDOR = 0x102c,
    OPENCL_DEVICE_DRIVER = 0x102d,
    OPENCL_DEVICE_UUID = 0x106a,
};
enum { OPENCL_CONTEXT_DEVICES = 0x1081, OPENCL_QUEUE_CONTEXT = 0x1090 };
enum { /* of memory */
    OPENCL_MEMORY_TYPE = 0x1100,
    OPENCL_MEMORY_SIZE = 0x1102,
    OPENCL_MEMORY_CONTEXT = 0x1106,
    OPENCL_MEMORY_PARENT = 0x1107,
    OPENCL_MEMORY_OFFSET = 0x1108,
};
enum { OPENCL_EVENT_STATUS = 0x11d3, OPENCL_EVENT_CONTEXT = 0x11d4 };
#define OPENCL_ANY_DEVICE ((opencl_flags)0xffffffff)
#define OPENCL_PROCESSOR ((opencl_flags)1 << 1)      /* a type of device */
#define OPENCL_OUT_OF_ORDER ((opencl_flags)1 << 0)   /* a property of queues */
#define OPENCL_READ_WRITE ((opencl_flags)1 << 0)     /* of memory */
#define OPENCL_OVER_HOST ((opencl_flags)1 << 3)

/* CALL(result, name, arguments) of each function. */
#define OPENCL_CALLS(CALL)                                                                                             \
    CALL(opencl_status, clGetPlatformIDs, (uint32_t most, opencl_platform *platforms, uint32_t *count))                \
    CALL(opencl_status, clGetDeviceIDs,                                                                                \
         (opencl_platform platform, opencl_flags type, uint32_t most, opencl_device_id *devices, uint32_t *count))     \
    CALL(opencl_status, clGetDeviceInfo,                                                                               \
         (opencl_device_id device, uint32_t what, size_t most, void *value, size_t *size))                             \
    CALL(opencl_context, clCreateContext,                                                                              \
         (const intptr_t *properties, uint32_t count, const opencl_device_id *devices, opencl_context_notice notice,   \
          void *data, opencl_status *status))                                                                          \
    CALL(opencl_status, clRetainContext, (opencl_context context))                                                     \
    CALL(opencl_status, clReleaseContext, (opencl_context context))                                                    \
    CALL(opencl_status, clGetContextInfo,                                                                              \
         (opencl_context context, uint32_t what, size_t most, void *value, size_t *size))                              \
    CALL(opencl_queue, clCreateCommandQueue,                                                                           \
         (opencl_context context, opencl_device_id device, opencl_flags properties, opencl_status *status))            \
    CALL(opencl_status, clRetainCommandQueue, (opencl_queue queue))                                                    \
    CALL(opencl_status, clReleaseCommandQueue, (opencl_queue queue))                                                   \
    CALL(opencl_status, clGetCommandQueueInfo,                                                                         \
         (opencl_queue queue, uint32_t what, size_t most, void *value, size_t *size))                                  \
    CALL(opencl_memory, clCreateBuffer,                                                                                \
         (opencl_context context, opencl_flags flags, size_t size, void *host, opencl_status *status))                 \
    CALL(opencl_status, clRetainMemObject, (opencl_memory memory))                                                     \
    CALL(opencl_status, clReleaseMemObject, (opencl_memory memory))                                                    \
    CALL(opencl_status, clGetMemObjectInfo,                                                                            \
         (opencl_memory memory, uint32_t what, size_t most, void *value, size_t *size))                                \
    CALL(opencl_status, clSetMemObjectDestructorCallback,                                                              \
         (opencl_memory memory, opencl_memory_ended ended, void *data))                                                \
    CALL(opencl_status, clEnqueueCopyBuffer,                                                                           \
         (opencl_queue queue, opencl_memory from, opencl_memory to, size_t from_offset, size_t to_offset, size_t size, \
          uint32_t count, const opencl_event *behind, opencl_event *event))                                            \
    CALL(opencl_status, clEnqueueReadBuffer,                                                                           \
         (opencl_queue queue, opencl_memory from, uint32_t blocking, size_t offset, size_t size, void *to,             \
          uint32_t count, const opencl_event *behind, opencl_event *event))                                            \
    CALL(opencl_status, clEnqueueWriteBuffer,                                                                          \
         (opencl_queue queue, opencl_memory to, uint32_t blocking, size_t offset, size_t size, const void *from,       \
          uint32_t count, const opencl_event *behind, opencl_event *event))                                            \
    CALL(opencl_status, clEnqueueMarkerWithWaitList,                                                                   \
         (opencl_queue queue, uint32_t count, const opencl_event *behind, opencl_event *event))                        \
    CALL(opencl_status, clEnqueueBarrierWithWaitList,                                                                  \
         (opencl_queue queue, uint32_t count, const opencl_event *behind, opencl_event *event))                        \
    CALL(opencl_status, clWaitForEvents, (uint32_t count, const opencl_event *events))                                 \
    CALL(opencl_status, clGetEventInfo,                                                                                \
         (opencl_event event, uint32_t what, size_t most, void *value, size_t *size))                                  \
    CALL(opencl_status, clSetEventCallback,                                                                            \
         (opencl_event event, opencl_status status, opencl_event_reached reached, void *data))                         \
    CALL(opencl_status, clReleaseEvent, (opencl_event event))                                                          \
    CALL(opencl_status, clFlush, (opencl_queue queue))

#endif
