# Elements of containers as bytes: numbers and other things of one size, and objects.

import pickle as _pickle
import struct as _struct

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AsDouble, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLong
from libc.math cimport isnan, NAN
from libc.string cimport memcpy, memset

DEF ANY_SIZE = 0xffffffffffffffff

cdef dict number_sizes = {"b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "q": 8, "Q": 8, "f": 4,
                          "d": 8, "?": 1}
cdef dict same_numbers = {"l": "q", "L": "Q", "n": "q", "N": "Q"}
cdef dict range_of = {c: (-(1 << 8 * n - 1), (1 << 8 * n - 1) - 1) if c.islower()
                        else (0, (1 << 8 * n) - 1)
                        for c, n in number_sizes.items() if c not in "fd?"}


cdef class Codec:
    """How elements of a container become bytes, and bytes elements.

    `spec` says it to other processes; `size` is in bytes, None: each has its own; `number` is the
    struct format character of a number.
    """
    cdef readonly str spec
    cdef readonly str number
    cdef uint64_t bytes_each
    cdef int code      # of a number, or 0
    cdef readonly bint is_key
    cdef object dtype  # NumPy's, for what only it knows

    @property
    def size(self):
        return None if self.bytes_each == ANY_SIZE else self.bytes_each

    cdef bytes encode(self, object x):
        cdef uint64_t word = 0
        if self.code:
            encode_number(self, x, &word)
            return (<char *>&word)[:self.bytes_each]
        if self.bytes_each == ANY_SIZE:
            return key_bytes(x) if self.is_key else _pickle.dumps(x, -1)
        if self.dtype is None:
            data = bytes(x)
            if len(data) != self.bytes_each:
                raise ValueError(f"{len(data)} bytes do not fit {self.spec}: give {self.bytes_each}")
            return data
        import numpy
        return numpy.array(x, self.dtype).reshape(()).tobytes()

    cdef object decode(self, const char *p, uint64_t size):
        if self.code:
            return decode_number(self.code, p)
        if self.bytes_each == ANY_SIZE:
            return key_of(p[:size]) if self.is_key else _pickle.loads(p[:size])
        if self.dtype is None:
            return p[:size]
        import numpy
        return numpy.frombuffer(p[:size], self.dtype)[0].item()

    def array_dtype(self):
        """Return NumPy's dtype for arrays of these; None: objects."""
        if self.bytes_each == ANY_SIZE:
            return None
        import numpy
        return self.dtype if self.dtype is not None else numpy.dtype(self.spec)


def codec(what, bint is_key):
    """Return the Codec for a dtype, a struct format character, or `object`."""
    cdef Codec c = Codec.__new__(Codec)
    c.is_key = is_key
    if what is object or what is str or what is bytes or what == "object":
        c.spec = "object"
        c.bytes_each = ANY_SIZE
        return c
    what = {int: "q", float: "d", bool: "?"}.get(what, what) if isinstance(what, type) else what
    if isinstance(what, str):
        what = same_numbers.get(what, what)
        if what in number_sizes:
            return codec_of_number(c, what)
        if what[:1] == "V" and what[1:].isdecimal():
            c.spec = what
            c.bytes_each = int(what[1:])
            return c
    return codec_of_dtype(c, what)


cdef Codec codec_of_number(Codec c, str number):
    c.spec = c.number = number
    c.bytes_each = number_sizes[number]
    c.code = ord(number)
    return c


cdef Codec codec_of_dtype(Codec c, object what):
    import numpy
    if isinstance(what, str) and what[:1] == "[":
        import ast
        what = ast.literal_eval(what)
    dtype = numpy.dtype(what)
    if dtype.hasobject:
        raise TypeError(f"{dtype} holds objects: use `object`, or a type of one size")
    if dtype.kind in "iufb" and dtype.isnative:
        for number in "bhiq" if dtype.kind == "i" else "BHIQ" if dtype.kind == "u" else (
                "fd" if dtype.kind == "f" else "?"):
            if number_sizes[number] == dtype.itemsize:
                return codec_of_number(c, number)
    c.dtype = dtype
    c.bytes_each = dtype.itemsize
    if dtype.kind == "V" and dtype.fields is None and dtype.subdtype is None:
        c.dtype = None
        c.spec = f"V{dtype.itemsize}"
    else:
        c.spec = repr(dtype.descr) if dtype.fields is not None else dtype.str
    return c


cdef object whole_number(Codec c, object x):
    if c.is_key and isinstance(x, float) and x.is_integer():
        return int(x)
    return as_int(x, "an element", f"what is stored as {c.spec!r}")


cdef int encode_number(Codec c, object x, void *out) except -1:
    cdef double d
    cdef long long n
    if c.code == c"d" or c.code == c"f":
        d = PyFloat_AsDouble(x)
        if c.is_key:
            d = NAN if isnan(d) else d + 0.0  # -0.0 is 0.0
        if c.code == c"d":
            (<double *>out)[0] = d
        else:
            (<float *>out)[0] = <float>d
        return 0
    if c.code == c"?":
        (<char *>out)[0] = bool(x)
        return 0
    if not PyLong_CheckExact(x):
        x = whole_number(c, x)
    if c.code == c"q":
        n = PyLong_AsLongLong(x)
        (<long long *>out)[0] = n
        return 0
    low, high = range_of[c.spec]
    if not low <= x <= high:
        raise OverflowError(f"{x} is outside {low} to {high}, the range of {c.spec!r}")
    n = <long long>PyLong_AsUnsignedLongLongMask(x)
    memcpy(out, &n, c.bytes_each)
    return 0


cdef object decode_number(int code, const char *p):
    cdef uint64_t word = 0
    if code == c"q":
        return (<const long long *>p)[0]
    if code == c"d":
        return (<const double *>p)[0]
    if code == c"Q":
        return (<const unsigned long long *>p)[0]
    if code == c"i":
        return (<const int *>p)[0]
    if code == c"I":
        return (<const unsigned int *>p)[0]
    if code == c"f":
        return (<const float *>p)[0]
    if code == c"h":
        return (<const short *>p)[0]
    if code == c"H":
        return (<const unsigned short *>p)[0]
    if code == c"b":
        return (<const signed char *>p)[0]
    if code == c"B":
        return (<const unsigned char *>p)[0]
    return p[0] != 0


# Keys that are equal in Python have the same bytes: a letter, then what there is to say. Whole
# numbers of any type are integers.


cdef bytes key_bytes(object x):
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
            return key_bytes(int(x))
        d = NAN if isnan(x) else x
        head[0] = c"f"
        memcpy(head + 1, &d, 8)
        return head[:9]
    if isinstance(x, bytes):
        return b"b" + x
    if x is None:
        return b"n"
    if isinstance(x, tuple):
        parts = [key_bytes(y) for y in x]
        return b"t" + b"".join([len(p).to_bytes(8, "little") + p for p in parts])
    if type(x).__module__ == "numpy" and hasattr(x, "item") and getattr(x, "shape", None) == ():
        plain = x.item()
        if isinstance(plain, (bool, int, float)):
            return key_bytes(plain)
    raise TypeError(f"a key is None, bool, int, float, str, bytes or a tuple of these, and "
                    f"{type(x).__name__} {x!r:.60} is not")


cdef object key_of(bytes data):
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
        parts.append(key_of(data[at + 8:at + 8 + size]))
        at += 8 + size
    return tuple(parts)
