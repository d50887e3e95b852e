# Values of a map from and to addresses of any rank. What is short goes through the caller: one
# round trip, where a block and a copy take four.

DEF BOX_HEAD = 24


cdef class MapCopies(ManyHandle):
    """A map with values that come from addresses, and go to them."""

    def _put_copy(self, str name, key, uint64_t ga: Int, uint64_t size: Int, str how) -> bool:
        """Put a key in with the `size` bytes at `ga` as its value; return whether it was there."""
        cdef bytes k = self._key_codec.encode(key, self, name)
        cdef map_request r
        cdef uint64_t block
        if self._inlined or size <= VALUE_ROOM:
            value = bytearray(size)
            get_all(self.function(name), [(ga, value)])
            return self.ask(name, METHOD_MAP_PUT, <int>_hows[how], k, bytes(value),
                            0).call.result[0] != FOUND_NOT
        memset(&r, 0, sizeof(r))
        r.hash = hash_bytes(PyBytes_AS_STRING(k), len(k))
        r.key_size = len(k)
        r.value_size = size
        function = self.function(name)
        block = self.lay_copy(function, self.ranks[hash_part(r.hash, self.count)], k, ga, size)
        return self.ask_by_box(function, METHOD_MAP_PUT, <int>_hows[how], &r, block,
                               0).call.result[0] != FOUND_NOT

    cdef uint64_t lay_copy(self, str function, uint32_t rank, bytes key, uint64_t ga,
                           uint64_t size) except 0:
        cdef uint64_t head[3]
        cdef uint64_t padded = (size + 7) & ~<uint64_t>7
        head[0] = 0
        head[1] = len(key)
        head[2] = size
        key += b"\0" * (-len(key) % 8)
        cdef uint64_t block = block_take(function, rank, BOX_HEAD + padded + len(key))
        try:
            put(block, (<char *>head)[:BOX_HEAD])
            put(block + BOX_HEAD + padded, key)
            wait(copy(block + BOX_HEAD, ga, size))
        except BaseException:
            leave_orphans([block])
            raise
        return block

    def _get_copy(self, str name, key, uint64_t ga: Int, uint64_t room: Int) -> int | None:
        """Copy the value of a key to `ga`; return its size, None if the key is not there.

        A size above `room`: nothing is copied.
        """
        cdef bytes k = self._key_codec.encode(key, self, name)
        cdef map_large large
        cdef Call c
        while True:
            c = self.ask(name, METHOD_MAP_FIND, 0, k, None, VALUE_ROOM)
            if c.call.result[0] == FOUND_NOT:
                return None
            if c.call.result[0] == FOUND:
                if 0 < c.call.out_size <= room:
                    put_all(self.function(name),
                            [(ga, memoryview(c.brought)[:c.call.out_size])])
                return c.call.out_size
            memcpy(&large, c.call.out, sizeof(large))
            if large.value_size > room or self.copied(name, k, large, c.call.result[1], ga):
                return large.value_size

    cdef bint copied(self, str name, bytes key, map_large large, uint64_t source,
                     uint64_t ga) except -1:
        # Whether that was the value all the while: else the bytes may have been another's.
        cdef map_request r
        cdef Call c
        failure = None
        try:
            wait(copy(ga, source, large.value_size))
        except _errors.AddressError as error:
            failure = error
        memset(&r, 0, sizeof(r))
        r.hash = hash_bytes(PyBytes_AS_STRING(key), len(key))
        r.stamp = large.stamp
        c = self.call_of(hash_part(r.hash, self.count), METHOD_MAP_PIECE, 0,
                         (<char *>&r)[:sizeof(r)], 8)
        call_done(self.function(name), c)
        if c.call.result[0] == FOUND_NOT:
            return False
        if failure is not None:
            raise failure
        return True
