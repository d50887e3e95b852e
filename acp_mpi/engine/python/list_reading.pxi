# Lists as they are read: in batches, or one element, at once where the list is in reach.

FRONT = LIST_FRONT
BACK = LIST_BACK
AT = LIST_AT
DROP = LIST_DROP
KEEP = LIST_KEEP
BACKWARD = LIST_BACKWARD
BEHIND = LIST_BEHIND
ANY_CHANGES = 0xffffffffffffffff
inline_most = LIST_INLINE
node_bytes = LIST_NODE


class Gone:
    """In place of a value: its element was taken out before it could be fetched."""


GONE = Gone()


cdef class Batch:
    """Elements that one call has brought: their nodes and numbers, and their values.

    These are bytes where the type is not plain; those that lie elsewhere are missing: `elsewhere`
    has (index, address, bytes).
    """
    cdef readonly list nodes, numbers  # type: list[int]
    cdef readonly list values
    cdef readonly list elsewhere, blocks  # type: list[tuple[int, int, int]]
    cdef readonly uint64_t changes, orders, size, origin
    cdef readonly bint ended, stale
    cdef readonly object next  # type: tuple[int, int]

    def id(self, i: int) -> tuple[int, int]:
        """Return the node and the number of one of its elements."""
        return self.nodes[i], self.numbers[i]

    def ids(self, most: int) -> bytes:
        """Return what names the last of its elements, the very last one first."""
        pairs = list(zip(self.nodes[-most:], self.numbers[-most:]))[::-1]
        return ids_of(pairs)


cdef Batch batch_new():
    cdef Batch batch = Batch.__new__(Batch)
    batch.nodes, batch.numbers, batch.values, batch.elsewhere = [], [], [], []
    batch.blocks = []
    return batch


def ids_of(pairs: Sequence[tuple[int, int]]) -> bytes:
    """Return pairs of node and number as calls take them."""
    cdef list_id id
    parts = []
    for id.node, id.number in pairs:
        parts.append((<char *>&id)[:sizeof(list_id)])
    return b"".join(parts)


cdef class ListReader(ListEnds):  # type: ListEnds[_T]
    """A chain of elements on some rank, as it is read."""

    cdef Batch filled(self, Batch batch, const char *out, bint values):
        # No object is made meanwhile that the garbage collector counts: it would run finalizers, which
        # may be other Python code and bring something else to where `out` is.
        cdef const list_answer *a = <const list_answer *>out
        cdef const list_record *r
        cdef list_id following = a.next
        cdef uint64_t i
        cdef list far = batch.elsewhere, blocks = batch.blocks
        batch.changes, batch.orders, batch.size = a.changes, a.orders, a.size
        batch.ended, batch.origin = a.ended, a.origin
        out += sizeof(list_answer)
        for i in range(a.count):
            r = <const list_record *>out
            out += sizeof(list_record)
            batch.nodes.append(r.id.node)
            batch.numbers.append(r.id.number)
            if not values:
                blocks.append(r.size)
                blocks.append(r.payload)
                blocks.append(r.block)
                continue
            if r.payload:
                far.append(i)
                far.append(r.payload)
                far.append(r.size)
                batch.values.append(None)
                continue
            if self._element.code:
                batch.values.append(self._element.value(out))
            else:
                batch.values.append(out[:r.size])
            out += (r.size + 7) & ~<uint64_t>7
        batch.next = (following.node, following.number)
        batch.elsewhere = list(zip(far[::3], far[1::3], far[2::3]))
        batch.blocks = list(zip(blocks[::3], blocks[1::3], blocks[2::3]))
        return batch

    def _walk(self, str function, uint64_t flags, uint64_t most, bytes ids) -> Batch:
        """Read elements from the first of `ids` that is there on.

        At most `most`, 0: as many as fit. Without `ids` from the beginning, or the end if backward.
        """
        cdef acp_call here
        cdef Call c
        cdef Batch batch = batch_new()
        cdef uint64_t room
        call_fill(&here, METHOD_LIST_WALK, self, flags | most << 8)
        here.in_ = PyBytes_AS_STRING(ids)
        here.in_size = len(ids)
        here.out = list_out
        here.out_room = sizeof(list_out)
        if engine == NULL:
            no_engine(function)
        cdef int rc = acp_container_here(lane0, &here)
        if rc == ACP_OK:
            batch.stale = here.result[0] == LIST_STALE
            return self.filled(batch, list_out, True)
        if rc != ACP_E_BUSY:
            call_ended(function, rc, lane0)
        room = self.room_of_one() if most == 1 else ACP_CALL_MOST
        c = self.called(function, METHOD_LIST_WALK, flags | most << 8, ids, room)
        batch.stale = c.call.result[0] == LIST_STALE
        return self.filled(batch, PyByteArray_AS_STRING(c.brought), True)

    def _step(self, str function, int64_t far, bytes ids) -> tuple[int, tuple[int, int]]:
        """Go `far` elements from the first of two; returns how far it went, and the id there."""
        cdef Call c = self.called(function, METHOD_LIST_STEP, <uint64_t>far, ids, sizeof(list_id))
        cdef list_id *id = <list_id *>PyByteArray_AS_STRING(c.brought)
        return <int64_t>c.call.result[1], (id.node, id.number)

    def _check(self, str function, bytes ids) -> bytes:
        """Return a byte for each of `ids`: 1 if that element is in the list."""
        cdef Call c = self.called(function, METHOD_LIST_CHECK, 0, ids, len(ids) // sizeof(list_id))
        return bytes(c.brought)

    def _stand(self, str function, id: tuple[int, int]) -> None:
        """Raise AddressError unless that element, or with the end the list, is there."""
        if self._check(function, ids_of([id])) != b"\1" and id != END:
            stale(function)

    # The first of them from `at` on, or, without, from an end; GONE: it was erased meanwhile.
    cdef object one(self, str function, uint64_t flags, const list_id *at):
        cdef acp_call here
        cdef Call c
        cdef const char *out = list_out
        cdef uint64_t size = sizeof(list_id) if at else 0
        call_fill(&here, METHOD_LIST_WALK, self, flags | 1 << 8)
        here.in_ = at
        here.in_size = size
        here.out = list_out
        here.out_room = sizeof(list_out)
        if not self.here(function, &here):
            c = self.called(function, METHOD_LIST_WALK, here.b, (<const char *>at)[:size],
                            self.room_of_one())
            if c.call.result[0] == LIST_STALE:
                stale(function)
            out = PyByteArray_AS_STRING(c.brought)
        if not (<const list_answer *>out).count:
            raise IndexError(f"{function}: the list is empty; see size()")
        cdef const list_record *r = <const list_record *>(out + sizeof(list_answer))
        if r.payload:
            return self.far_one(function, r.id, r.payload, r.size)
        if self._element.code:
            return self._element.value(<const char *>(r + 1))
        return self._element.unpack((<const char *>(r + 1))[:r.size])

    cdef object far_one(self, str function, list_id id, uint64_t ga, uint64_t size):
        value = self._long_one(function, (id.node, id.number), ga, size)
        if value is None:
            room = bytearray(size)
            get(ga, room)
            value = GONE
            if self._check(function, (<const char *>&id)[:sizeof(list_id)]) == b"\1":
                value = self._decoded(room if self.pickler is not None else bytes(room))
        return value

    cdef object one_at(self, str function, uint64_t flags):
        value = GONE
        while value is GONE:
            value = self.one(function, flags, NULL)
        return value

    def front(self) -> _T:
        """Return the first element. IndexError if there is none."""
        return self.one_at("List.front", 0)

    def back(self) -> _T:
        """Return the last element. IndexError if there is none."""
        return self.one_at("List.back", LIST_BACKWARD)

    def _long_one(self, str function, id: tuple[int, int], ga: int, size: int) -> Any:
        """Return the object that lies there, which belongs to that element: its long buffers are
        copied once. GONE: the element was erased. None: it is neither long nor in reach."""
        if self.pickler is None or size < LONG or not acp_near(lane0, ga):
            return None
        found = object_from(ElementSource.of(self, function, ids_of([id]), ga), size)
        return GONE if found is None else found[0]


cdef class ElementSource(PickleSource):
    """The bytes of an element, as long as it is in the list."""
    cdef ListReader list
    cdef str function
    cdef bytes id
    cdef uint64_t ga

    @staticmethod
    cdef ElementSource of(ListReader list, str function, bytes id, uint64_t ga):
        cdef ElementSource source = ElementSource.__new__(ElementSource)
        source.list, source.function, source.id, source.ga = list, function, id, ga
        return source

    cdef bint fill(self, char *to, uint64_t at, uint64_t size, object room) except -1:
        get(self.ga + at, PyMemoryView_FromMemory(to, size, PyBUF_WRITE))
        return self.list._check(self.function, self.id) == b"\1"
