# Elements of containers: Python values to bytes and back. The letter of a plain type is that of
# the struct module; elements of other types have functions for it.

cdef extern from "Python.h":
    long long PyLong_AsLongLong(object) except? -1
    long long long_long "PyLong_AsLongLong"(object) noexcept  # look for the error oneself
    double real "PyFloat_AsDouble"(object) noexcept
    void *PyErr_Occurred()
    bint PyErr_ExceptionMatches(object)
    void PyErr_Clear()

cdef extern from *:  # of Cython itself: ints of one digit, without a call
    bint is_compact "__Pyx_PyLong_IsCompact"(object)
    Py_ssize_t compact "__Pyx_PyLong_CompactValue"(object)

cdef inline bint stored_small(char letter, object x, char *p) noexcept:
    # The most frequent types; false: `store` does it.
    if letter == c"q" and PyLong_CheckExact(x) and is_compact(x):
        (<int64_t *>p)[0] = compact(x)
        return True
    return False


DEF PLAIN = 8  # bytes of the largest plain type


def raw_bytes(x) -> bytes:
    """Return the bytes of a buffer; TypeError for anything else."""
    if type(x) is bytes:
        return x
    from acp_mpi.rma.buffers import hosted
    x = hosted(x, "value")
    try:
        return bytes(memoryview(x))
    except TypeError:
        raise TypeError(f"{x!r:.60} is no bytes; give a buffer") from None


cdef class Element:
    """A type of elements: its bytes, its letter or functions, and its form for others."""
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
    def letter(self) -> str:
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

    cdef int store(self, object x, char *p, Handle whose, str method) except -1:
        # Of a plain type; errors name the method.
        cdef char letter = self.code
        cdef long long n
        cdef double d
        if letter == c"d" or letter == c"f":
            d = real(x)
            if d == -1 and PyErr_Occurred() != NULL:
                return self.refused(x, whose, method)
            if letter == c"d":
                (<double *>p)[0] = d
            else:
                (<float *>p)[0] = <float>d
            return 0
        if letter == c"?":
            # The truth of other values is not a number: that of the text "False" is true.
            if x is not True and x is not False:
                d = real(x)
                if (d == -1 and PyErr_Occurred() != NULL) or (d != 0 and d != 1):
                    return self.refused(x, whose, method)
                x = d != 0
            p[0] = x
            return 0
        if letter == c"Q":
            return self.store_unsigned(x, p, whose, method)
        n = long_long(x)
        if n == -1 and PyErr_Occurred() != NULL:
            return self.refused(x, whose, method)
        if letter == c"q":
            (<int64_t *>p)[0] = n
        elif letter == c"i" and n == <int>n:
            (<int *>p)[0] = <int>n
        elif letter == c"I" and n == <unsigned int>n:
            (<unsigned int *>p)[0] = <unsigned int>n
        elif letter == c"h" and n == <short>n:
            (<short *>p)[0] = <short>n
        elif letter == c"H" and n == <unsigned short>n:
            (<unsigned short *>p)[0] = <unsigned short>n
        elif letter == c"b" and n == <signed char>n:
            (<signed char *>p)[0] = <signed char>n
        elif letter == c"B" and n == <unsigned char>n:
            (<unsigned char *>p)[0] = <unsigned char>n
        else:
            self.refused(x, whose, method)
        return 0

    cdef int store_unsigned(self, object x, char *p, Handle whose, str method) except -1:
        if not PyIndex_Check(x):
            return self.refused(x, whose, method)
        whole = PyNumber_Index(x)
        if not 0 <= whole < 1 << 64:
            return self.refused(x, whose, method)
        (<uint64_t *>p)[0] = whole
        return 0

    cdef int refused(self, object x, Handle whose, str method) except -1:
        # An error of the conversion is raised anew, with the wanted type; others stay.
        cdef bint large = False
        if PyErr_Occurred() != NULL:
            large = PyErr_ExceptionMatches(OverflowError)
            if not large and not PyErr_ExceptionMatches(TypeError):
                return -1
            PyErr_Clear()
        name = "" if method is None else f"{method if whose is None else whose.titled(method)}: "
        if self.code == c"?":
            raise TypeError(f"{name}{x!r:.60} is neither true nor false, which type '?' holds; use "
                            "bool() of it")
        if large or (self.code != c"d" and self.code != c"f" and PyIndex_Check(x)):
            raise OverflowError(f"{name}{x!r:.60} does not fit into {self.width} bytes of type "
                                f"'{self.letter}'; use a type with more room")
        wanted = "number" if self.code == c"d" or self.code == c"f" else "whole number"
        raise TypeError(f"{name}{x!r:.60} is no {wanted}, which type '{self.letter}' holds; "
                        "convert it first")

    def packed(self, x, str function=None) -> bytes:
        """Return the bytes of a value; errors name `function`."""
        return self.bytes_of(x, None, function)

    cdef bytes bytes_of(self, object x, Handle whose, str method):
        cdef char plain[PLAIN]
        if self.code:
            self.store(x, plain, whose, method)
            return plain[:self.width]
        if method is None or self.note == b"object":  # pickling has errors of its own
            return self.pack(x)
        try:
            return self.pack(x)
        except (TypeError, ValueError, OverflowError) as error:
            name = method if whose is None else whose.titled(method)
            kind = next(k for k in (TypeError, ValueError, OverflowError) if isinstance(error, k))
            raise kind(f"{name}: {error}") from error

    def unpacked(self, bytes data) -> Any:
        """Return the value of the bytes of one element."""
        return self.value(PyBytes_AS_STRING(data))


# Of a handle that names no container: its class has not called __init__.
cdef Element NO_ELEMENT = Element(1, b"B", "B", None, None)
