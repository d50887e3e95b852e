# Workspaces: a span of bytes dealt out to parts, one call for each piece, all under way together.

from cpython.buffer cimport PyBUF_ND

cdef extern from "core/method.h" nogil:
    enum:
        METHOD_WORKSPACE_ADD
        METHOD_WORKSPACE_LOOK
        METHOD_WORKSPACE_READ
        METHOD_WORKSPACE_WRITE
        METHOD_WORKSPACE_ZERO
        WORKSPACE_LETTER

DEF ZEROED = 1048576  # bytes that one call sets to zero


cdef uint64_t letter_of(const Py_buffer *view, str function) except 0:
    # Of the numbers in a buffer, as the engine names them by their size.
    cdef bytes text = view.format if view.format != NULL else b"B"
    cdef bytes kind = text.lstrip(b"@=<")
    signed, unsigned = {1: b"b", 2: b"h", 4: b"i", 8: b"q"}, {1: b"B", 2: b"H", 4: b"I", 8: b"Q"}
    if len(kind) == 1:
        if kind in b"bhilqn":
            kind = signed[view.itemsize]
        elif kind in b"BHILQNc":
            kind = unsigned[view.itemsize]
        if kind in b"bhiqBHIQfd":
            return kind[0]
    raise TypeError(f"{function}: elements of format {text.decode()!r} cannot be added; use "
                    "integers of 1 to 8 bytes, float32 or float64 in this machine's byte order")


cdef object numbers_in_a_row(object buffer, str function):
    # Of a buffer that is not contiguous; of others TypeError.
    from acp_mpi.rma.buffers import hosted
    buffer = hosted(buffer, function)
    try:
        strided = memoryview(buffer)
        return memoryview(strided.tobytes()).cast(strided.format)
    except (BufferError, TypeError, ValueError) as error:
        raise TypeError(f"{function}: what {type(buffer).__name__} holds cannot be added "
                        f"({error}); use integers of 1 to 8 bytes, float32 or float64 in this "
                        "machine's byte order") from error


cdef class WorkspaceHandle(Handle):
    """Bytes spread over ranks: those of block k are on part k modulo the number of parts."""
    # (address, serial) of each
    cdef readonly list _parts  # type: list[tuple[int, int]]
    cdef readonly uint64_t _block
    cdef readonly uint64_t _total

    def _of(self, list parts: list[tuple[int, int]], uint64_t block, uint64_t total) -> None:
        """Say where the bytes are."""
        self._parts = parts
        self._block = block
        self._total = total

    cdef uint64_t span(self, str function, object offset, uint64_t size) except? 0xffffffffffffffff:
        first = as_int(offset, function, "an offset")
        if not 0 <= first <= self._total or size > self._total - first:
            raise IndexError(f"{function}: {size} bytes at offset {first} are not within the "
                             f"{self._total} bytes of this workspace; use a smaller offset or buffer")
        return first

    cdef int move(self, str function, uint8_t method, uint64_t tag, char *memory, uint64_t size,
                  uint64_t first, object keeper) except -1:
        # A span without bytes is a call all the same: it finds out whether the workspace is there.
        cdef Round r = Round(function)
        cdef Call c
        cdef uint64_t k, at, n, count = len(self._parts)
        need(function)
        while True:
            k = min(first, max(self._total, 1) - 1) // self._block
            at = first - k * self._block
            n = min(size, self._block - at, ACP_CALL_MOST)
            ga, serial = self._parts[k % count]
            c = call_new(method, ga, serial, (k // count * self._block + at) | tag)
            c.taken = keeper
            if method == METHOD_WORKSPACE_READ:
                c.call.out = memory
                c.call.out_room = n
            else:
                c.call.in_ = memory
                c.call.in_size = n
            r.add(c, None)
            memory += n
            first += n
            size -= n
            if size == 0:
                break
        r.done()
        return 0

    def _touch(self, str function) -> None:
        """Raise AddressError if it is gone."""
        self.move(function, METHOD_WORKSPACE_READ, 0, NULL, 0, 0, None)

    def read(self, buffer: _Buffer, offset: Int) -> _Buffer:
        """Fill `buffer` with the bytes from `offset` on; returns `buffer`.

        IndexError if it does not lie within the workspace; nothing is moved then. Each 64 KiB of
        the span, counted from its beginning on each rank's piece, are read at one instant.
        """
        cdef Py_buffer view
        finish = plain_buffer(buffer, &view, True, "Workspace.read")
        try:
            self.move("Workspace.read", METHOD_WORKSPACE_READ, 0, <char *>view.buf, view.len,
                      self.span("Workspace.read", offset, view.len), kept(&view))
        finally:
            PyBuffer_Release(&view)
        if finish is not None:
            finish(view.len)
        return buffer

    def write(self, buffer, offset: Int) -> None:
        """Write `buffer` to the bytes from `offset` on; done when it returns.

        IndexError if it does not lie within the workspace; nothing is moved then.
        """
        cdef Py_buffer view
        plain_buffer(buffer, &view, False, "Workspace.write")
        try:
            self.move("Workspace.write", METHOD_WORKSPACE_WRITE, 0, <char *>view.buf, view.len,
                      self.span("Workspace.write", offset, view.len), kept(&view))
        finally:
            PyBuffer_Release(&view)

    def accumulate(self, buffer, offset: Int) -> None:
        """Add the numbers in `buffer` to those from `offset` on, which have the same type.

        Integers of 1 to 8 bytes, which wrap around, float32 and float64. None is lost against
        other calls of any rank. IndexError if the buffer does not lie within the workspace,
        AlignmentError if `offset` or the workspace's `default_size` is not a multiple of a
        number's size, TypeError for other elements; nothing is added then.
        """
        cdef Py_buffer view
        cdef uint64_t letter, first
        cdef str function = "Workspace.accumulate"
        try:
            PyObject_GetBuffer(buffer, &view, PyBUF_FORMAT | PyBUF_ND)
        except (BufferError, TypeError, ValueError):
            PyObject_GetBuffer(numbers_in_a_row(buffer, function), &view, PyBUF_FORMAT | PyBUF_ND)
        try:
            letter = letter_of(&view, function)
            first = self.span(function, offset, view.len)
            for what, number in (("offset", first), ("default_size", self._block)):
                if number % view.itemsize:
                    raise _errors.AlignmentError(
                        f"{function}: the {what} {number} is not a multiple of the {view.itemsize} "
                        "bytes of a number; use one that is")
            self.move(function, METHOD_WORKSPACE_ADD, letter << WORKSPACE_LETTER,
                      <char *>view.buf, view.len, first, kept(&view))
        finally:
            PyBuffer_Release(&view)

    def _places(self, str function, offset: Int, size: Int) -> list[tuple[int, int]]:
        """Return address and bytes of each piece of a span, in order."""
        cdef uint64_t n, k, at, left = amount(size, function)
        cdef uint64_t first = self.span(function, offset, left), count = len(self._parts)
        looked = self._look(function)
        pieces = []
        while left:
            k = first // self._block
            at = first - k * self._block
            n = min(left, self._block - at)
            pieces.append((looked[k % count][1] + k // count * self._block + at, n))
            first += n
            left -= n
        return pieces

    def _look(self, str function) -> list[tuple[int, int]]:
        """Return how many bytes each part has, and their address."""
        cdef Call c
        cdef Round r = Round(function)
        need(function)
        for ga, serial in self._parts:
            r.add(call_new(METHOD_WORKSPACE_LOOK, ga, serial, 0), None)
        looked = []
        for _, call, _ in r.done():
            c = call
            looked.append((c.call.result[0], c.call.result[1]))
        return looked

    def _zero(self, str function, list sizes: list[int]) -> None:
        """Set the bytes of each part, as many as `sizes` has for it, to zero."""
        cdef Round r = Round(function)
        cdef uint64_t at, n, size
        need(function)
        for (ga, serial), each in zip(self._parts, sizes):
            size = each
            for at in range(0, size, ZEROED):
                n = min(size - at, ZEROED)
                r.add(call_new(METHOD_WORKSPACE_ZERO, ga, serial, at, (<char *>&n)[:8]), None)
        r.done()
