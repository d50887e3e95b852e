# Lists: single elements at once where the list is in reach, many in batches.

cdef extern from "method.h" nogil:
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

cdef extern from "list_call.h" nogil:
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

FRONT = LIST_FRONT
BACK = LIST_BACK
AT = LIST_AT
DROP = LIST_DROP
KEEP = LIST_KEEP
BACKWARD = LIST_BACKWARD
BEHIND = LIST_BEHIND
ANY_CHANGES = 0xffffffffffffffff

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


cdef class Batch:
    """Elements that one call has brought: their nodes and numbers, and their values.

    These are bytes where the type is not plain; those that lie elsewhere are missing: `elsewhere`
    has (index, address, bytes).
    """
    cdef readonly list nodes, numbers, values, elsewhere, blocks
    cdef readonly uint64_t changes, orders, size, origin
    cdef readonly bint ended, stale
    cdef readonly object next

    def ids(self, most):
        """Return what names the last of its elements, the very last one first."""
        pairs = list(zip(self.nodes[-most:], self.numbers[-most:]))[::-1]
        return ids_of(pairs)


def ids_of(pairs):
    """Return pairs of node and number as calls take them."""
    cdef list_id id
    parts = []
    for id.node, id.number in pairs:
        parts.append((<char *>&id)[:sizeof(list_id)])
    return b"".join(parts)


cdef class ListHandle(Handle):
    """A chain of elements on some rank."""
    cdef readonly Element element

    def of(self, Element element):
        """Say what its elements are."""
        self.element = element

    cdef object called(self, str function, uint8_t method, uint64_t b, bytes taken, uint64_t room):
        cdef Call c = call_new(method, self.ga, self.serial, b, taken, room)
        call_run(function, c)
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

    cdef int put_plain(self, str function, uint64_t where, value) except -1:
        cdef acp_call here
        cdef plain_put p
        self.element.store(value, p.data)
        p.head.width = self.element.width
        p.head.at.node = p.head.at.number = 0
        call_fill(&here, METHOD_LIST_PUT, self, where)
        here.in_ = &p
        here.in_size = sizeof(list_put) + p.head.width
        if not self.here(function, &here):
            self.called(function, METHOD_LIST_PUT, where, (<char *>&p)[:here.in_size], 0)
        return 0

    cdef int push(self, str function, uint64_t where, value, rank) except -1:
        if rank is None and self.element.code:
            return self.put_plain(function, where, value)
        data = self.element.packed(value)
        if rank is None and len(data) <= LIST_INLINE:
            self.put_bytes(function, where, 0, 0, data)
        else:
            self.place(function, where, (0, 0), data, rank)
        return 0

    def push_back(self, value, rank=None):
        """Put `value` behind the last element; its bytes lie on `rank`, None: with the chain."""
        self.push("List.push_back", LIST_BACK, value, rank)

    def push_front(self, value, rank=None):
        """Put `value` before the first element; its bytes lie on `rank`, None: with the chain."""
        self.push("List.push_front", LIST_FRONT, value, rank)

    def pop_back(self):
        """Take out the last element and return it. IndexError if there is none."""
        return self.pop_at("List.pop_back", LIST_BACK)

    def pop_front(self):
        """Take out the first element and return it. IndexError if there is none."""
        return self.pop_at("List.pop_front", LIST_FRONT)

    def put_bytes(self, str function, uint64_t where, uint64_t node, uint64_t number, bytes data):
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

    def put_block(self, str function, uint64_t where, uint64_t node, uint64_t number, records):
        """Put in elements whose bytes lie in blocks: of (size, address, block) each.

        Returns how many went in, and (node, number) of the first.
        """
        cdef list_put head
        cdef list_record record
        memset(&head, 0, sizeof(list_put))
        memset(&record, 0, sizeof(list_record))
        head.at.node = node
        head.at.number = number
        parts = [(<char *>&head)[:sizeof(list_put)]]
        for record.size, record.payload, record.block in records:
            parts.append((<char *>&record)[:sizeof(list_record)])
        return self.put(function, where, b"".join(parts))

    cdef object put(self, str function, uint64_t where, bytes taken):
        cdef Call c = self.called(function, METHOD_LIST_PUT, where, taken, sizeof(list_id))
        cdef list_id *id = <list_id *>PyByteArray_AS_STRING(c.brought)
        return c.call.result[1], (id.node, id.number)

    def put_row(self, str function, uint64_t where, uint64_t node, uint64_t number, data):
        """Put in elements of one width whose bytes are `data`; returns (node, number) of the first.

        In pieces of 64 KiB.
        """
        cdef list_put head
        cdef uint64_t at = 0, width = self.element.width, most
        head.at.node = node
        head.at.number = number
        head.width = width
        first = None
        view = memoryview(data).cast("B")
        most = (ACP_CALL_MOST - sizeof(list_put)) // width * width
        while at < len(view):
            piece = (<char *>&head)[:sizeof(list_put)] + bytes(view[at:at + most])
            count, id = self.put(function, where, piece)
            first = first or id
            at += count * width
        return first

    def put_many(self, str function, uint64_t where, uint64_t node, uint64_t number, elements):
        """Put in elements of the bytes given, in pieces of 64 KiB; (node, number) of the first.

        Each has at most `inline_most`.
        """
        cdef list_put head
        cdef list_record record
        cdef uint64_t size, room
        memset(&record, 0, sizeof(list_record))
        head.at.node = node
        head.at.number = number
        head.width = 0
        first = None
        done = 0
        while done < len(elements):
            parts = [(<char *>&head)[:sizeof(list_put)]]
            size = sizeof(list_put)
            for data in elements[done:done + 1600]:
                record.size = len(data)
                room = (record.size + 7) & ~<uint64_t>7
                size += sizeof(list_record) + room
                if size > ACP_CALL_MOST:
                    break
                parts.append((<char *>&record)[:sizeof(list_record)])
                parts.append(data.ljust(room, b"\0"))
            count, id = self.put(function, where, b"".join(parts))
            first = first or id
            done += count
        return first

    # An element, from where it lies; takes the block away if it comes with one.
    cdef object value_of(self, str function, const list_record *r, const char *data, bint owned):
        cdef uint64_t payload = r.payload, block = r.block, size = r.size
        if not payload:
            if self.element.code:
                return self.element.value(data)
            return self.element.unpack(data[:size])
        copy = PyByteArray_FromStringAndSize(NULL, size)
        try:
            get(payload, copy)
        finally:
            if owned:
                free(block)
        return self.decoded(bytes(copy))

    def decoded(self, bytes data):
        """Return the value of the bytes of an element."""
        if self.element.code:
            return self.element.value(PyBytes_AS_STRING(data))
        return self.element.unpack(data)

    cdef object pop_at(self, str function, uint64_t where):
        cdef acp_call here
        cdef Call c
        cdef char *out = list_out
        cdef uint64_t b = where | 1 << 8 | <uint64_t>LIST_FETCH << 32
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
        cdef list_record r = (<list_record *>(out + sizeof(list_answer)))[0]
        return self.value_of(function, &r, out + sizeof(list_answer) + sizeof(list_record), True)

    cdef uint64_t room_of_one(self):
        if not self.element.width or self.element.width > LIST_INLINE:
            return ACP_CALL_MOST
        return sizeof(list_answer) + sizeof(list_record) + ((self.element.width + 7) & ~<uint64_t>7)

    cdef Batch batch(self, const char *out, bint values):
        cdef const list_answer *a = <const list_answer *>out
        cdef const list_record *r
        cdef uint64_t i
        cdef Batch batch = Batch.__new__(Batch)
        batch.nodes, batch.numbers, batch.values, batch.elsewhere = [], [], [], []
        batch.blocks = []
        batch.changes, batch.orders, batch.size = a.changes, a.orders, a.size
        batch.ended, batch.origin = a.ended, a.origin
        batch.next = (a.next.node, a.next.number)
        out += sizeof(list_answer)
        for i in range(a.count):
            r = <const list_record *>out
            out += sizeof(list_record)
            batch.nodes.append(r.id.node)
            batch.numbers.append(r.id.number)
            if not values:
                batch.blocks.append((r.size, r.payload, r.block))
                continue
            if r.payload:
                batch.elsewhere.append((i, r.payload, r.size))
                batch.values.append(None)
                continue
            if self.element.code:
                batch.values.append(self.element.value(out))
            else:
                batch.values.append(out[:r.size])
            out += (r.size + 7) & ~<uint64_t>7
        return batch

    def take(self, str function, uint64_t where, uint64_t how, uint64_t most, uint64_t node,
             uint64_t number):
        """Take out up to `most` elements but not what they hold: a Batch with `blocks`.

        `blocks` are (size, address, block). None if there is no element.
        """
        cdef list_id id
        id.node = node
        id.number = number
        cdef Call c = self.called(
            function, METHOD_LIST_TAKE, where | most << 8 | how << 32,
            (<char *>&id)[:sizeof(list_id)] if where == LIST_AT else None,
            ACP_CALL_MOST if most > 1 else sizeof(list_answer) + sizeof(list_record))
        if c.call.result[0] == LIST_EMPTY:
            return None
        return self.batch(PyByteArray_AS_STRING(c.brought), False)

    def walk(self, str function, uint64_t flags, uint64_t most, bytes ids):
        """Read elements from the first of `ids` that is there on.

        At most `most`, 0: as many as fit. Without `ids` from the beginning, or the end if backward.
        """
        cdef acp_call here
        cdef Call c
        cdef Batch batch
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
            batch = self.batch(list_out, True)
            batch.stale = here.result[0] == LIST_STALE
            return batch
        if rc != ACP_E_BUSY:
            call_ended(function, rc, lane0)
        room = self.room_of_one() if most == 1 else ACP_CALL_MOST
        c = self.called(function, METHOD_LIST_WALK, flags | most << 8, ids, room)
        batch = self.batch(PyByteArray_AS_STRING(c.brought), True)
        batch.stale = c.call.result[0] == LIST_STALE
        return batch

    def step(self, str function, int64_t far, bytes ids):
        """Go `far` elements from the first of two; returns how far it went, and the id there."""
        cdef Call c = self.called(function, METHOD_LIST_STEP, <uint64_t>far, ids, sizeof(list_id))
        cdef list_id *id = <list_id *>PyByteArray_AS_STRING(c.brought)
        return <int64_t>c.call.result[1], (id.node, id.number)

    def check(self, str function, bytes ids):
        """Return a byte for each of `ids`: 1 if that element is in the list."""
        cdef Call c = self.called(function, METHOD_LIST_CHECK, 0, ids, len(ids) // sizeof(list_id))
        return bytes(c.brought)

    cdef bytes span(self, at, first, last, ListHandle other, uint64_t changes):
        cdef list_span s
        s.at.node, s.at.number = at
        s.first.node, s.first.number = first
        s.last.node, s.last.number = last
        s.source = other.ga
        s.from_serial = other.serial
        s.changes = changes
        return (<char *>&s)[:sizeof(list_span)]

    def erase_between(self, str function, first, last):
        """Erase the elements from `first` up to `last`; returns how many."""
        cdef Call c = self.called(function, METHOD_LIST_ERASE, 0,
                                  self.span((0, 0), first, last, self, 0), 0)
        return c.call.result[1]

    def splice_from(self, str function, at, ListHandle other, first, last, uint64_t changes):
        """Move elements of a list of the same rank here; returns the number of changes then."""
        cdef Call c = self.called(function, METHOD_LIST_SPLICE, 0,
                                  self.span(at, first, last, other, changes), 0)
        return c.call.result[1]

    def exchange(self, str function, ListHandle other):
        """Swap all elements with a list of the same rank."""
        self.called(function, METHOD_LIST_SWAP, 0,
                    self.span((0, 0), (0, 0), (0, 0), other, 0), 0)

    def drop_all(self, str function):
        """Take out all elements; what they hold is buried later."""
        self.called(function, METHOD_LIST_CLEAR, 0, None, 0)

    def bury(self, str function):
        """Give back memory of what was erased; (more to do, blocks of other ranks)."""
        cdef Call c = self.called(function, METHOD_LIST_BURY, 0, None, ACP_CALL_MOST)
        return c.call.result[1] != 0, list(memoryview(c.brought).cast("Q"))

    def reverse(self):
        """Turn the order of the elements round. Atomic, O(n)."""
        self.called("List.reverse", METHOD_LIST_REVERSE, 0, None, 0)

    def order(self, str function, uint64_t changes, uint64_t count, uint64_t kept, bytes nodes):
        """Give the first `kept` of all nodes this order and erase the others.

        RuntimeError if the list has changed since it had `changes`.
        """
        cdef list_order o
        o.changes = changes
        o.count = count
        o.kept = kept
        o.block = 0
        if len(nodes) <= ACP_CALL_MOST - sizeof(list_order):
            self.called(function, METHOD_LIST_ORDER, 0, (<char *>&o)[:sizeof(list_order)] + nodes,
                        0)
            return
        o.block = malloc(len(nodes), acp_ga_rank(self.ga))
        try:
            put(o.block, nodes)
            self.called(function, METHOD_LIST_ORDER, 0, (<char *>&o)[:sizeof(list_order)], 0)
        except Exception:
            free(o.block)  # one that is interrupted may still be taken
            raise

    def size(self):
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

    def __len__(self):
        return self.size()


inline_most = LIST_INLINE
node_bytes = LIST_NODE
