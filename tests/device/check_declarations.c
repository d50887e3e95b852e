/* Compares `cuda_driver.h` with the driver's own header, where there is one: it is compiled, and not run.
 * `gcc -fsyntax-only -I FOLDER_OF_CUDA_H -I acp_mpi/engine tests/device/check_declarations.c` */
#include "devices/cuda_driver.h"
#include <cuda.h>

#define SAME(mine, theirs) _Static_assert((long long)(mine) == (long long)(theirs), #mine);
#define PLACE(mine, mine_field, theirs, their_field)                                                                   \
    SAME(offsetof(mine, mine_field), offsetof(theirs, their_field))

SAME(CUDA_OK, CUDA_SUCCESS)
SAME(CUDA_BAD_VALUE, CUDA_ERROR_INVALID_VALUE)
SAME(CUDA_NO_MEMORY, CUDA_ERROR_OUT_OF_MEMORY)
SAME(CUDA_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED)
SAME(CUDA_NO_DEVICE, CUDA_ERROR_NO_DEVICE)
SAME(CUDA_BAD_DEVICE, CUDA_ERROR_INVALID_DEVICE)
SAME(CUDA_BAD_CONTEXT, CUDA_ERROR_INVALID_CONTEXT)
SAME(CUDA_MAP_FAILED, CUDA_ERROR_MAP_FAILED)
SAME(CUDA_NO_PEER_ACCESS, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED)
SAME(CUDA_BAD_HANDLE, CUDA_ERROR_INVALID_HANDLE)
SAME(CUDA_BAD_STATE, CUDA_ERROR_ILLEGAL_STATE)
SAME(CUDA_NOT_FOUND, CUDA_ERROR_NOT_FOUND)
SAME(CUDA_NOT_READY, CUDA_ERROR_NOT_READY)
SAME(CUDA_BAD_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS)
SAME(CUDA_CONTEXT_DESTROYED, CUDA_ERROR_CONTEXT_IS_DESTROYED)
SAME(CUDA_ALREADY_REGISTERED, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
SAME(CUDA_NOT_REGISTERED, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
SAME(CUDA_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED)
SAME(CUDA_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED)
SAME(CUDA_HAS_UNIFIED_ADDRESSES, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)
SAME(CUDA_HAS_MAPPED_MEMORY, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)
SAME(CUDA_HAS_DESCRIPTORS, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)
SAME(CUDA_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING)
SAME(CUDA_EVENT_NO_TIMING, CU_EVENT_DISABLE_TIMING)
SAME(CUDA_IPC_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
SAME(CUDA_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED)
SAME(CUDA_ON_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE)
SAME(CUDA_DESCRIPTOR, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
SAME(CUDA_READ, CU_MEM_ACCESS_FLAGS_PROT_READ)
SAME(CUDA_READ_WRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
SAME(CUDA_HOST_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE)
SAME(CUDA_HOST_MAPPED, CU_MEMHOSTREGISTER_DEVICEMAP)
SAME(CUDA_HOST_MEMORY, CU_MEMORYTYPE_HOST)
SAME(CUDA_DEVICE_MEMORY, CU_MEMORYTYPE_DEVICE)
SAME(CUDA_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT)
SAME(CUDA_POINTER_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
SAME(CUDA_POINTER_BUFFER, CU_POINTER_ATTRIBUTE_BUFFER_ID)
SAME(CUDA_POINTER_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED)
SAME(CUDA_POINTER_DEVICE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
SAME(CUDA_POINTER_IPC, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE)
SAME(CUDA_POINTER_START, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR)
SAME(CUDA_POINTER_SIZE, CU_POINTER_ATTRIBUTE_RANGE_SIZE)
SAME(CUDA_POINTER_HANDLES, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES)
SAME((size_t)CUDA_STREAM_LEGACY, (size_t)CU_STREAM_LEGACY)
SAME((size_t)CUDA_STREAM_PER_THREAD, (size_t)CU_STREAM_PER_THREAD)

SAME(sizeof(struct cuda_uuid), sizeof(CUuuid))
SAME(sizeof(struct cuda_ipc_handle), sizeof(CUipcMemHandle))
SAME(sizeof(struct cuda_access), sizeof(CUmemAccessDesc))
PLACE(struct cuda_access, flags, CUmemAccessDesc, flags)
SAME(sizeof(struct cuda_memory_kind), sizeof(CUmemAllocationProp))
PLACE(struct cuda_memory_kind, type, CUmemAllocationProp, type)
PLACE(struct cuda_memory_kind, handle_types, CUmemAllocationProp, requestedHandleTypes)
PLACE(struct cuda_memory_kind, location.id, CUmemAllocationProp, location.id)
PLACE(struct cuda_memory_kind, security, CUmemAllocationProp, win32HandleMetaData)
PLACE(struct cuda_memory_kind, usage, CUmemAllocationProp, allocFlags.usage)

/* Each function again, with the driver's names of the types: a declaration that differs does not compile. */
#define cuda_status CUresult
#define cuda_attribute CUdevice_attribute
#define cuda_pointer_attribute CUpointer_attribute
#define cuda_granularity CUmemAllocationGranularity_flags
#define cuda_handle_type CUmemAllocationHandleType
#define cuda_device CUdevice
#define cuda_address CUdeviceptr
#define cuda_memory CUmemGenericAllocationHandle
#define cuda_context CUcontext
#define cuda_stream CUstream
#define cuda_event CUevent
#define cuda_host_function CUhostFn
#define cuda_uuid CUuuid_st
#define cuda_ipc_handle CUipcMemHandle_st
#define cuda_memory_kind CUmemAllocationProp_st
#define cuda_access CUmemAccessDesc_st
#define AGAIN(name, arguments) CUresult name arguments;
CUDA_CALLS(AGAIN)
