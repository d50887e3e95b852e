# Vectors and deques: splices and reads, at once where the sequence is in reach.

cdef extern from "core/method.h" nogil:
    enum:
        SPLICE_CLIPS
        SPLICE_REPEATS
        SPLICE_BRINGS
        SPLICE_BLOCK
        SPLICE_RESIZES
    const uint64_t RESERVE_FITS
    struct splice:
        int64_t at
        uint64_t erase, insert, flags
        acp_ga_t block
    struct stretch:
        uint64_t count, flags
    struct sequence_look:
        uint64_t size, room, width, bytes
        acp_ga_t data

CLIPS = SPLICE_CLIPS
REPEATS = SPLICE_REPEATS
RESIZES = SPLICE_RESIZES

cdef struct small_splice:
    splice plan
    char element[PLAIN]


cdef class SequenceCalls(Handle):
    """A row of elements of one type on some rank."""
    cdef readonly Element _element

    def __cinit__(self, *_, **__):
        self._element = NO_ELEMENT

    def _of(self, Element element) -> None:
        """Say what its elements are."""
        self._element = element

    cdef int no_place(self, str function, object at) except -1:
        raise IndexError(f"{self.titled(function)}: there is no element at {at}; see size()")

    cdef int64_t place(self, str function, object at) except? -1:
        # Python's index. What is beyond every size is an IndexError as well.
        cdef int overflow = 0
        cdef long long place
        if PyLong_CheckExact(at):
            place = PyLong_AsLongLongAndOverflow(at, &overflow)
            if not overflow:
                return place
        if not PyIndex_Check(at):
            raise TypeError(f"{self.titled(function)}: {at!r:.60} is no index; use an int")
        at = PyNumber_Index(at)
        if not -(1 << 63) <= at < 1 << 63:
            self.no_place(function, at)
        return at

    # One element of a plain type, there or not, and where; 0: not in reach, nothing has happened.
    cdef int splice_here(self, str function, small_splice *s, uint64_t size, char *out,
                         uint64_t *there) except -1:
        cdef acp_call here
        cdef int rc
        if engine == NULL:
            no_engine(self.titled(function))
        call_fill(&here, METHOD_SEQUENCE_SPLICE, self, 0)
        here.in_ = s
        here.in_size = size
        here.out = out
        here.out_room = PLAIN if out != NULL else 0
        rc = acp_container_here(lane0, &here)
        there[0] = here.result[0]
        there[1] = here.result[1]
        if rc != ACP_OK and rc != ACP_E_BUSY:
            call_ended(self.titled(function), rc, lane0)
        return rc == ACP_OK

    cdef int64_t put_one(self, str function, int64_t at, object x, bint replace) except -1:
        # In place of the element at `at`, or before it; INT64_MAX: behind the last one. Where it is.
        cdef small_splice s
        cdef uint64_t there[2]
        cdef uint64_t flags = 0 if replace else SPLICE_CLIPS
        if self._element.code:
            if not stored_small(self._element.code, x, s.element):
                self._element.store(x, s.element, self, function)
            s.plan.at = at
            s.plan.erase = replace
            s.plan.insert = 1
            s.plan.flags = flags
            s.plan.block = 0
            if self.splice_here(function, &s, sizeof(splice) + self._element.width, NULL, there):
                if not there[0]:
                    self.no_place(function, at)
                return there[1]
        return self._replace(function, at, replace, 1, flags, self._element.bytes_of(x, self, function))

    cdef object pop_one(self, str function, int64_t at):
        cdef small_splice s
        cdef char out[PLAIN]
        cdef uint64_t there[2]
        if self._element.code:
            s.plan.at = at
            s.plan.erase = 1
            s.plan.insert = 0
            s.plan.flags = SPLICE_BRINGS
            s.plan.block = 0
            if self.splice_here(function, &s, sizeof(splice), out, there):
                if not there[0]:
                    self.no_place(function, at)
                return self._element.value(out)
        cdef uint64_t width = self._element.width
        cdef bint far = width > ACP_CALL_MOST
        cdef Call c = self.spliced(function, at, 1, 0,
                                   SPLICE_BRINGS | (SPLICE_BLOCK if far else 0), b"",
                                   0 if far else width)
        data = self.fetched(c.call.result[1], width) if far else c.brought or bytearray()
        return self._element.value(PyByteArray_AS_STRING(data))

    def _replace(self, str function, int64_t at, uint64_t erase, uint64_t insert, uint64_t flags,
                 data) -> int:
        """Take `erase` elements out at `at` and put `insert` in, from the bytes `data`.

        `data` is an address instead if it is an int: of a block on the same rank, which the
        sequence keeps or frees. Returns the index at which that was. IndexError if there is no
        such place.
        """
        return self.spliced(function, at, erase, insert, flags, data, 0).call.result[1]

    cdef Call spliced(self, str function, int64_t at, uint64_t erase, uint64_t insert,
                      uint64_t flags, data, uint64_t room):
        cdef splice plan
        cdef Call c
        cdef uint64_t block = 0
        cdef bytes taken = b""
        function = self.titled(function)
        need(function)
        plan.at = at
        plan.erase = erase
        plan.insert = insert
        if isinstance(data, int):
            block = data
        elif len(data) > ACP_CALL_MOST - sizeof(splice):
            block = malloc(len(data), acp_ga_rank(self.ga))
            try:
                put(block, data)
            except BaseException:
                leave_orphans([block])
                raise
        else:
            taken = bytes(data)
        plan.flags = flags
        plan.block = block
        c = call_new(METHOD_SEQUENCE_SPLICE, self.ga, self.serial, 0,
                     (<char *>&plan)[:sizeof(splice)] + taken, room)
        try:
            call_run(function, c)
            if not c.call.result[0]:
                self.no_place(function, at)
        except BaseException:
            if block:
                leave_orphans([block], c)
            if flags & SPLICE_BLOCK:
                leave_brought(c)
            raise
        return c

    cdef object fetched(self, uint64_t block, uint64_t size):
        data = PyByteArray_FromStringAndSize(NULL, size)
        try:
            get(block, data)
        except BaseException:
            leave_orphans([block])
            raise
        free(block)
        return data

    cdef object read_one(self, str function, int64_t at):
        cdef acp_call here
        cdef char out[PLAIN]
        cdef int rc
        if engine == NULL:
            no_engine(self.titled(function))
        if self._element.code:
            call_fill(&here, METHOD_SEQUENCE_READ, self, <uint64_t>at)
            here.out = out
            here.out_room = PLAIN
            rc = acp_container_here(lane0, &here)
            if rc == ACP_OK:
                if not here.result[0]:
                    self.no_place(function, at)
                return self._element.value(out)
            if rc != ACP_E_BUSY:
                call_ended(self.titled(function), rc, lane0)
        data = self._read(function, at, 1, 0)
        return self._element.value(PyByteArray_AS_STRING(data))

    cdef Call asked(self, str function, int64_t at, stretch *plan, uint64_t room):
        cdef Call c = call_new(METHOD_SEQUENCE_READ, self.ga, self.serial, <uint64_t>at,
                               (<char *>plan)[:sizeof(stretch)], room)
        try:
            call_run(function, c)
        except BaseException:
            if plan.flags & SPLICE_BLOCK:
                leave_brought(c)
            raise
        return c

    def _read(self, str function, int64_t at, uint64_t count, uint64_t flags) -> bytearray:
        """Return the bytes of `count` elements from `at` on, read at one instant.

        IndexError if there is no such place, unless the flags cut it to what there is.
        """
        cdef stretch plan
        cdef uint64_t width = self._element.width, room, wanted = 0
        cdef Call c
        function = self.titled(function)
        need(function)
        plan.count = count
        plan.flags = flags
        room = ACP_CALL_MOST if count > ACP_CALL_MOST or count * width > ACP_CALL_MOST \
            else count * width
        while True:
            c = self.asked(function, at, &plan, room)
            wanted = c.call.result[0] * width
            if plan.flags & SPLICE_BLOCK:
                return self.fetched(c.call.result[1], wanted)
            if c.call.result[0] == 0 and count and not flags & SPLICE_CLIPS:
                self.no_place(function, at)
            if wanted <= room:
                return c.brought if c.brought is not None else bytearray()
            if acp_near(lane0, self.ga):
                room = wanted + wanted // 8  # it may grow meanwhile
            else:
                plan.flags |= SPLICE_BLOCK
                room = 0

    def _read_block(self, str function, int64_t at, uint64_t count) -> tuple[int, int]:
        """Copy what there is of `count` elements from `at` on to a block of the same rank.

        Returns its address and how many they are. Read at one instant.
        """
        cdef stretch plan
        need(function)
        plan.count = count
        plan.flags = SPLICE_CLIPS | SPLICE_BLOCK
        cdef Call c = self.asked(function, at, &plan, 0)
        return c.call.result[1], c.call.result[0]

    def _look(self, str function) -> tuple[int, int, int, int, int]:
        """Return (size, room, width, bytes, address of the elements or 0)."""
        cdef sequence_look *look
        need(function)
        cdef Call c = call_new(METHOD_SEQUENCE_LOOK, self.ga, self.serial, 0, None,
                               sizeof(sequence_look))
        call_run(function, c)
        look = <sequence_look *>PyByteArray_AS_STRING(c.brought)
        return look.size, look.room, look.width, look.bytes, look.data
