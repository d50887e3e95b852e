# Keys and values of maps as bytes: elements of one size, and objects.

import struct as _struct

from libc.math cimport isnan, NAN

DEF ANY_SIZE = 0xffffffffffffffff


cdef class Codec:
    """How keys, or values, become bytes and come back: as `element` says, or as objects (None).

    Values that are `raw` are bytes of any length.
    """
    cdef readonly Element element  # type: Element | None
    cdef readonly bint is_key
    cdef readonly bint raw
    cdef uint64_t bytes_each
    cdef char code
    cdef Pickler pickler

    def __init__(self, Element element: Element | None, bint is_key, bint raw=False):
        self.pickler = Pickler.__new__(Pickler)
        self.element = element
        self.is_key = is_key
        self.raw = raw
        self.bytes_each = ANY_SIZE if element is None else element.width
        self.code = 0 if element is None else element.code

    @property
    def size(self) -> int:
        """Bytes of each; 2**64 - 1: each has its own size."""
        return self.bytes_each

    @property
    def letter(self) -> str:
        """The letter of a plain type, else empty."""
        return chr(self.code) if self.code else ""

    cdef int store(self, object x, char *p, Handle whose, str method) except -1:
        # Of a plain type; equal keys have the same bytes.
        if self.is_key and isinstance(x, float) and self.code != c"d" and self.code != c"f":
            if x.is_integer():
                x = int(x)
        self.element.store(x, p, whose, method)
        if self.is_key and self.code == c"d":
            (<double *>p)[0] = NAN if isnan((<double *>p)[0]) else (<double *>p)[0] + 0.0  # not -0.0
        elif self.is_key and self.code == c"f":
            (<float *>p)[0] = NAN if isnan((<float *>p)[0]) else (<float *>p)[0] + <float>0.0
        return 0

    cdef bytes encode(self, object x, Handle whose, str method):
        cdef char plain[8]
        if self.code:
            self.store(x, plain, whose, method)
            return plain[:self.bytes_each]
        if self.element is not None:
            return self.element.bytes_of(x, whose, method)
        if self.raw:
            try:
                return raw_bytes(x)
            except TypeError as error:
                raise TypeError(f"{method if whose is None else whose.titled(method)}: {error}") from error
        return key_bytes(x, whose, method) if self.is_key else pickle_module().dumps(x, 5)

    cdef object encode_one(self, object x, Handle whose, str method):
        # The same, or Pieces of what is long.
        if self.element is None and not self.raw and not self.is_key:
            return self.pickler.pickled(x)
        return self.encode(x, whose, method)

    cdef object decode(self, const char *p, uint64_t size):
        if self.element is not None:
            return self.element.value(p)
        if self.raw:
            return p[:size]
        if self.is_key:
            return key_of(p[:size])
        if size < LONG:
            return pickle_module().loads(p[:size])
        return pickle_module().loads(PyMemoryView_FromMemory(<char *>p, size, PyBUF_READ))


# Keys that are equal in Python have the same bytes: a letter, then the value. Whole numbers of any
# type are integers.


cdef bytes key_bytes(object x, Handle whose, str method):
    cdef long long n
    cdef double d
    cdef Py_ssize_t size
    cdef char head[9]
    if type(x) is str or isinstance(x, str):
        return b"s" + (<str>x).encode("utf-8", "surrogatepass")
    if isinstance(x, int):
        size = (x.bit_length() + 8) // 8
        if size > 8:
            return b"i" + int(x).to_bytes(size, "little", signed=True)
        n = x
        head[0] = c"i"
        memcpy(head + 1, &n, 8)
        return head[:9]
    if isinstance(x, float):
        if x.is_integer():
            return key_bytes(int(x), whose, method)
        d = NAN if isnan(x) else x
        head[0] = c"f"
        memcpy(head + 1, &d, 8)
        return head[:9]
    if isinstance(x, bytes):
        return b"b" + x
    if x is None:
        return b"n"
    if isinstance(x, tuple):
        parts = [key_bytes(y, whose, method) for y in x]
        return b"t" + b"".join([len(p).to_bytes(8, "little") + p for p in parts])
    if type(x).__module__ == "numpy" and hasattr(x, "item") and getattr(x, "shape", None) == ():
        plain = x.item()
        if isinstance(plain, (bool, int, float)):
            return key_bytes(plain, whose, method)
    name = method if whose is None else whose.titled(method)
    raise TypeError(f"{name}: a key is None, bool, int, float, str, bytes or a tuple of these, and "
                    f"{type(x).__name__} {x!r:.60} is not")


cdef object no_key():
    return _errors.Error("what a container holds as a key is none: something wrote over its memory; look for "
                         "transfers that are longer than their blocks, and for addresses used after free")


cdef object key_of(bytes data):
    if not data or (data[0] == c"f" and len(data) != 9):
        raise no_key()
    cdef char kind = data[0]
    if kind == c"s":
        return data[1:].decode("utf-8", "surrogatepass")
    if kind == c"i":
        return int.from_bytes(data[1:], "little", signed=True)
    if kind == c"f":
        return _struct.unpack("<d", data[1:])[0]
    if kind == c"b":
        return data[1:]
    if kind == c"n":
        return None
    at, parts = 1, []
    while at < len(data):
        size = int.from_bytes(data[at:at + 8], "little")
        if kind != c"t" or size > len(data) - at - 8:
            raise no_key()
        parts.append(key_of(data[at + 8:at + 8 + size]))
        at += 8 + size
    return tuple(parts)


cdef Codec NO_CODEC = Codec(NO_ELEMENT, True)
