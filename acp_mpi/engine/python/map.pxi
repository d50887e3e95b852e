# Maps, sets and multisets: calls of the parts that keys live in.

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.mem cimport PyMem_Calloc, PyMem_Free

cdef extern from "base/hash.h" nogil:
    uint64_t hash_bytes(const void *, uint64_t)
    uint32_t hash_part(uint64_t, uint32_t)

cdef extern from "containers/map.h" nogil:
    enum:
        STRIPES
        INLINE_MOST
        FOUND_NOT
        FOUND
        FOUND_LARGE
        FOUND_OTHER
        FOUND_BEYOND
        METHOD_MAP_FIND
        METHOD_MAP_PIECE
        METHOD_MAP_PUT
        METHOD_MAP_ERASE
        METHOD_MAP_SCAN
        METHOD_MAP_LOOK
        METHOD_MAP_CLEAR
        METHOD_MAP_RESERVE
        METHOD_MAP_FIND_MANY
        METHOD_MAP_PUT_MANY
        METHOD_MAP_ERASE_MANY
    enum put_how:
        PUT_INSERT
        PUT_ASSIGN
        PUT_ADD
        PUT_MULTIPLY
        PUT_MIN
        PUT_MAX
        PUT_AND
        PUT_OR
        PUT_XOR
        PUT_TAKE
    struct map_request:
        uint64_t hash, key_size, value_size, box, stamp
        uint64_t where "from"
    struct map_large:
        uint64_t stamp, key_size, value_size

DEF MOST = 60000      # bytes of key and value that travel with a call
DEF CALL_MOST = 65536
DEF ENTRIES = 256     # bytes of a key and a value that stand in a slot

_hows = {"insert": PUT_INSERT, "assign": PUT_ASSIGN, "add": PUT_ADD, "multiply": PUT_MULTIPLY,
         "min": PUT_MIN, "max": PUT_MAX, "and": PUT_AND, "or": PUT_OR, "xor": PUT_XOR,
         "take": PUT_TAKE}

cdef object MISSING = object()


cdef struct part_name:
    uint64_t ga
    uint64_t serial


cdef struct request_bytes:
    map_request head
    char data[ENTRIES]


cdef class MapCalls(Handle):
    """A map, a set or a multiset: where its parts are, and what its elements are."""
    cdef readonly Codec _key_codec
    cdef readonly Codec _value_codec
    cdef readonly tuple ranks  # type: tuple[int, ...]
    cdef str title
    cdef uint64_t kind
    cdef uint32_t count
    cdef part_name *parts
    cdef readonly bint _inlined  # elements stand in the slots of the table
    cdef uint64_t key_size, value_size
    cdef int key_code
    cdef bint direct  # both key and value are numbers

    def __cinit__(self, *_, **__):
        self._spread_over("Map", 0, ((0, 0),), NO_CODEC, NO_CODEC)

    def __dealloc__(self):
        PyMem_Free(self.parts)

    def _spread_over(self, str title, uint64_t kind, parts: Sequence[tuple[int, int]], Codec key,
                     Codec value) -> None:
        """Say what this is and where: parts are pairs of address and serial."""
        self.title = title
        self.kind = kind
        self._key_codec = key
        self._value_codec = value
        PyMem_Free(self.parts)
        self.parts = <part_name *>PyMem_Calloc(len(parts), sizeof(part_name))
        if self.parts == NULL:
            raise MemoryError
        self.count = len(parts)
        for i, (ga, serial) in enumerate(parts):
            self.parts[i].ga = ga
            self.parts[i].serial = serial
        self.ranks = tuple([acp_ga_rank(ga) for ga, _ in parts])
        self.key_size = key.bytes_each
        self.value_size = value.bytes_each
        self.key_code = key.code
        self._inlined = key.bytes_each <= INLINE_MOST and value.bytes_each <= INLINE_MOST
        self.direct = key.code != 0 and (value.code != 0 or value.bytes_each == 0)

    def _where(self, key) -> tuple[int, int, int]:
        """Return part, stripe and hash of a key."""
        cdef bytes k = self._key_codec.encode(key, self, "find")
        cdef uint64_t h = hash_bytes(PyBytes_AS_STRING(k), len(k))
        return hash_part(h, self.count), h % STRIPES, h

    def _part_of(self, key) -> int:
        """Return the number of the part that a key belongs to."""
        return self._where(key)[0]

    # One element.

    cdef str function(self, str name):
        return f"{self.title}{'' if name == '[]' else '.'}{name}"

    cdef Call call_of(self, uint32_t part, uint8_t method, uint64_t x, bytes taken, uint64_t room):
        return call_new(method, self.parts[part].ga, self.parts[part].serial,
                        self.kind | x << 8, taken, room)

    cdef int here(self, str name, uint8_t method, uint64_t x, object key, object value, void *out,
                  uint64_t room, acp_call *c) except -2:
        # Numbers, by load and store: ACP_OK, or ACP_E_BUSY if there is another way to take.
        cdef request_bytes r
        cdef uint64_t value_size = 0
        if not stored_small(<char>self.key_code, key, r.data):
            self._key_codec.store(key, r.data, self, name)
        if value is not MISSING:
            value_size = self.value_size
            if value_size and not stored_small(self._value_codec.code, value, r.data + self.key_size):
                self._value_codec.store(value, r.data + self.key_size, self, name)
        return self.asked_here(name, method, x, &r, self.key_size, value_size, out, room, c)

    cdef int bytes_here(self, str name, uint8_t method, uint64_t x, bytes key, bytes value, void *out,
                        uint64_t room, acp_call *c) except -2:
        # The same with what is short.
        cdef request_bytes r
        cdef uint64_t key_size = len(key), value_size = 0 if value is None else len(value)
        if key_size > ENTRIES or value_size > ENTRIES - key_size:
            return ACP_E_BUSY
        memcpy(r.data, PyBytes_AS_STRING(key), key_size)
        if value_size:
            memcpy(r.data + key_size, PyBytes_AS_STRING(value), value_size)
        return self.asked_here(name, method, x, &r, key_size, value_size, out, room, c)

    cdef int asked_here(self, str name, uint8_t method, uint64_t x, request_bytes *r, uint64_t key_size,
                        uint64_t value_size, void *out, uint64_t room, acp_call *c) except -2:
        cdef uint32_t part
        cdef int rc
        r.head.hash = hash_bytes(r.data, key_size)
        r.head.key_size = key_size
        r.head.value_size = value_size
        r.head.box = r.head.stamp = r.head.where = 0
        if engine == NULL:
            no_engine(self.function(name))
        part = hash_part(r.head.hash, self.count)
        c.method = method
        c.object = self.parts[part].ga
        c.a = self.parts[part].serial
        c.b = self.kind | x << 8
        c.in_ = r
        c.in_size = sizeof(map_request) + key_size + value_size
        c.out = out
        c.out_room = room
        rc = acp_container_here(lane0, c)
        if rc != ACP_OK and rc != ACP_E_BUSY:
            call_ended(self.function(name), rc, lane0)
        return rc

    cdef Call ask(self, str name, uint8_t method, uint64_t x, bytes key, object value,
                  uint64_t room, uint64_t stamp=0):
        # By whatever way; what is too long to travel with the call lies there before it.
        cdef map_request r
        cdef Call c
        function = self.function(name)
        memset(&r, 0, sizeof(r))
        r.hash = hash_bytes(PyBytes_AS_STRING(key), len(key))
        r.key_size = len(key)
        r.value_size = 0 if value is None else len(value)
        r.stamp = stamp
        cdef uint32_t part = hash_part(r.hash, self.count)
        if r.key_size + r.value_size <= MOST:
            taken = (<char *>&r)[:sizeof(r)] + key
            if value is not None:
                taken += value if type(value) is bytes else bytes(value)
            c = self.call_of(part, method, x, taken, room)
            call_done(function, c)
            return c
        return self.ask_by_box(function, method, x, &r, self.lay(function, part, key, value), room)

    cdef Call ask_by_box(self, str function, uint8_t method, uint64_t x, map_request *r,
                         uint64_t block, uint64_t room):
        # Key and value lie in a block, which becomes the map's or goes back.
        cdef Call c = None
        r.box = block
        try:
            c = self.call_of(hash_part(r.hash, self.count), method, x, (<char *>r)[:sizeof(r[0])],
                             room)
            call_done(function, c)
        except BaseException:
            leave_orphans([block], c)
            raise
        if not adopted(c):
            block_give(function, block)
        return c

    cdef uint64_t lay(self, str function, uint32_t part, bytes key, object value) except 0:
        cdef uint64_t sizes[3]
        value = value or b""
        sizes[0] = 0
        sizes[1] = len(key)
        sizes[2] = len(value)
        cdef bytes tail = b"\0" * (-sizes[2] % 8) + key + b"\0" * (-len(key) % 8)
        cdef uint64_t at = sizeof(sizes) + sizes[2]
        cdef uint64_t block = block_take(function, self.ranks[part], at + len(tail))
        try:
            lay_parts(block, [(<char *>sizes)[:sizeof(sizes)], *parts_of(value), tail])
        except BaseException:
            leave_orphans([block])
            raise
        return block
