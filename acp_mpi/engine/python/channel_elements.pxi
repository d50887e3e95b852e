# What a channel carries: bytes, elements of a NumPy type, or pickled objects.

from cpython.unicode cimport PyUnicode_AsUTF8AndSize

DEF RAW = 0
DEF TYPED = 1
DEF PICKLED = 2


cdef uint64_t hash_of_text(str text) except? 0:
    # FNV-1a: the same in all processes.
    cdef Py_ssize_t n = 0, i
    cdef const char *p = PyUnicode_AsUTF8AndSize(text, &n)
    cdef uint64_t h = 0xcbf29ce484222325ULL
    for i in range(n):
        h = (h ^ <unsigned char>p[i]) * <uint64_t>0x100000001b3ULL
    return h


cdef class Elements:
    cdef object dtype
    cdef int kind
    cdef uint64_t width
    cdef object empty, frombuffer, uint8  # of NumPy

    def __cinit__(self, object dtype, object bytes_of_slot):
        self.dtype, self.kind, self.width = dtype, RAW, 1
        if dtype is object:
            self.kind = PICKLED
        elif dtype is not None:
            import numpy
            try:
                self.dtype, self.kind = numpy.dtype(dtype), TYPED
            except (TypeError, ValueError) as error:
                raise TypeError(f"Channel: {dtype!r:.60} is not a type of elements ({error}); use float, say") from None
            self.empty, self.frombuffer, self.uint8 = numpy.empty, numpy.frombuffer, numpy.uint8
            self.width = self.dtype.itemsize
            if self.dtype.hasobject or not 1 <= self.width <= bytes_of_slot:
                raise ValueError(f"Channel: elements of {self.dtype} in slots of {bytes_of_slot} bytes; give a type "
                                 "of a fixed size that fits, or dtype=object")

    cdef uint64_t hash(self) except? 0:
        return hash_of_text("" if self.kind == RAW else "object" if self.kind == PICKLED
                            else repr(self.dtype.descr) + self.dtype.str)

    cdef object pack(self, object x, payload *p, str function):
        # Fills the payload, and returns what keeps it.
        p.viewed = False
        if self.kind == PICKLED:
            data = pickle_of(x, function)
            p.data, p.size = PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data)
            return data
        if self.kind == TYPED:
            if ndarray_type is None:
                know_numpy()
            if type(x) is not ndarray_type or x.dtype != self.dtype or not x.flags.c_contiguous:
                import numpy
                shown = hasattr(x, "__dlpack__") or mail_payload().on_device(x)
                array = mail_payload().brought(x, function) if shown else numpy.asarray(x)
                if array.dtype != self.dtype:
                    raise TypeError(f"{function}: elements of {array.dtype} in a channel of {self.dtype}; convert them by "
                                    ".astype(), or create both ends with that dtype")
                x = numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)
        keeper = raw_payload(x, p, function)
        if p.size > ACP_CHANNEL_MESSAGE_MOST:
            unpack_nothing(p)
            raise ValueError(f"{function}: {p.size} bytes, and a message has fewer than 2**39; send parts of it")
        return keeper

    cdef object unpack(self, const char *data, uint64_t n, int64_t sender):
        if self.kind == PICKLED:
            return object_of(raw_bytes_of(data, n), sender)
        if self.kind == RAW:
            return raw_bytes_of(data, n)
        cdef Py_buffer view
        array = self.empty(n // self.width, self.dtype)
        PyObject_GetBuffer(array.view(self.uint8), &view, PyBUF_WRITABLE)  # which some types refuse
        copy_bytes(view.buf, data, n)
        PyBuffer_Release(&view)
        return array

    cdef object view(self, object slot):
        if self.kind == RAW:
            return memoryview(slot)
        return self.frombuffer(slot, self.dtype)
