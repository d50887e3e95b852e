/* The part of NVIDIA's driver interface that is used here, declared anew: neither a toolkit nor a wheel is needed to
 * build. Names, argument orders and numbers are the driver's; types and constants have names of their own, so that
 * tests/device/check_declarations.c can compare both. The library is libcuda.so.1, loaded by `dlopen`. */
#ifndef ACP_CUDA_DRIVER_H
#define ACP_CUDA_DRIVER_H

#include <stddef.h>

typedef int cuda_status;
typedef int cuda_attribute, cuda_pointer_attribute, cuda_granularity, cuda_handle_type; /* enumerations there */
typedef int cuda_device;                 /* an ordinal of this process */
typedef unsigned long long cuda_address; /* of device memory, or of the host's: one address space */
typedef unsigned long long cuda_memory;  /* physical memory, which may be mapped or not */
typedef struct cuda_context *cuda_context;
typedef struct cuda_stream *cuda_stream;
typedef struct cuda_event *cuda_event;
typedef void (*cuda_host_function)(void *);

struct cuda_uuid { unsigned char bytes[16]; };
struct cuda_ipc_handle { char bytes[64]; };
struct cuda_location { int type, id; };
struct cuda_memory_kind { /* the properties of physical memory */
    int type, handle_types;
    struct cuda_location location;
    void *security;
    unsigned char compression, direct_rdma;
    unsigned short usage;
    unsigned char unused[4];
};
struct cuda_access { struct cuda_location location; int flags; };

enum {
    CUDA_OK = 0,
    CUDA_BAD_VALUE = 1,
    CUDA_NO_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_NO_DEVICE = 100,
    CUDA_BAD_DEVICE = 101,
    CUDA_BAD_CONTEXT = 201,
    CUDA_MAP_FAILED = 205,
    CUDA_NO_PEER_ACCESS = 217,
    CUDA_BAD_HANDLE = 400,
    CUDA_BAD_STATE = 401,
    CUDA_NOT_FOUND = 500,
    CUDA_NOT_READY = 600,
    CUDA_BAD_ADDRESS = 700,
    CUDA_CONTEXT_DESTROYED = 709,
    CUDA_ALREADY_REGISTERED = 712,
    CUDA_NOT_REGISTERED = 713,
    CUDA_NOT_PERMITTED = 800,
    CUDA_NOT_SUPPORTED = 801,
};
enum { CUDA_HAS_UNIFIED_ADDRESSES = 41, CUDA_HAS_MAPPED_MEMORY = 102, CUDA_HAS_DESCRIPTORS = 103 }; /* attributes */
enum { CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_NO_TIMING = 2, CUDA_IPC_PEER_ACCESS = 1 };
enum { CUDA_PINNED = 1, CUDA_ON_DEVICE = 1, CUDA_DESCRIPTOR = 1, CUDA_READ = 1, CUDA_READ_WRITE = 3 };
enum { CUDA_HOST_PORTABLE = 1, CUDA_HOST_MAPPED = 2 };
enum { CUDA_HOST_MEMORY = 1, CUDA_DEVICE_MEMORY = 2 }; /* of CUDA_POINTER_TYPE */
enum {                                                 /* attributes of addresses */
    CUDA_POINTER_CONTEXT = 1,
    CUDA_POINTER_TYPE = 2,
    CUDA_POINTER_BUFFER = 7, /* a number of the allocation that none before had */
    CUDA_POINTER_MANAGED = 8,
    CUDA_POINTER_DEVICE = 9,
    CUDA_POINTER_IPC = 10, /* whether cuIpcGetMemHandle takes it */
    CUDA_POINTER_START = 11,
    CUDA_POINTER_SIZE = 12,
    CUDA_POINTER_HANDLES = 14, /* the types of handle that its memory was created with */
};
/* Three streams have no object. */
#define CUDA_STREAM_DEFAULT ((cuda_stream)0)
#define CUDA_STREAM_LEGACY ((cuda_stream)1)
#define CUDA_STREAM_PER_THREAD ((cuda_stream)2)

/* CALL(name, arguments) of each function; all return a status. */
#define CUDA_CALLS(CALL)                                                                                               \
    CALL(cuInit, (unsigned flags))                                                                                     \
    CALL(cuDriverGetVersion, (int *version))                                                                           \
    CALL(cuGetErrorName, (cuda_status status, const char **name))                                                      \
    CALL(cuDeviceGetCount, (int *count))                                                                               \
    CALL(cuDeviceGet, (cuda_device *device, int ordinal))                                                              \
    CALL(cuDeviceGetName, (char *name, int size, cuda_device device))                                                  \
    CALL(cuDeviceGetUuid_v2, (struct cuda_uuid *uuid, cuda_device device))                                             \
    CALL(cuDeviceGetAttribute, (int *value, cuda_attribute attribute, cuda_device device))                             \
    CALL(cuDeviceCanAccessPeer, (int *can, cuda_device device, cuda_device peer))                                      \
    CALL(cuDevicePrimaryCtxGetState, (cuda_device device, unsigned *flags, int *active))                               \
    CALL(cuDevicePrimaryCtxRetain, (cuda_context *context, cuda_device device))                                        \
    CALL(cuDevicePrimaryCtxRelease_v2, (cuda_device device))                                                           \
    CALL(cuCtxPushCurrent_v2, (cuda_context context))                                                                  \
    CALL(cuCtxPopCurrent_v2, (cuda_context *context))                                                                  \
    CALL(cuStreamCreateWithPriority, (cuda_stream *stream, unsigned flags, int priority))                              \
    CALL(cuStreamDestroy_v2, (cuda_stream stream))                                                                     \
    CALL(cuStreamWaitEvent, (cuda_stream stream, cuda_event event, unsigned flags))                                    \
    CALL(cuEventCreate, (cuda_event *event, unsigned flags))                                                           \
    CALL(cuEventRecord, (cuda_event event, cuda_stream stream))                                                        \
    CALL(cuEventQuery, (cuda_event event))                                                                             \
    CALL(cuEventSynchronize, (cuda_event event))                                                                       \
    CALL(cuEventDestroy_v2, (cuda_event event))                                                                        \
    CALL(cuLaunchHostFunc, (cuda_stream stream, cuda_host_function function, void *data))                              \
    CALL(cuMemcpyAsync, (cuda_address to, cuda_address from, size_t size, cuda_stream stream))                         \
    CALL(cuPointerGetAttributes,                                                                                       \
         (unsigned count, cuda_pointer_attribute *attributes, void **values, cuda_address address))                    \
    CALL(cuMemGetAddressRange_v2, (cuda_address *start, size_t *size, cuda_address address))                           \
    CALL(cuMemGetInfo_v2, (size_t *free, size_t *total))                                                               \
    CALL(cuMemAlloc_v2, (cuda_address *address, size_t size))                                                          \
    CALL(cuMemFree_v2, (cuda_address address))                                                                         \
    CALL(cuIpcGetMemHandle, (struct cuda_ipc_handle *handle, cuda_address address))                                    \
    CALL(cuIpcOpenMemHandle_v2, (cuda_address *address, struct cuda_ipc_handle handle, unsigned flags))                \
    CALL(cuIpcCloseMemHandle, (cuda_address address))                                                                  \
    CALL(cuMemGetAllocationGranularity, (size_t *size, const struct cuda_memory_kind *kind, cuda_granularity option))  \
    CALL(cuMemCreate,                                                                                                  \
         (cuda_memory *memory, size_t size, const struct cuda_memory_kind *kind, unsigned long long flags))            \
    CALL(cuMemRelease, (cuda_memory memory))                                                                           \
    CALL(cuMemAddressReserve,                                                                                          \
         (cuda_address *address, size_t size, size_t alignment, cuda_address wish, unsigned long long flags))          \
    CALL(cuMemAddressFree, (cuda_address address, size_t size))                                                        \
    CALL(cuMemMap, (cuda_address address, size_t size, size_t offset, cuda_memory memory, unsigned long long flags))   \
    CALL(cuMemUnmap, (cuda_address address, size_t size))                                                              \
    CALL(cuMemSetAccess, (cuda_address address, size_t size, const struct cuda_access *access, size_t count))          \
    CALL(cuMemExportToShareableHandle,                                                                                 \
         (void *handle, cuda_memory memory, cuda_handle_type type, unsigned long long flags))                          \
    CALL(cuMemImportFromShareableHandle, (cuda_memory *memory, void *handle, cuda_handle_type type))                   \
    CALL(cuMemRetainAllocationHandle, (cuda_memory *memory, void *address))                                            \
    CALL(cuMemGetAllocationPropertiesFromHandle, (struct cuda_memory_kind *kind, cuda_memory memory))                  \
    CALL(cuMemHostRegister_v2, (void *start, size_t size, unsigned flags))                                             \
    CALL(cuMemHostUnregister, (void *start))                                                                           \
    CALL(cuMemHostGetDevicePointer_v2, (cuda_address *address, void *start, unsigned flags))

#endif
