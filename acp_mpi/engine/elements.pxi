# Elements of containers: Python values to bytes and back. The letter of a plain type is that of
# the struct module; elements of other types have functions for it.

cdef extern from "Python.h":
    long long PyLong_AsLongLong(object) except? -1
    double PyFloat_AsDouble(object) except? -1

DEF PLAIN = 8  # bytes of the largest plain type


def raw_bytes(x):
    """Return the bytes of a buffer; TypeError for anything else."""
    return x if type(x) is bytes else bytes(memoryview(x))


cdef class Element:
    """A type of elements: its bytes, its letter or functions, and how others learn of it."""
    cdef readonly uint64_t width
    cdef readonly bytes note
    cdef char code  # 0: by the functions
    cdef object pack, unpack

    def __init__(self, uint64_t width, bytes note, str letter, pack, unpack):
        self.width = width
        self.note = note
        self.code = ord(letter) if letter else 0
        self.pack = pack
        self.unpack = unpack

    @property
    def letter(self):
        """The letter of a plain type, else empty."""
        return chr(self.code) if self.code else ""

    cdef object value(self, const char *p):
        cdef char letter = self.code
        if letter == c"q":
            return (<int64_t *>p)[0]
        if letter == c"d":
            return (<double *>p)[0]
        if letter == c"i":
            return (<int *>p)[0]
        if letter == c"f":
            return (<float *>p)[0]
        if letter == c"Q":
            return (<uint64_t *>p)[0]
        if letter == c"I":
            return (<unsigned int *>p)[0]
        if letter == c"h":
            return (<short *>p)[0]
        if letter == c"H":
            return (<unsigned short *>p)[0]
        if letter == c"b":
            return <int>(<signed char *>p)[0]
        if letter == c"B":
            return <int>(<unsigned char *>p)[0]
        if letter == c"?":
            return p[0] != 0
        return self.unpack(p[:self.width])

    cdef int store(self, object x, char *p) except -1:
        # Of a plain type.
        cdef char letter = self.code
        if letter == c"q":
            (<int64_t *>p)[0] = PyLong_AsLongLong(x)
        elif letter == c"d":
            (<double *>p)[0] = PyFloat_AsDouble(x)
        elif letter == c"f":
            (<float *>p)[0] = <float>PyFloat_AsDouble(x)
        elif letter == c"Q":
            (<uint64_t *>p)[0] = PyNumber_Index(x)
        elif letter == c"i":
            (<int *>p)[0] = PyNumber_Index(x)
        elif letter == c"I":
            (<unsigned int *>p)[0] = PyNumber_Index(x)
        elif letter == c"h":
            (<short *>p)[0] = PyNumber_Index(x)
        elif letter == c"H":
            (<unsigned short *>p)[0] = PyNumber_Index(x)
        elif letter == c"b":
            (<signed char *>p)[0] = PyNumber_Index(x)
        elif letter == c"B":
            (<unsigned char *>p)[0] = PyNumber_Index(x)
        else:
            p[0] = bool(x)
        return 0

    def packed(self, x):
        """Return the bytes of a value."""
        cdef char plain[PLAIN]
        if self.code == 0:
            return self.pack(x)
        self.store(x, plain)
        return plain[:self.width]

    def unpacked(self, bytes data):
        """Return the value of the bytes of one element."""
        return self.value(PyBytes_AS_STRING(data))
