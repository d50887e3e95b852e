# Many elements of a map at once, one round for each part.

cdef extern from "containers/map_scatter.h" nogil:
    struct spread:
        const unsigned char *keys
        const unsigned char *values
        uint64_t key_size, value_size, count
        uint32_t parts
        uint64_t *hashes
        uint64_t *places
        uint64_t *starts
        unsigned char *records
    uint64_t map_scatter_unit(const spread *)
    void map_scatter_hash(spread *)
    void map_scatter_deal(spread *)
    void map_scatter_gather(const spread *, uint64_t, uint64_t, uint64_t, const unsigned char *,
                            unsigned char *, unsigned char *)

DEF DEALT = 65536  # elements at a time
DEF NONE = 0xffffffffffffffff
DEF LARGE = 0xfffffffffffffffe


cdef class Round:
    """Calls that are under way together, each with what it carries.

    Some stop short, where another holds a lock: the taker of their results goes on with the rest.
    """
    cdef str function
    cdef list calls

    def __init__(self, str function):
        self.function = function
        self.calls = []

    def __dealloc__(self):
        for pending, _, _ in self.calls or ():  # an exception has ended it, as Ctrl-C does
            forsake_operation(pending)

    cdef bint add(self, Call c, object what) except -1:
        # Whether it has stopped short already.
        cdef uint64_t pending
        try:
            pending = call_begin(self.function, c)
        except Exception as error:
            self.wait_for(error)
            raise
        if pending:
            held[pending] = c
        self.calls.append((pending, c, what))
        return not pending and c.call.result[0] < c.call.in_size

    cdef object wait_for(self, object first):
        # Each error is reported once: the first is, with the others as notes.
        for pending, _, _ in self.calls:
            if not pending:
                continue
            error = error_alone(self.function, pending)
            if first is None:
                first = error
            elif error is not None:
                first.add_note(f"{type(error).__name__}: {error}")
        return first

    cdef list done(self):
        error = self.wait_for(None)
        finished, self.calls = self.calls, []
        if error is not None:
            raise error
        acp_set_previous(1)
        return finished


cdef class Arrays:
    """Elements of one size each, dealt out."""
    cdef spread s
    cdef Py_buffer keys, values
    cdef bint valued
    cdef uint64_t total

    def __cinit__(self, keys, values, uint64_t key_size, uint64_t value_size, uint64_t total,
                  uint32_t parts):
        cdef uint64_t n = total if total < DEALT else DEALT
        PyObject_GetBuffer(keys, &self.keys, PyBUF_SIMPLE)
        self.total = total
        if values is not None:
            PyObject_GetBuffer(values, &self.values, PyBUF_SIMPLE)
            self.valued = True
        if self.keys.len // max(key_size, 1) < total or (
                self.valued and self.values.len // max(value_size, 1) < total and value_size):
            raise ValueError(f"{total} elements are more than the buffers hold; give as many keys as "
                             "values")
        self.s.values = <unsigned char *>self.values.buf if self.valued else NULL
        self.s.key_size = key_size
        self.s.value_size = value_size
        self.s.parts = parts
        self.s.hashes = <uint64_t *>PyMem_Calloc(n + 1, 8)
        self.s.places = <uint64_t *>PyMem_Calloc(n + 1, 8)
        self.s.starts = <uint64_t *>PyMem_Calloc(parts * STRIPES + 1, 8)
        self.s.records = <unsigned char *>PyMem_Calloc(n + 1, map_scatter_unit(&self.s))
        if (self.s.hashes == NULL or self.s.places == NULL or self.s.starts == NULL
                or self.s.records == NULL):
            raise MemoryError

    def __dealloc__(self):
        PyMem_Free(self.s.hashes)
        PyMem_Free(self.s.places)
        PyMem_Free(self.s.starts)
        PyMem_Free(self.s.records)
        PyBuffer_Release(&self.keys)
        if self.valued:
            PyBuffer_Release(&self.values)

    cdef int deal(self, uint64_t first) except -1:
        self.s.count = min(self.total - first, <uint64_t>DEALT)
        self.s.keys = <unsigned char *>self.keys.buf + first * self.s.key_size
        if self.valued:
            self.s.values = <unsigned char *>self.values.buf + first * self.s.value_size
        with nogil:
            map_scatter_hash(&self.s)
            map_scatter_deal(&self.s)
        return 0


cdef class ManyHandle(PartsHandle):
    """A map with calls that take many elements at once, too."""

    cdef Call many(self, uint32_t part, uint8_t method, uint64_t x, const void *records,
                   uint64_t size, uint64_t room):
        return self.call_of(part, method, x, (<char *>records)[:size], room)

    def _put_arrays(self, str name, keys, values, uint64_t total, str how) -> None:
        """Put in `total` elements from two buffers (values None: there are none)."""
        cdef Arrays a = Arrays(keys, values, self._key_codec.bytes_each,
                               self._value_codec.bytes_each, total, self.count)
        cdef uint64_t unit = map_scatter_unit(&a.s), each = CALL_MOST // unit
        cdef uint64_t first, at, end, n
        cdef uint32_t part
        cdef Call c
        cdef Round round_ = Round(self.function(name))
        for first in range(0, total, DEALT):
            a.deal(first)
            at = 0
            for part in range(self.count):
                end = a.s.starts[(part + 1) * STRIPES - 1]
                while at < end:
                    n = min(each, end - at)
                    c = self.many(part, METHOD_MAP_PUT_MANY, <int>_hows[how],
                                  a.s.records + at * unit, n * unit, 0)
                    if round_.add(c, part):  # of equal keys the last one counts
                        while self.goes_on(round_.function, c):
                            pass
                    at += n
            for _, c, where in round_.done():
                while self.goes_on(round_.function, c):
                    pass

    cdef bint goes_on(self, str function, Call c) except -1:
        # Calls again with what a call has left over, as it met a lock that was held; False: nothing.
        if c.call.result[0] == c.call.in_size:
            return False
        c.call.in_ = <const char *>c.call.in_ + c.call.result[0]
        c.call.in_size -= c.call.result[0]
        call_done(function, c)
        return True

    def _get_arrays(self, str name, keys, uint64_t total, values, found) -> None:
        """Find `total` keys; values and whether they are there go into two buffers."""
        cdef Arrays a = Arrays(keys, None, self._key_codec.bytes_each,
                               self._value_codec.bytes_each, total, self.count)
        cdef uint64_t unit = map_scatter_unit(&a.s), size = self._value_codec.bytes_each
        cdef uint64_t out = 8 + ((size + 7) & ~7), each = CALL_MOST // max(unit, out)
        cdef uint64_t first, at, end, n
        cdef uint32_t part
        cdef Call c
        cdef Py_buffer to_values, to_found
        cdef Round round_ = Round(self.function(name))
        PyObject_GetBuffer(values, &to_values, PyBUF_WRITABLE)
        PyObject_GetBuffer(found, &to_found, PyBUF_WRITABLE)
        try:
            for first in range(0, total, DEALT):
                a.deal(first)
                at = 0
                for part in range(self.count):
                    end = a.s.starts[(part + 1) * STRIPES - 1]
                    while at < end:
                        n = min(each, end - at)
                        round_.add(self.many(part, METHOD_MAP_FIND_MANY, 0,
                                             a.s.records + at * unit, n * unit, n * out), at)
                        at += n
                for _, c, where in round_.done():
                    at = where
                    self.gather(round_.function, &a.s, at, c,
                                <unsigned char *>to_values.buf + first * size,
                                <unsigned char *>to_found.buf + first)
        finally:
            PyBuffer_Release(&to_values)
            PyBuffer_Release(&to_found)

    cdef int gather(self, str function, const spread *s, uint64_t at, Call c,
                    unsigned char *values, unsigned char *found) except -1:
        cdef uint64_t done
        while True:
            done = c.call.result[1]
            map_scatter_gather(s, at, done, s.value_size, <unsigned char *>c.call.out, values, found)
            at += done
            if not self.goes_on(function, c):
                return 0

    # Elements of any kind, from lists.

    cdef bytes record(self, bytes key, bytes value, uint64_t key_hash):
        # `value` None: a record without one.
        cdef uint64_t head[3]
        cdef Py_ssize_t head_size = 8 if self._inlined else 16 if value is None else 24
        head[0] = key_hash
        head[1] = len(key)
        key += b"\0" * (-len(key) % 8)
        if value is None:
            return (<char *>head)[:head_size] + key
        head[2] = len(value)
        value += b"\0" * (-len(value) % 8)
        return (<char *>head)[:head_size] + (key + value if self._inlined else value + key)

    cdef list dealt(self, str name, keys, values):
        # For each part its records, of one stripe after another, with their places in the list;
        # None in place of a record that is too long.
        cdef uint64_t h
        parts = [[[] for _ in range(STRIPES)] for _ in range(self.count)]
        for place, k in enumerate(keys):
            key = self._key_codec.encode(k, self, name)
            value = None if values is None else self._value_codec.encode(values[place], self,
                                                                           name)
            h = hash_bytes(PyBytes_AS_STRING(key), len(key))
            record = self.record(key, value, h)
            parts[hash_part(h, self.count)][h % STRIPES].append(
                (place, record if len(record) <= MOST else None))
        return [[r for stripe in part for r in stripe] for part in parts]

    def _put_list(self, str name, keys: Sequence[Any], values: Sequence[Any] | None,
                  how: str | None) -> list[bool]:
        """Put in elements from two lists, or take keys out (`how` None); which were there."""
        cdef Round round_ = Round(self.function(name))
        cdef uint8_t method = METHOD_MAP_ERASE_MANY if how is None else METHOD_MAP_PUT_MANY
        cdef uint64_t x = 0 if how is None else <int>_hows[how]
        found = [False] * len(keys)
        for part, records in enumerate(self.dealt(name, keys, values)):
            for places, data in pieces_of(records):
                if data is not None:
                    if round_.add(self.call_of(part, method, x, data, len(places)), places):
                        self.settle(round_, found)
                    continue
                self.settle(round_, found)  # of equal keys the last one counts
                place = places[0]
                found[place] = (self.erased(name, keys[place]) if how is None else
                                self.put(name, keys[place], values[place], x))
        self.settle(round_, found)
        return found

    cdef int settle(self, Round round_, list found) except -1:
        # Waits for what is under way; each call tells which of its keys were there.
        cdef Call c
        cdef uint64_t done, i
        for _, c, places in round_.done():
            while True:
                done = c.call.result[1]
                for i in range(done):
                    found[places[i]] = (<char *>c.call.out)[i] != 0
                places = places[done:]
                if not self.goes_on(round_.function, c):
                    break
        return 0

    def _get_list(self, str name, keys: Sequence[Any],
                  default=None) -> tuple[list[Any], list[bool]]:
        """Find keys; return a list of values, `default` where there is none, and which are there."""
        cdef Round round_ = Round(self.function(name))
        cdef Call c
        values = [default] * len(keys)
        found = [False] * len(keys)
        large = []
        for part, records in enumerate(self.dealt(name, keys, None)):
            for places, data in pieces_of(records):
                if data is None:
                    large += places
                else:
                    round_.add(self.call_of(part, METHOD_MAP_FIND_MANY, 0, data, CALL_MOST), places)
        for _, c, places in round_.done():
            while True:
                self.take_values(c, places, values, found, large)
                places = places[c.call.result[1]:]
                if not self.goes_on(round_.function, c):
                    break
        for place in large:
            values[place] = self.look_up(name, keys[place], MISSING)
            found[place] = values[place] is not MISSING
            if not found[place]:
                values[place] = default
        return values, found

    cdef int take_values(self, Call c, list places, list values, list found,
                         list large) except -1:
        cdef const char *p = <const char *>c.call.out
        cdef uint64_t size = self._value_codec.bytes_each, word, i
        cdef bint fixed = size <= INLINE_MOST
        for i in range(c.call.result[1]):
            memcpy(&word, p, 8)
            p += 8
            if fixed:
                if word:
                    values[places[i]] = self._value_codec.decode(p, size)
                    found[places[i]] = True
                p += (size + 7) & ~7
            elif word == LARGE:
                large.append(places[i])
            elif word != NONE:
                values[places[i]] = self._value_codec.decode(p, word)
                found[places[i]] = True
                p += (word + 7) & ~7
        return 0


def pieces_of(records: list[tuple[int, bytes | None]]) -> Iterator[tuple[list[int], bytes]]:
    """Yield places and bytes of records that fit into a call together; one too long alone, None."""
    places, data, size = [], [], 0
    for place, record in records:
        if places and (record is None or size + len(record) > CALL_MOST):
            yield places, b"".join(data)
            places, data, size = [], [], 0
        if record is None:
            yield [place], None
            continue
        places.append(place)
        data.append(record)
        size += len(record)
    if places:
        yield places, b"".join(data)
