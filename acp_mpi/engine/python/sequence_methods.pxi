# Methods of vectors and deques.

cdef class SequenceHandle(SequenceCalls):  # type: SequenceCalls, Generic[_T]
    """A row of elements of one type on some rank: its methods."""

    def reserve(self, n: Int) -> None:
        """Have room for `n` elements, so that it does not grow before there are more."""
        call_run(self.named("reserve"), call_new(METHOD_SEQUENCE_RESERVE, self.ga, self.serial,
                                                 amount(n, self.named("reserve"))))

    def shrink_to_fit(self) -> None:
        """Give back the room for more elements than there are."""
        call_run(self.named("shrink_to_fit"), call_new(METHOD_SEQUENCE_RESERVE, self.ga,
                                                       self.serial, RESERVE_FITS))

    cdef str named(self, str method):
        return f"{type(self).__name__}.{method}"

    def size(self) -> int:
        """Return how many elements there are."""
        cdef acp_call here
        cdef Call c
        cdef int rc
        if engine == NULL:
            no_engine(self.named("size"))
        call_fill(&here, METHOD_SEQUENCE_LOOK, self, 0)
        rc = acp_container_here(lane0, &here)
        if rc == ACP_OK:
            return here.result[0]
        if rc != ACP_E_BUSY:
            call_ended(self.named("size"), rc, lane0)
        c = call_new(METHOD_SEQUENCE_LOOK, self.ga, self.serial, 0)
        call_run(self.named("size"), c)
        return c.call.result[0]

    def __len__(self) -> int:
        return self.size()

    def push_back(self, value: _T) -> None:
        """Put `value` behind the last element."""
        self.put_one("push_back", INT64_MAX, value, False)

    def pop_back(self) -> _T:
        """Take out the last element and return it. IndexError if there is none."""
        return self.pop_one("pop_back", -1)

    def push_front(self, value: _T) -> None:
        """Put `value` before the first element."""
        self.put_one("push_front", 0, value, False)

    def pop_front(self) -> _T:
        """Take out the first element and return it. IndexError if there is none."""
        return self.pop_one("pop_front", 0)

    def _insert_one(self, str function, int64_t at, value) -> int:
        """Put `value` before the element at `at`, at the end if there is none; its index."""
        return self.put_one(function, at, value, False)

    def pop(self, index: Int = -1) -> _T:
        """Take out the element at `index` and return it. IndexError if there is none."""
        return self.pop_one("pop", place_of(self, "pop", index))

    def __getitem__(self, index) -> _T if index is Int else Any:
        if PyIndex_Check(index):
            return self.read_one("[]", place_of(self, "[]", index))
        return self._get_slice(index)

    def __setitem__(self, index, value) -> None:
        if PyIndex_Check(index):
            self.put_one("[]", place_of(self, "[]", index), value, True)
        else:
            self._set_slice(index, value)

    def __delitem__(self, index) -> None:
        if PyIndex_Check(index):
            self._replace("[]", place_of(self, "[]", index), 1, 0, 0, b"")
        else:
            self._drop_slice(index)

    def front(self) -> _T:
        """Return the first element. IndexError if there is none."""
        return self.read_one("front", 0)

    def back(self) -> _T:
        """Return the last element. IndexError if there is none."""
        return self.read_one("back", -1)

    def at(self, index: Int) -> _T:
        """Return the element at `index`, from the end if negative. IndexError if there is none."""
        return self.read_one("at", place_of(self, "at", index))


cdef inline int64_t place_of(SequenceHandle sequence, str function, object at) except? -1:
    if PyLong_CheckExact(at) and is_compact(at):
        return compact(at)
    return sequence.place(function, at)
