# Contents of a message: the bytes of a buffer, or a pickled object. The note has the kind.

import sys as _sys

from cpython.buffer cimport PyBUF_ND, PyObject_CheckBuffer
from cpython.bytes cimport PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory

# Bits 0 to 3 of a note, and of what has elements their type (messages.h); of an array also its
# dimensions (13 to 15) and all of these but the first, in 48 bits.
DEF BYTES = 0
DEF OBJECT_NOTE = 1
DEF ARRAY = 2
DEF DESCRIBED = 3  # bits 4 to 63: the tag of a message in the context of headers, 13 to 31 its number
DEF A_BUFFER = 15  # what is wanted
DEF UNNAMED = 1    # elements that no letter stands for

cdef object _payload = None
cdef object ndarray_type = None  # NumPy's, once the program has loaded it
cdef object scalar_type = None
cdef uint64_t last_header = 0

cdef extern from "Python.h":
    const int PyBUF_READ


cdef object mail_payload():
    global _payload
    if _payload is None:
        from acp_mpi.comm import payload
        _payload = payload
    return _payload


cdef int know_numpy() except -1:
    global ndarray_type, scalar_type
    numpy = _sys.modules.get("numpy")
    array, scalar = getattr(numpy, "ndarray", None), getattr(numpy, "generic", None)
    if array is not None and scalar is not None:
        ndarray_type, scalar_type = array, scalar
    return 0


cdef struct payload:
    const char *data
    uint64_t size, note
    Py_buffer view
    bint viewed


cdef void unpack_nothing(payload *p) noexcept:
    if p.viewed:
        p.viewed = False
        PyBuffer_Release(&p.view)


cdef object raw_payload(object x, payload *p, str function):
    # Bytes as they are; returns what keeps them.
    p.viewed = False
    p.note = BYTES
    if PyBytes_CheckExact(x):
        p.data, p.size = PyBytes_AS_STRING(x), PyBytes_GET_SIZE(x)
        return x
    plain_buffer(x, &p.view, False, function)
    p.viewed = True
    p.data, p.size = <const char *>p.view.buf, p.view.len
    if p.view.itemsize > 1 and type_of(&p.view) != UNNAMED:
        p.note = BYTES | type_of(&p.view)
    need(function)  # the buffer may be of a class with Python code
    return x


cdef uint64_t type_of(const Py_buffer *view) noexcept:
    # Letter and order of bytes, in their bits of a note; 0: bytes.
    cdef const char *f = view.format
    cdef uint64_t swapped = 0
    cdef char letter
    cdef int place = 0 if view.itemsize == 1 else 1 if view.itemsize == 2 else 2 if view.itemsize == 4 else 3
    if f == NULL:
        return UNNAMED
    if strchr(b"><=@!|", f[0]) != NULL and f[0]:
        swapped = (f[0] == c">" or f[0] == c"!") and view.itemsize > 1
        f += 1
    letter = f[0]
    if letter == c"Z" and f[1]:
        f += 1
        letter = f[0] - 32  # Zd is D
    if letter == 0 or f[1]:
        return UNNAMED
    if strchr(b"bhilqn", letter) != NULL:
        letter = b"bhiq"[place]
    elif strchr(b"BHILQNc", letter) != NULL:
        letter = b"BHIQ"[place]
    elif strchr(b"?efdgFDG", letter) == NULL:
        return UNNAMED
    return 0 if letter == c"B" else <uint64_t>letter << 4 | swapped << 12


cdef uint64_t wanted_by(object buffer, const Py_buffer *view) except 0:
    # Which messages go into a buffer.
    cdef uint64_t type = type_of(view)
    if type != UNNAMED:
        return A_BUFFER | type
    if ndarray_type is None:
        know_numpy()
    if ndarray_type is None:  # nothing else has a name for them
        return A_BUFFER
    return A_BUFFER | <uint64_t>mail_payload().type_of(buffer)


cdef object refusal(str function, const acp_envelope *got, object buffer, object header):
    what = f"{function}: the message {whom(False, got.source, got.tag)}"
    if got.note & 15 == OBJECT_NOTE:
        return TypeError(f"{what} is a pickled object and no buffer; receive it without one")
    theirs, ours = mail_payload().names(got.note, header, buffer)
    return TypeError(f"{what} has elements of type {theirs} and the buffer of {ours}; receive it into one "
                     "of its type, of bytes, or without one: it is still there")


cdef bytes pickle_of(object x, str function):
    try:
        return pickle_module().dumps(x, 5)
    except (TypeError, AttributeError, pickle_module().PicklingError) as error:
        error.add_note(f"{function}: this {type(x).__name__} cannot be pickled; give numbers, arrays, containers of them, "
                       "and functions and classes by their names in a module")
        raise


cdef object object_of(object data, int64_t sender):
    try:
        return pickle_module().loads(data)
    except Exception as error:
        error.add_note(f"rank {sender} of the job has sent a pickled object that cannot be made here; if its class is not "
                       "found, define it in a module that both import")
        raise


cdef object object_payload(object x, payload *p, str function):
    data = pickle_of(x, function)
    p.data, p.size, p.note = PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), OBJECT_NOTE
    need(function)
    return data


cdef bint shows_memory(object x) except -1:
    # Without the buffer protocol; memory of OpenCL has no protocol at all.
    return (hasattr(x, "__array_interface__") or hasattr(x, "__cuda_array_interface__") or hasattr(x, "__dlpack__")
            or "pyopencl" in _sys.modules and mail_payload().on_device(x))


cdef object pack(object x, payload *p, str function):
    # Fills the payload; returns the owner of its bytes, and with DESCRIBED the header beside it.
    p.viewed = False
    kind = type(x)
    if kind is bytes or kind is bytearray:
        return raw_payload(x, p, function)
    if kind is int or kind is str or kind is tuple or kind is list or kind is dict or x is None:
        return object_payload(x, p, function)
    if ndarray_type is None:
        know_numpy()
    if kind is ndarray_type:
        if array_payload(x, p):
            need(function)
            return x
    elif PyObject_CheckBuffer(x):
        if scalar_type is not None and isinstance(x, (scalar_type, ndarray_type)):
            # Scalars, and arrays that mean more than their bytes: a mask, a unit.
            if not mail_payload().is_plain(x):
                return object_payload(x, p, function)
        else:
            return raw_payload(x, p, function)
    elif not shows_memory(x):
        return object_payload(x, p, function)
    return unusual_payload(x, p, function)


cdef bint array_payload(object x, payload *p) except -1:
    # Of a contiguous array with a type and a shape that fit the note.
    try:
        PyObject_GetBuffer(x, &p.view, PyBUF_FORMAT | PyBUF_ND)
    except (BufferError, ValueError):
        return False
    p.viewed = True
    p.data, p.size = <const char *>p.view.buf, p.view.len
    if array_note(&p.view, &p.note):
        return True
    unpack_nothing(p)
    return False


cdef bint array_note(const Py_buffer *view, uint64_t *note) noexcept:
    cdef const char *f = view.format
    cdef uint64_t swapped = 0, shape = 0, rest = 1
    cdef char letter
    cdef int i, bits
    cdef bint standard = f[0] == c">" or f[0] == c"<" or f[0] == c"="
    if standard:
        swapped = f[0] == c">"
        f += 1
    elif f[0] == c"@":
        f += 1
    letter = f[0]
    if letter == c"Z" and f[1]:
        f += 1
        letter = f[0] - 32  # Zd is D
        if strchr(b"FDG", letter) == NULL:
            return False
    elif letter == 0 or strchr(b"?bBhHiIlLqQefdg", letter) == NULL:
        return False
    if f[1] or standard and (letter == c"l" or letter == c"L") or view.ndim > 7:
        return False
    if view.ndim > 1:
        bits = 48 // (view.ndim - 1)
        for i in range(1, view.ndim):
            if view.shape[i] <= 0 or <uint64_t>view.shape[i] >> bits:
                return False
            shape |= <uint64_t>view.shape[i] << ((i - 1) * bits)
    note[0] = ARRAY | <uint64_t>letter << 4 | swapped << 12 | <uint64_t>view.ndim << 13 | shape << 16
    return True


cdef object unusual_payload(object x, payload *p, str function):
    # Arrays that are not contiguous, or of a type that no note has room for.
    global last_header
    cdef uint64_t type
    plain, described, type, parts = mail_payload().prepare(x, function)
    if plain is None:
        return object_payload(x, p, function)
    if described is None:
        if not array_payload(plain, p):
            raise SystemError(f"{function}: an array of {plain.dtype} has no note")
        need(function)
        return plain
    raw_payload(plain, p, function)
    last_header += 1
    p.note = DESCRIBED | type | (last_header & 0x7ffff) << 13
    return plain, described, parts


cdef object unpacked(const acp_envelope *got, const char *data, object header):
    # The message as sent: bytes, an object, an array.
    cdef uint64_t kind = got.note & 15, n = got.size
    cdef Py_buffer view
    if kind == OBJECT_NOTE:
        return object_of(PyMemoryView_FromMemory(<char *>data, n, PyBUF_READ), got.source)
    if kind == BYTES:
        return raw_bytes_of(data, n)
    if kind == ARRAY:
        array, place = mail_payload().array_for(got.note >> 4, n)
    else:
        array, place = mail_payload().array_as(header)
    PyObject_GetBuffer(place, &view, PyBUF_WRITABLE)
    copy_bytes(view.buf, data, min(n, <uint64_t>view.len))
    PyBuffer_Release(&view)
    return array


cdef bytes raw_bytes_of(const char *data, uint64_t n):
    cdef bytes result = PyBytes_FromStringAndSize(NULL, n)
    copy_bytes(PyBytes_AS_STRING(result), data, n)
    return result


cdef void copy_bytes(void *to, const void *source, uint64_t n) noexcept:
    if n > SMALL:
        with nogil:
            memcpy(to, source, n)
    elif n:
        memcpy(to, source, n)
