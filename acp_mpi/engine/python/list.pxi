# Lists, one element at a time: at once where the list is in reach.

cdef extern from "core/method.h" nogil:
    enum:
        METHOD_LIST_PUT
        METHOD_LIST_TAKE
        METHOD_LIST_WALK
        METHOD_LIST_STEP
        METHOD_LIST_CHECK
        METHOD_LIST_ERASE
        METHOD_LIST_CLEAR
        METHOD_LIST_BURY
        METHOD_LIST_ORDER
        METHOD_LIST_REVERSE
        METHOD_LIST_SPLICE
        METHOD_LIST_SWAP

cdef extern from "containers/list_call.h" nogil:
    enum:
        LIST_DONE
        LIST_STALE
        LIST_CHANGED
        LIST_EMPTY
        LIST_FRONT
        LIST_BACK
        LIST_AT
        LIST_DROP
        LIST_FETCH
        LIST_KEEP
        LIST_BACKWARD
        LIST_BEHIND
    struct list_id:
        uint64_t node, number
    struct list_put:
        list_id at
        uint64_t width
    struct list_record:
        list_id id
        uint64_t size, payload, block
    struct list_answer:
        uint64_t count, changes, orders, size, ended
        acp_ga_t origin
        list_id next
    struct list_order:
        uint64_t changes, count, kept, block
    struct list_span:
        list_id at, first, last
        acp_ga_t source "from"
        uint64_t from_serial, changes
    const uint64_t LIST_INLINE
    const uint64_t LIST_NODE

DEF LITTLE = 1000  # bytes of an element that goes to a call from the stack

cdef char list_out[65536]  # what a call in reach brings: read before any other Python code runs

cdef struct little_put:
    list_put head
    list_record record
    char data[LITTLE]

cdef struct plain_put:
    list_put head
    char data[8]


cdef int stale(str function) except -1:
    raise _errors.AddressError(
        f"{function}: the element of the cursor was taken out of this list; get a new cursor by "
        "begin, end, find or insert")


cdef int changed(str function) except -1:
    raise RuntimeError(
        f"{function}: another rank changed the list meanwhile and nothing was done; try again")


cdef struct one_taken:
    list_answer answer
    list_record record


cdef class ListEnds(Handle):  # type: Handle, Generic[_T]
    """A chain of elements on some rank, one of them at a time."""
    cdef readonly Element _element
    cdef Pickler pickler  # None: they are no objects

    def __cinit__(self, *_, **__):
        self._element = NO_ELEMENT

    def _of(self, Element element) -> None:
        """Say what its elements are."""
        self._element = element
        self.pickler = Pickler.__new__(Pickler) if element.note == b"object" else None

    cdef object called(self, str function, uint8_t method, uint64_t b, bytes taken, uint64_t room):
        cdef Call c = call_new(method, self.ga, self.serial, b, taken, room)
        try:
            call_run(function, c)
        except BaseException:
            leave_brought(c)
            raise
        if c.call.result[0] == LIST_STALE and method != METHOD_LIST_WALK:
            stale(function)
        if c.call.result[0] == LIST_CHANGED:
            changed(function)
        return c

    # At once; false: it is not in reach and nothing has happened.
    cdef bint here(self, str function, acp_call *c) except -1:
        cdef int rc
        if engine == NULL:
            no_engine(function)
        rc = acp_container_here(lane0, c)
        if rc != ACP_OK and rc != ACP_E_BUSY:
            call_ended(function, rc, lane0)
        if rc == ACP_OK and c.result[0] == LIST_STALE:
            stale(function)
        return rc == ACP_OK

    # `at`: where, and then the new element.
    cdef int put_plain(self, str function, uint64_t where, value, list_id *at) except -1:
        cdef acp_call here
        cdef plain_put p
        if not stored_small(self._element.code, value, p.data):
            self._element.store(value, p.data, self, function)
        p.head.width = self._element.width
        p.head.at = at[0] if where == LIST_AT else list_id(0, 0)
        call_fill(&here, METHOD_LIST_PUT, self, where)
        here.in_ = &p
        here.in_size = sizeof(list_put) + p.head.width
        here.out = at
        here.out_room = sizeof(list_id)
        if not self.here(function, &here):
            _, (at.node, at.number) = self.put(function, where, (<char *>&p)[:here.in_size])
        return 0

    cdef int push(self, str function, uint64_t where, value, rank, list_id *at) except -1:
        if rank is None and self._element.code:
            return self.put_plain(function, where, value, at)
        if self.pickler is None:
            data = self._element.bytes_of(value, self, function)
        else:
            data = self.pickler.pickled(value)
        if rank is None and type(data) is bytes and len(data) <= LIST_INLINE:
            at.node, at.number = self._put_bytes(function, where, at.node, at.number, data)
        else:
            at.node, at.number = self._place(function, where, (at.node, at.number), data, rank)
        return 0

    def push_back(self, value: _T, rank: Int | None = None) -> None:
        """Put `value` behind the last element; its bytes lie on `rank`, None: with the chain."""
        cdef list_id at = list_id(0, 0)
        self.push("List.push_back", LIST_BACK, value, rank, &at)

    def push_front(self, value: _T, rank: Int | None = None) -> None:
        """Put `value` before the first element; its bytes lie on `rank`, None: with the chain."""
        cdef list_id at = list_id(0, 0)
        self.push("List.push_front", LIST_FRONT, value, rank, &at)

    def insert(self, cursor: ListCursor[_T], value: _T, rank: Int | None = None) -> ListCursor[_T]:
        """Put `value` before the element of `cursor` and return the cursor of the new one."""
        cdef list_id at
        self.find_id(cursor, "List.insert", &at)
        self.push("List.insert", LIST_AT, value, rank, &at)
        return cursor_at(self, at)

    def erase(self, cursor: ListCursor[_T]) -> ListCursor[_T]:
        """Take out the element of `cursor` and return the cursor of the one behind it."""
        cdef list_id at
        cdef acp_call here
        cdef one_taken taken
        cdef Call c
        self.find_id(cursor, "List.erase", &at)
        if not at.node:
            no_element("List.erase")
        call_fill(&here, METHOD_LIST_TAKE, self, LIST_AT | 1 << 8 | <uint64_t>LIST_DROP << 32)
        here.in_ = &at
        here.in_size = sizeof(list_id)
        here.out = &taken
        here.out_room = sizeof(one_taken)
        if not self.here("List.erase", &here):
            c = self.called("List.erase", METHOD_LIST_TAKE, here.b,
                            (<char *>&at)[:sizeof(list_id)], sizeof(one_taken))
            taken = (<one_taken *>PyByteArray_AS_STRING(c.brought))[0]
        if taken.record.block:
            self._free([taken.record.block])
        return cursor_at(self, taken.answer.next)

    cdef int find_id(self, cursor, str function, list_id *id) except -1:
        if not isinstance(cursor, ListCursor):
            raise TypeError(f"{function}: {cursor!r} is no cursor; begin, end and find return one")
        cdef ListEnds list = (<ListCursor>cursor).list
        if list is not self and list != self:
            raise ValueError(f"{function}: {cursor!r} is not of this list; use one of its own")
        id[0] = (<ListCursor>cursor).at
        return 0

    def _id_of(self, cursor: ListCursor[Any], str function) -> tuple[int, int]:
        """Return (node, number) of a cursor of this list. ValueError for any other."""
        cdef list_id id
        self.find_id(cursor, function, &id)
        return id.node, id.number

    def pop_back(self) -> _T:
        """Take out the last element and return it. IndexError if there is none."""
        return self.pop_at("List.pop_back", LIST_BACK)

    def pop_front(self) -> _T:
        """Take out the first element and return it. IndexError if there is none."""
        return self.pop_at("List.pop_front", LIST_FRONT)

    def _put_bytes(self, str function, uint64_t where, uint64_t node, uint64_t number,
                   bytes data) -> tuple[int, int]:
        """Put an element beside the chain; returns (node, number). At most `inline_most` bytes."""
        cdef acp_call here
        cdef little_put p
        cdef list_id id
        cdef uint64_t size = len(data), room = (size + 7) & ~<uint64_t>7
        p.head.at.node = node
        p.head.at.number = number
        p.head.width = 0
        memset(&p.record, 0, sizeof(list_record))
        p.record.size = size
        if size <= LITTLE - 8:
            memcpy(p.data, PyBytes_AS_STRING(data), size)
            call_fill(&here, METHOD_LIST_PUT, self, where)
            here.in_ = &p
            here.in_size = sizeof(list_put) + sizeof(list_record) + room
            here.out = &id
            here.out_room = sizeof(list_id)
            if self.here(function, &here):
                return id.node, id.number
        return self.put(function, where, (<char *>&p)[:sizeof(list_put) + sizeof(list_record)]
                        + data.ljust(room, b"\0"))[1]

    cdef object put(self, str function, uint64_t where, bytes taken):
        cdef Call c = self.called(function, METHOD_LIST_PUT, where, taken, sizeof(list_id))
        cdef list_id *id = <list_id *>PyByteArray_AS_STRING(c.brought)
        return c.call.result[1], (id.node, id.number)

    # An element that was taken out, from where it lies; its block goes away if it has one.
    cdef object taken_out(self, str function, const list_record *r, const char *data):
        cdef uint64_t payload = r.payload, block = r.block, size = r.size
        if not payload:
            if self._element.code:
                return self._element.value(data)
            return self._element.unpack(data[:size])
        if self.pickler is not None and acp_near(lane0, payload):
            try:
                return object_in_place(payload, size)
            finally:
                free(block)
        room = reading_room_take(size)
        try:
            get(payload, memoryview(room)[:size])
        except BaseException:
            leave_orphans([block])
            raise
        free(block)
        value = self._decoded(room if self.pickler is not None else bytes(memoryview(room)[:size]))
        reading_room_give(room)
        return value

    def _decoded(self, data: bytes | bytearray) -> Any:
        """Return the value of the bytes of an element."""
        if self._element.code:
            return self._element.value(PyBytes_AS_STRING(<bytes?>data))
        return self._element.unpack(data)

    cdef object pop_at(self, str function, uint64_t where):
        cdef acp_call here
        cdef Call c
        cdef char *out = list_out
        cdef uint64_t outcome, b = where | 1 << 8 | <uint64_t>LIST_FETCH << 32
        call_fill(&here, METHOD_LIST_TAKE, self, b)
        here.out = out
        here.out_room = sizeof(list_out)
        if self.here(function, &here):
            outcome = here.result[0]
        else:
            c = self.called(function, METHOD_LIST_TAKE, b, None, self.room_of_one())
            outcome = c.call.result[0]
            out = PyByteArray_AS_STRING(c.brought)
        if outcome == LIST_EMPTY:
            raise IndexError(f"{function}: the list is empty; see size()")
        cdef list_record *r = <list_record *>(out + sizeof(list_answer))
        if self._element.code and not r.payload:
            return self._element.value(<char *>(r + 1))
        return self.taken_out(function, r, <char *>(r + 1))

    cdef uint64_t room_of_one(self):
        if not self._element.width or self._element.width > LIST_INLINE:
            return ACP_CALL_MOST
        return sizeof(list_answer) + sizeof(list_record) + ((self._element.width + 7) & ~<uint64_t>7)

    def size(self) -> int:
        """Return how many elements there are."""
        cdef acp_call here
        cdef Call c
        call_fill(&here, METHOD_LIST_WALK, self, 0)
        here.out = list_out
        here.out_room = sizeof(list_answer)
        if self.here("List.size", &here):
            return (<list_answer *>list_out).size
        c = self.called("List.size", METHOD_LIST_WALK, 0, None, sizeof(list_answer))
        return (<list_answer *>PyByteArray_AS_STRING(c.brought)).size

    def __len__(self) -> int:
        return self.size()
