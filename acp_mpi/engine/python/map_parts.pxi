# All elements of a map, those of one part.

DEF MOST_COUNTED = 0xffffffffffffffff  # there, or more


cdef struct record_head:
    uint64_t key_hash
    uint64_t stamp  # 0: value and key follow; else they are read by it
    uint64_t key_size, value_size


cdef inline uint64_t padded(uint64_t size) noexcept:
    return (size + 7) & ~<uint64_t>7


cdef inline bint record_fits(const record_head *head, uint64_t left) noexcept:
    # Does what follows a record lie in what was brought? Something may have written over its sizes.
    return head.key_size <= left and head.value_size <= left and \
        padded(head.value_size) + padded(head.key_size) <= left


cdef const char *record_of(Call c, uint64_t key_hash, record_head *head) noexcept:
    # The bytes behind the record of that hash among the results of a call; NULL: none.
    cdef const char *p = <const char *>c.call.out
    cdef const char *end = p + c.call.out_size
    cdef uint64_t n
    for n in range(c.call.result[1] >> 8):
        if <uint64_t>(end - p) < sizeof(record_head):
            return NULL
        memcpy(head, p, sizeof(record_head))
        p += sizeof(record_head)
        if not head.stamp and not record_fits(head, end - p):
            return NULL
        if head.key_hash == key_hash:
            return p
        if not head.stamp:
            p += padded(head.value_size) + padded(head.key_size)
    return NULL


cdef class PartsHandle(MapHandle):
    """A map as a whole."""

    def _look(self, str name, uint32_t part) -> tuple[int, int, int, int, int]:
        """Return count, total, places, graves, bytes of a part."""
        cdef Call c = self.call_of(part, METHOD_MAP_LOOK, 0, None, 40)
        cdef uint64_t *words
        call_done(self.function(name), c)
        words = <uint64_t *>c.call.out
        return words[0], words[1], words[2], words[3], words[4]

    def _size_of(self, str name, part: int | None = None, bint total=False) -> int:
        """Return the number of elements, or the sum of their counts, of one part or of all."""
        cdef Call c
        n = 0
        for i in range(self.count) if part is None else (part,):
            c = self.call_of(i, METHOD_MAP_LOOK, 0, None, 0)
            call_done(self.function(name), c)
            if total and c.call.result[1] == MOST_COUNTED:
                raise OverflowError(f"{self.function(name)}: rank {self.ranks[i]} counts 2**64 - 1 "
                                    "or more; ask for the counts of its keys by items()")
            n += c.call.result[1 if total else 0]
        return n

    def _clear_of(self, str name, uint32_t part) -> None:
        """Take everything out of a part."""
        cdef Call c = self.call_of(part, METHOD_MAP_CLEAR, 0, None, 0)
        call_done(self.function(name), c)
        while c.call.result[0]:
            c = self.call_of(part, METHOD_MAP_CLEAR, 1, None, 0)
            call_done(self.function(name), c)

    def _make_room(self, str name, uint64_t elements) -> None:
        """Make room for that many elements in all."""
        cdef uint64_t each = elements // (self.count * STRIPES) + 1
        for part in range(self.count):
            call_done(self.function(name),
                     self.call_of(part, METHOD_MAP_RESERVE, 0, (<char *>&each)[:8], 0))

    def _scan(self, str name, uint32_t part, uint64_t stripe, uint64_t begin,
              uint64_t room) -> tuple[list[tuple[int, Any, Any]], int, int]:
        """Return some elements of a part, and where the next ones are.

        (elements, stripe, hash): `elements` are tuples of hash, key, value; the last stripe is
        behind the last elements.
        """
        cdef Call c = self.scanned(name, part, stripe, begin, room)
        elements = self.records(name, part, c)
        return elements, c.call.result[1] & 0xff, c.call.result[0]

    def _scan_rows(self, str name, uint32_t part, uint64_t stripe, uint64_t begin,
                   uint64_t room) -> tuple[bytes, int, int]:
        """Return the same of elements that stand in slots, as bytes: each key and each value padded to words."""
        cdef Call c = self.scanned(name, part, stripe, begin, room)
        cdef uint64_t size = padded(self._key_codec.bytes_each) + padded(self._value_codec.bytes_each)
        size *= c.call.result[1] >> 8
        if size > c.call.out_size:
            raise_status(self.function(name), ACP_E_DAMAGED, self.ranks[part])
        return (<char *>c.call.out)[:size], c.call.result[1] & 0xff, c.call.result[0]

    cdef Call scanned(self, str name, uint32_t part, uint64_t stripe, uint64_t begin, uint64_t room):
        cdef map_request r
        cdef Call c
        memset(&r, 0, sizeof(r))
        r.where = begin
        c = self.call_of(part, METHOD_MAP_SCAN, stripe, (<char *>&r)[:sizeof(r)], room)
        call_done(self.function(name), c)
        return c

    cdef list records(self, str name, uint32_t part, Call c):
        cdef const char *p = <const char *>c.call.out
        cdef uint64_t n
        cdef record_head head
        cdef uint64_t key = self._key_codec.bytes_each, value = self._value_codec.bytes_each
        cdef const char *end = p + c.call.out_size
        elements = []
        for n in range(c.call.result[1] >> 8):
            if <uint64_t>(end - p) < (padded(key) + padded(value) if self._inlined else sizeof(head)):
                raise_status(self.function(name), ACP_E_DAMAGED, self.ranks[part])
            if self._inlined:
                elements.append((hash_bytes(p, key), self._key_codec.decode(p, key),
                                 self._value_codec.decode(p + padded(key), value)))
                p += padded(key) + padded(value)
                continue
            memcpy(&head, p, sizeof(head))
            p += sizeof(head)
            if head.stamp:
                self.large_record(name, part, &head, elements)
                continue
            if not record_fits(&head, end - p):
                raise_status(self.function(name), ACP_E_DAMAGED, self.ranks[part])
            elements.append(self.boxed(p, &head))
            p += padded(head.value_size) + padded(head.key_size)
        return elements

    cdef tuple boxed(self, const char *p, const record_head *head):
        # Hash, key and value of an element; in a box the value comes first.
        return (head.key_hash, self._key_codec.decode(p + padded(head.value_size), head.key_size),
                self._value_codec.decode(p, head.value_size))

    cdef int large_record(self, str name, uint32_t part, record_head *head, list elements) except -1:
        # While other values take its place the element alone is looked for anew: whatever else comes with
        # it is read by itself.
        cdef const char *p
        cdef uint64_t size
        cdef Call c
        while True:
            size = padded(head.value_size) + head.key_size
            room = reading_room_take(size + 7)
            if self.pieces(name, head.key_hash, head.stamp, size, room, PyByteArray_AS_STRING(room)):
                elements.append(self.boxed(PyByteArray_AS_STRING(room), head))
                reading_room_give(room)
                return 0
            c = self.scanned(name, part, head.key_hash % STRIPES, head.key_hash, CALL_MOST)
            p = record_of(c, head.key_hash, head)
            if p == NULL:
                return 0  # it has gone
            if not head.stamp:
                elements.append(self.boxed(p, head))
                return 0
