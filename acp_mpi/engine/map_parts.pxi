# All elements of a map, those of one part.

DEF MOST_COUNTED = 0xffffffffffffffff  # there, or more


cdef class PartsHandle(MapHandle):
    """A map as a whole."""

    def _look(self, str name, uint32_t part):
        """Return count, total, places, graves, bytes of a part."""
        cdef Call c = self.call_of(part, METHOD_MAP_LOOK, 0, None, 40)
        cdef uint64_t *words
        call_done(self.function(name), c)
        words = <uint64_t *>c.call.out
        return words[0], words[1], words[2], words[3], words[4]

    def _size_of(self, str name, part=None, bint total=False):
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

    def _clear_of(self, str name, uint32_t part):
        """Take everything out of a part."""
        cdef Call c = self.call_of(part, METHOD_MAP_CLEAR, 0, None, 0)
        call_done(self.function(name), c)
        while c.call.result[0]:
            c = self.call_of(part, METHOD_MAP_CLEAR, 1, None, 0)
            call_done(self.function(name), c)

    def _make_room(self, str name, uint64_t elements):
        """Make room for so many elements in all."""
        cdef uint64_t each = elements // (self.count * STRIPES) + 1
        for part in range(self.count):
            call_done(self.function(name),
                     self.call_of(part, METHOD_MAP_RESERVE, 0, (<char *>&each)[:8], 0))

    def _scan(self, str name, uint32_t part, uint64_t stripe, uint64_t begin, uint64_t room):
        """Return some elements of a part, and where the next ones are.

        (elements, stripe, hash): `elements` are tuples of hash, key, value; the last stripe is
        behind the last elements.
        """
        cdef map_request r
        cdef Call c
        memset(&r, 0, sizeof(r))
        r.where = begin
        c = self.call_of(part, METHOD_MAP_SCAN, stripe, (<char *>&r)[:sizeof(r)], room)
        call_done(self.function(name), c)
        elements = self.records(name, part, c)
        return elements, c.call.result[1] & 0xff, c.call.result[0]

    cdef list records(self, str name, uint32_t part, Call c):
        cdef const char *p = <const char *>c.call.out
        cdef uint64_t n
        cdef uint64_t head[4]
        cdef uint64_t key = self._key_codec.bytes_each, value = self._value_codec.bytes_each
        elements = []
        for n in range(c.call.result[1] >> 8):
            if self._inlined:
                elements.append((hash_bytes(p, key), self._key_codec.decode(p, key),
                                 self._value_codec.decode(p + ((key + 7) & ~7), value)))
                p += ((key + 7) & ~7) + ((value + 7) & ~7)
                continue
            memcpy(head, p, sizeof(head))
            p += sizeof(head)
            if head[1]:
                self.large_record(name, part, head[0], head[1], head[2], head[3], elements)
                continue
            elements.append((head[0],
                             self._key_codec.decode(p + ((head[3] + 7) & ~7), head[2]),
                             self._value_codec.decode(p, head[3])))
            p += ((head[3] + 7) & ~7) + ((head[2] + 7) & ~7)
        return elements

    cdef int large_record(self, str name, uint32_t part, uint64_t key_hash, uint64_t stamp,
                          uint64_t key_size, uint64_t value_size, list elements) except -1:
        cdef uint64_t value = (value_size + 7) & ~7
        room = reading_room_take(value + key_size + 7)
        cdef char *p = PyByteArray_AS_STRING(room)
        if self.pieces(name, key_hash, stamp, value + key_size, room, p):
            elements.append((key_hash, self._key_codec.decode(p + value, key_size),
                             self._value_codec.decode(p, value_size)))
            reading_room_give(room)
            return 0
        # Another value has taken its place, or nothing has.
        again, _, _ = self._scan(name, part, key_hash % STRIPES, key_hash, CALL_MOST)
        elements.extend([e for e in again if e[0] == key_hash][:1])
        return 0
