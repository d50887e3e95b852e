# Objects as pickles, which are what the memory of others holds, and back. Of a long one no more is
# copied than its own bytes, once: buffers go from the object to global memory, and from there to
# what the new object keeps.

from libc.string cimport memcpy, memset

DEF LONG = 65536  # bytes: pickle puts such a buffer between its frames
DEF WINDOW = 16       # enough for what a frame or a buffer begins with
DEF PICKLE_BINBYTES = 0x42
DEF PICKLE_PROTO = 0x80
DEF PICKLE_BINBYTES8 = 0x8e
DEF PICKLE_FRAME = 0x95
DEF PICKLE_BYTEARRAY8 = 0x96
DEF PICKLE_NEXT_BUFFER = 0x97

cdef object _pickler = None


cdef object pickle_module():
    # Loaded with the first object: a program without objects is spared it. And without what is
    # written in Python of it, which takes 0.2 MB and 5 ms.
    global _pickler
    if _pickler is None:
        import _pickle
        _pickler = _pickle
    return _pickler


cdef class Pieces:
    """A pickle as a row of buffers: what a pickler writes, and the long ones of its object."""
    cdef readonly list parts
    cdef uint64_t bytes

    def __cinit__(self):
        self.parts = []

    def write(self, data) -> None:
        """Take the next buffer, which the object may still own."""
        if type(data) is not bytes:
            data = data.raw() if hasattr(data, "raw") else memoryview(data).cast("B")
        self.parts.append(data)
        self.bytes += len(data)

    def __len__(self) -> int:
        return self.bytes

    def __bytes__(self) -> bytes:
        return b"".join(self.parts)


cdef class Pickler:
    """Objects as pickles. After a long one the next is taken for long, too, and not copied."""
    cdef bint long_ones

    cdef object pickled(self, object x):
        """Return bytes or Pieces."""
        cdef Pieces pieces
        if not self.long_ones:
            data = pickle_module().dumps(x, 5)
            self.long_ones = len(data) >= LONG
            return data
        pieces = Pieces.__new__(Pieces)
        pickle_module().Pickler(pieces, 5).dump(x)
        self.long_ones = pieces.bytes >= LONG
        return pieces if self.long_ones else bytes(pieces)


cdef list parts_of(object data):
    """Return the buffers of bytes or Pieces."""
    return (<Pieces>data).parts if type(data) is Pieces else [data]


cdef int lay_parts(uint64_t ga, list parts) except -1:
    """Write buffers to `ga`, one behind the other."""
    for part in parts:
        put(ga, part)
        ga += len(part)
    return 0


def laid(data: bytes | Pieces, rank: Int) -> int:
    """Return the address of a new block on `rank` with these bytes, or Pieces."""
    block = malloc(len(data), rank)
    try:
        lay_parts(block, parts_of(data))
    except BaseException:
        leave_orphans([block])
        raise
    return block


cdef object object_in_place(uint64_t ga, uint64_t size):
    """Return the object of a pickle there, in reach, that belongs to the caller."""
    cdef acp_engine *e = engine
    block = mapped(ga, size)
    try:
        return pickle_module().loads(block)
    finally:
        if engine == e:  # else another thread has finalized meanwhile
            acp_forget_address(e, ga)


cdef class PickleSource:
    """The bytes of a pickle that others may take away meanwhile."""

    cdef bint fill(self, char *to, uint64_t at, uint64_t size, object room) except -1:
        """Bring some of them into memory that `room` keeps; False: they have gone."""
        raise NotImplementedError


cdef uint64_t long_buffer(const unsigned char *p, uint64_t left, uint64_t *head) noexcept:
    # The length of the buffer that begins with this opcode and its argument, `head` bytes; 0: none.
    cdef uint64_t size = 0
    head[0] = 5 if p[0] == PICKLE_BINBYTES else 9
    if (p[0] != PICKLE_BINBYTES and p[0] != PICKLE_BINBYTES8 and p[0] != PICKLE_BYTEARRAY8) \
            or left < head[0]:
        return 0
    memcpy(&size, p + 1, head[0] - 1)
    return size if LONG <= size <= left - head[0] else 0


cdef object object_from(PickleSource source, uint64_t size):
    """Return the object of a pickle of `size` bytes; None in a tuple's place: they have gone.

    The long buffers between the frames are brought to where they stay, in the order in which the
    rest of the pickle, with an opcode in the place of each, asks for them.
    """
    cdef bytearray seen = bytearray(WINDOW)
    cdef unsigned char *window = <unsigned char *>PyByteArray_AS_STRING(seen)
    cdef bytearray rest = bytearray()
    cdef list buffers = []
    cdef uint64_t at = 0, begin = 0, left, head, long_size, frame
    while at < size:
        left = min(size - at, <uint64_t>WINDOW)
        if not source.fill(<char *>window, at, left, seen):
            return None
        frame = 0
        if at == 0 and left > 11 and window[0] == PICKLE_PROTO and window[2] == PICKLE_FRAME:
            memcpy(&frame, window + 3, 8)
            frame += 11
        elif left > 9 and window[0] == PICKLE_FRAME:
            memcpy(&frame, window + 1, 8)
            frame += 9
        if 0 < frame <= size - at:
            at += frame
            continue
        long_size = long_buffer(window, size - at, &head)
        if not long_size:
            break  # not one of those pickles that could be taken apart further
        buffer = PyBytes_FromStringAndSize(NULL, long_size) if window[0] != PICKLE_BYTEARRAY8 \
            else PyByteArray_FromStringAndSize(NULL, long_size)
        if not source.fill(PyBytes_AS_STRING(buffer) if type(buffer) is bytes
                           else PyByteArray_AS_STRING(buffer), at + head, long_size, buffer):
            return None
        if not rest_of(source, rest, begin, at - begin):
            return None
        rest.append(PICKLE_NEXT_BUFFER)
        buffers.append(buffer)
        at += head + long_size
        begin = at
    if not rest_of(source, rest, begin, size - begin):
        return None
    return (pickle_module().loads(rest, buffers=buffers),)


cdef bint rest_of(PickleSource source, bytearray rest, uint64_t at, uint64_t size) except -1:
    cdef Py_ssize_t before = len(rest)
    PyByteArray_Resize(rest, before + size)
    return not size or source.fill(PyByteArray_AS_STRING(rest) + before, at, size, rest)
