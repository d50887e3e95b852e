# Plans of collectives, written once for all calls that are alike.

from libc.string cimport memcpy as c_memcpy

DEF AT_HAND = 33554432  # bytes of room that plans keep for their next use, all together
DEF PLAIN = 4096        # room below which global memory gains nothing

cdef uint64_t room_kept = 0


cdef class Plan:
    """Steps of one member, and the room that they need between what is given and what comes out.

    `steps` are those of acp.h, packed; `rooms` the bytes of the three buffers of the plan itself.
    The death of any of `ranks` ends it. With fold -1 the caller folds. `layout`: of device memory, for the caller.
    """
    cdef acp_plan plan
    cdef acp_step *steps
    cdef uint32_t *ranks
    cdef uint8_t *eager
    cdef uint64_t at[3]
    cdef uint64_t room
    cdef list spare
    cdef readonly uint64_t note
    cdef readonly object folder, layout

    def __init__(self, bytes steps, messages: int, fold: int, kind: int,
                 tuple rooms: tuple[int, ...], ranks: Sequence[int], note: int, folder=None,
                 layout=None):
        cdef uint64_t size
        cdef uint32_t i
        self.steps = <acp_step *>c_malloc(len(steps) + 1)
        if self.steps == NULL:
            raise MemoryError
        c_memcpy(self.steps, <char *>steps, len(steps))
        self.ranks = <uint32_t *>c_malloc(len(ranks) * sizeof(uint32_t))
        if self.ranks == NULL:
            raise MemoryError
        self.plan.members = len(ranks)
        for i in range(self.plan.members):
            self.ranks[i] = ranks[i]
        self.plan.ranks = self.ranks
        self.plan.steps = self.steps
        self.plan.count = len(steps) // sizeof(acp_step)
        self.plan.messages = messages
        self.plan.fold = fold
        self.plan.type = kind
        self.eager = <uint8_t *>c_malloc(self.plan.count + 1)
        if self.eager == NULL:
            raise MemoryError
        if not acp_plan_mark(&self.plan, self.eager):
            raise MemoryError
        self.plan.eager = self.eager
        self.note = note
        self.folder, self.layout = folder, layout
        for i in range(3):
            size = rooms[i]
            self.at[i] = self.room
            self.room += (size + 63) & ~<uint64_t>63
        self.spare = []

    def __dealloc__(self):
        self.forget()
        c_free(self.steps)
        c_free(self.ranks)
        c_free(self.eager)

    def forget(self) -> None:
        """Give back the room for the next use."""
        global room_kept
        if self.spare:
            room_kept -= self.room * len(self.spare)
            self.spare = []

    cdef object room_take(self):
        global room_kept
        if self.spare:
            room_kept -= self.room
            return self.spare.pop()
        return bytearray(self.room) if self.room <= PLAIN else allocate(self.room)

    cdef int room_give(self, object room) except -1:
        global room_kept
        if room_kept + self.room <= AT_HAND:
            room_kept += self.room
            self.spare.append(room)
        return 0
