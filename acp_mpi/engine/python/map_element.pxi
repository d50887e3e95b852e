# Maps, sets and multisets, one element at a time: at once where its part is in reach.

DEF VALUE_ROOM = 8192  # for the value of one element; what is larger comes in pieces
DEF VALUE_WORDS = 1024
DEF PIECE_HERE = 262144  # read by load and store, between two looks whether it is the same yet


cdef class MapHandle(MapCalls):
    """A map, a set or a multiset, one element at a time."""

    cdef object value_in(self, str name, const acp_call *c, bytes key):
        # The value that a find returned; MISSING: it has gone before all of its pieces were there.
        cdef map_large large
        if c.result[0] != FOUND_LARGE:
            return self._value_codec.decode(<char *>c.out, c.out_size)
        memcpy(&large, c.out, sizeof(large))
        cdef uint64_t key_hash = hash_bytes(PyBytes_AS_STRING(key), len(key))
        if self._value_codec.raw:
            return self.whole_bytes(name, key_hash, large.stamp, large.value_size)
        if large.value_size > LONG and self._value_codec.element is None and \
                acp_near(lane0, self.parts[hash_part(key_hash, self.count)].ga):
            whole = object_from(BoxSource.of(self, name, key_hash, large.stamp), large.value_size)
            return MISSING if whole is None else whole[0]
        room = reading_room_take(large.value_size + 7)
        value = MISSING
        if self.pieces(name, key_hash, large.stamp, large.value_size, room,
                       PyByteArray_AS_STRING(room)):
            if self._value_codec.element is None:
                value = pickle_module().loads(room)  # it ends where its bytes say so
            else:
                value = self._value_codec.decode(PyByteArray_AS_STRING(room), large.value_size)
        reading_room_give(room)
        return value

    cdef object whole_bytes(self, str name, uint64_t key_hash, uint64_t stamp, uint64_t size):
        data = PyBytes_FromStringAndSize(NULL, (size + 7) & ~<uint64_t>7)
        if not self.pieces(name, key_hash, stamp, size, data, PyBytes_AS_STRING(data)):
            return MISSING
        return data if <uint64_t>len(data) == size else data[:size]

    cdef bint pieces(self, str name, uint64_t key_hash, uint64_t stamp, uint64_t size,
                     object room, char *to) except -1:
        # Bytes of the box of an element, and some to make words, into `room`; False: the box has
        # gone.
        return self.pieces_from(name, key_hash, stamp, 0, (size + 7) & ~<uint64_t>7, room, to)

    cdef bint pieces_from(self, str name, uint64_t key_hash, uint64_t stamp, uint64_t begin,
                          uint64_t size, object room, char *to) except -1:
        # Exactly that many, from any of them on.
        cdef map_request r
        cdef Call c
        cdef uint64_t at = 0, most = CALL_MOST
        if acp_near(lane0, self.parts[hash_part(key_hash, self.count)].ga):
            most = PIECE_HERE
        memset(&r, 0, sizeof(r))
        r.hash = key_hash
        r.stamp = stamp
        while at < size:
            r.where = begin + at
            c = self.call_of(hash_part(key_hash, self.count), METHOD_MAP_PIECE, 0,
                             (<char *>&r)[:sizeof(r)], 0)
            c.filled = room
            c.call.out = to + at
            c.call.out_room = min(most, size - at)
            call_done(self.function(name), c)
            if c.call.result[0] == FOUND_NOT or not c.call.out_size:
                return False
            at += c.call.out_size
        return True

    cdef bint put(self, str name, object key, object value, uint64_t x) except -1:
        # Whether the key was there.
        cdef acp_call here
        if self.direct and self.here(name, METHOD_MAP_PUT, x, key, value, NULL, 0, &here) == ACP_OK:
            return here.result[0] != FOUND_NOT
        cdef bytes k = self._key_codec.encode(key, self, name)
        v = self._value_codec.encode_one(value, self, name)
        if type(v) is bytes and self.bytes_here(name, METHOD_MAP_PUT, x, k, v, NULL, 0, &here) == ACP_OK:
            return here.result[0] != FOUND_NOT
        return self.ask(name, METHOD_MAP_PUT, x, k, v, 0).call.result[0] != FOUND_NOT

    def _put_and_get(self, str name, key, value, str how, default=None) -> Any:
        """Put an element in; return what was there before, or what has become of both.

        `default` if there was nothing.
        """
        cdef Call c
        cdef bytes k = self._key_codec.encode(key, self, name)
        v = self._value_codec.encode_one(value, self, name)
        while True:
            c = self.ask(name, METHOD_MAP_PUT, <int>_hows[how], k, v, VALUE_ROOM)
            if c.call.result[0] == FOUND_NOT:
                return default
            found = self.value_in(name, &c.call, k)
            if found is not MISSING:
                return found

    cdef object added(self, key, delta):
        # The value of a key when `delta` has been added to it: in one call, unless its int is longer than
        # VALUE_ROOM.
        cdef acp_call here
        cdef const acp_call *done
        cdef map_large large
        cdef uint64_t out[VALUE_WORDS], room = VALUE_ROOM
        cdef Call c
        delta = self.addend(delta)
        if self.direct and self.here("add", METHOD_MAP_PUT, PUT_ADD, key, delta, out, 8, &here) == ACP_OK:
            if here.result[0] == FOUND:
                return self._value_codec.element.value(<char *>out)
            return self._value_codec.decode(self._value_codec.encode(delta, self, "add"),
                                            self._value_codec.bytes_each)
        cdef bytes k = self._key_codec.encode(key, self, "add")
        cdef bytes v = self._value_codec.encode(delta, self, "add")
        while True:
            done = &here
            if room > VALUE_ROOM or \
                    self.bytes_here("add", METHOD_MAP_PUT, PUT_ADD, k, v, out, room, &here) != ACP_OK:
                c = self.ask("add", METHOD_MAP_PUT, PUT_ADD, k, v, room)
                done = &c.call
            if done.result[0] == FOUND_NOT:
                return self._value_codec.decode(v, len(v))
            if done.result[0] == FOUND:
                return self._value_codec.decode(<char *>done.out, done.out_size)
            if done.result[0] == FOUND_OTHER:
                raise TypeError(f"Map.add: the value of key {key!r:.60} is not an int or a float, and stays "
                                "as it is; see m[key]")
            if done.result[0] == FOUND_LARGE:
                memcpy(&large, done.out, sizeof(large))
                room = large.value_size
            if done.result[0] == FOUND_BEYOND or room > CALL_MOST:
                raise OverflowError(f"Map.add: the sum at key {key!r:.60} has no room in a float, or in "
                                    f"{CALL_MOST} bytes; the value stays as it is")

    cdef object addend(self, delta):
        cdef char code = self._value_codec.code
        if self._value_codec.raw or (self._value_codec.element is not None and code in b"\0?"):
            raise TypeError("Map.add: nothing can be added to the values of this map; make it with "
                            "value='q', say, or with objects")
        if isinstance(delta, float):
            return float(delta)
        if not PyLong_CheckExact(delta):
            several = getattr(delta, "ndim", 0) != 0
            if type(delta).__module__ == "numpy" and not several:
                delta = delta.item()
            if PyIndex_Check(delta) and not several:
                delta = int(PyNumber_Index(delta))
            elif several or (code == 0 and type(delta) is not float):
                raise TypeError(f"Map.add: {delta!r:.60} is not an int or a float; convert it first")
        if code in b"BHIQ" and -(span := (<object>1) << 8 * self.value_size) <= delta < 0:
            delta += span
        return delta

    def _find_value(self, str name, key, default=None) -> Any:
        """Return the value of a key, or `default`."""
        return self.look_up(name, key, default)

    cdef object look_up(self, str name, key, default):
        cdef acp_call here
        cdef const acp_call *done
        cdef uint64_t out[VALUE_WORDS]
        cdef Call c
        cdef bytes k
        if self.direct and self.here(name, METHOD_MAP_FIND, 0, key, MISSING, out, 8, &here) == ACP_OK:
            if here.result[0] == FOUND_NOT:
                return default
            return self._value_codec.element.value(<char *>out)
        k = self._key_codec.encode(key, self, name)
        while True:
            done = &here
            if self.bytes_here(name, METHOD_MAP_FIND, 0, k, None, out, VALUE_ROOM, &here) != ACP_OK:
                c = self.ask(name, METHOD_MAP_FIND, 0, k, None, VALUE_ROOM)
                done = &c.call
            if done.result[0] == FOUND_NOT:
                return default
            found = self.value_in(name, done, k)
            if found is not MISSING:
                return found

    def _has(self, str name, key) -> bool:
        """Return whether a key is there."""
        return self.holds(name, key)

    cdef bint holds(self, str name, key) except -1:
        return self.was_there(name, METHOD_MAP_FIND, key)

    cdef bint was_there(self, str name, uint8_t method, key) except -1:
        # A call with a key alone: whether it was there.
        cdef acp_call here
        if self.direct and self.here(name, method, 0, key, MISSING, NULL, 0, &here) == ACP_OK:
            return here.result[0] != FOUND_NOT
        cdef bytes k = self._key_codec.encode(key, self, name)
        if self.bytes_here(name, method, 0, k, None, NULL, 0, &here) == ACP_OK:
            return here.result[0] != FOUND_NOT
        return self.ask(name, method, 0, k, None, 0).call.result[0] != FOUND_NOT

    def _place(self, str name, key) -> int:
        """Return the address of a key's value, 0 if it is not there."""
        return self.ask(name, METHOD_MAP_FIND, 0, self._key_codec.encode(key, self, name), None,
                        0).call.result[1]

    cdef bint erased(self, str name, key) except -1:
        return self.was_there(name, METHOD_MAP_ERASE, key)

    def _erase_and_get(self, str name, key, default=None) -> Any:
        """Take a key out; return its value, or `default`."""
        cdef bytes k = self._key_codec.encode(key, self, name)
        cdef Call c
        cdef map_large large
        while True:
            c = self.ask(name, METHOD_MAP_ERASE, 0, k, None, VALUE_ROOM)
            if c.call.result[0] == FOUND_NOT:
                return default
            found = self.value_in(name, &c.call, k)
            if c.call.result[0] == FOUND:
                return found
            memcpy(&large, c.call.out, sizeof(large))
            if found is not MISSING and self.ask(
                    name, METHOD_MAP_ERASE, 0, k, None, 0,
                    large.stamp).call.result[0] != FOUND_NOT:
                return found


cdef class BoxSource(PickleSource):
    """The value of an element, as long as it has that stamp."""
    cdef MapHandle map
    cdef str name
    cdef uint64_t key_hash, stamp

    @staticmethod
    cdef BoxSource of(MapHandle map, str name, uint64_t key_hash, uint64_t stamp):
        cdef BoxSource source = BoxSource.__new__(BoxSource)
        source.map, source.name = map, name
        source.key_hash, source.stamp = key_hash, stamp
        return source

    cdef bint fill(self, char *to, uint64_t at, uint64_t size, object room) except -1:
        return self.map.pieces_from(self.name, self.key_hash, self.stamp, at, size, room, to)
