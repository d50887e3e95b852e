# DLPack: where an exporter's memory is, and capsules over device memory of ours.

from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint16_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <stdlib.h>
    typedef struct { int32_t type, number; } dl_device;
    typedef struct { uint8_t code, bits; uint16_t lanes; } dl_type;
    typedef struct {
        void *data; dl_device device; int32_t ndim; dl_type dtype; int64_t *shape, *strides; uint64_t byte_offset;
    } dl_tensor;
    typedef struct dl_managed { dl_tensor tensor; void *context; void (*deleter)(struct dl_managed *); } dl_managed;
    typedef struct dl_versioned {
        uint32_t major, minor; void *context; void (*deleter)(struct dl_versioned *); uint64_t flags; dl_tensor tensor;
    } dl_versioned;
    """
    ctypedef struct dl_device:
        int32_t type
        int32_t number
    ctypedef struct dl_type:
        uint8_t code
        uint8_t bits
        uint16_t lanes
    ctypedef struct dl_tensor:
        void *data
        dl_device device
        int32_t ndim
        dl_type dtype
        int64_t *shape
        int64_t *strides
        uint64_t byte_offset
    ctypedef struct dl_managed:
        dl_tensor tensor
        void *context
        void (*deleter)(dl_managed *) noexcept with gil
    ctypedef struct dl_versioned:
        uint64_t flags
        dl_tensor tensor

DEF READ_ONLY = 1
DEF OPENCL = 4


def dlpack_place(capsule: object) -> tuple[int, int, int, tuple[int, ...], tuple[int, ...] | None, int, bool, int, int]:
    """Return (address, device type, number, shape, strides in elements, bytes of an element, read-only, offset, code).

    The code is that of the kind of elements. The offset is 0 but for memory that has a handle and no address, which is that of OpenCL.
    """
    cdef const dl_tensor *t
    cdef bint read_only = False
    if PyCapsule_IsValid(capsule, "dltensor_versioned"):
        versioned = <dl_versioned *>PyCapsule_GetPointer(capsule, "dltensor_versioned")
        read_only = versioned.flags & READ_ONLY
        t = &versioned.tensor
    else:
        t = &(<dl_managed *>PyCapsule_GetPointer(capsule, "dltensor")).tensor
    shape = tuple([t.shape[i] for i in range(t.ndim)])
    strides = None if t.strides == NULL else tuple([t.strides[i] for i in range(t.ndim)])
    offset = t.byte_offset if t.device.type == OPENCL else 0
    return (<uintptr_t>t.data + t.byte_offset - offset, t.device.type, t.device.number, shape, strides,
            (t.dtype.bits * t.dtype.lanes + 7) // 8, read_only, offset, t.dtype.code)


cdef void dlpack_end(dl_managed *m) noexcept with gil:
    Py_DECREF(<object>m.context)
    c_free(m)


cdef void dlpack_drop(object capsule) noexcept:
    if PyCapsule_IsValid(capsule, "dltensor"):  # no consumer has taken it
        dlpack_end(<dl_managed *>PyCapsule_GetPointer(capsule, "dltensor"))


def dlpack_capsule(address: int, type: int, number: int, shape: tuple[int, ...], code: int, size: int,
                   keep: object, offset: int = 0) -> object:
    """Return a capsule over contiguous memory, which keeps `keep`; elements of `size` bytes, of kind `code`.

    The memory begins `offset` bytes behind `address`.
    """
    cdef Py_ssize_t count = len(shape)
    cdef dl_managed *m = <dl_managed *>c_malloc(sizeof(dl_managed) + count * sizeof(int64_t))
    if m == NULL:
        raise MemoryError
    memset(m, 0, sizeof(dl_managed))
    m.tensor.data = <void *><uintptr_t>address
    m.tensor.byte_offset = offset
    m.tensor.device.type, m.tensor.device.number = type, number
    m.tensor.ndim = count
    m.tensor.dtype.code, m.tensor.dtype.bits, m.tensor.dtype.lanes = code, 8 * size, 1
    m.tensor.shape = <int64_t *>(m + 1)
    for i in range(count):
        m.tensor.shape[i] = shape[i]
    m.deleter = dlpack_end
    m.context = <void *>keep
    Py_INCREF(keep)
    return PyCapsule_New(m, "dltensor", dlpack_drop)
