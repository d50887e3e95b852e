# A place in a list: an element, or the end.

END = (0, 0)
DEF FAR = 4611686018427387904  # more elements than there are


cdef int no_element(str function) except -1:
    raise IndexError(f"{function}: there is no element at the end; see size()")


cdef class ListCursor:  # type: Generic[_T]
    """An element of a list, or the place behind the last one.

    The cursor stays at its element, whatever is put in, taken out or reordered around it. Once the
    element was taken out of the list, using the cursor raises AddressError.
    """
    cdef readonly ListReader list  # type: Any
    cdef list_id at

    def __init__(self, ListReader list not None, id: tuple[int, int]):
        self.list = list
        self.at.node, self.at.number = id

    @classmethod
    def __class_getitem__(cls, item):
        return _alias(cls, item)

    def __reduce__(self):
        return ListCursor, (self.list, self.id)

    @property
    def id(self) -> tuple[int, int]:
        """The element's name: (node, number), both 0 at the end."""
        return self.at.node, self.at.number

    cdef Batch batch(self, str name):
        if not self.at.node:
            no_element(name)
        cdef Batch batch = self.list._walk(name, 0, 1, ids_of([self.id]))
        if batch.stale:
            stale(name)
        return batch

    @property
    def value(self) -> _T:
        """The element. IndexError at the end."""
        if not self.at.node:
            no_element("Cursor.value")
        value = self.list.one("Cursor.value", 0, &self.at)
        if value is GONE:
            stale("Cursor.value")
        return value

    @property
    def ga(self) -> int:
        """The address of what the element holds, until it is taken out."""
        cdef Batch batch = self.batch("Cursor.ga")
        if batch.elsewhere:
            return batch.elsewhere[0][1]
        return batch.origin + batch.nodes[0] + LIST_NODE

    def advance(self, n: Int = 1) -> ListCursor[_T]:
        """Return the cursor `n` elements on, back if negative. IndexError past an end."""
        id, left = self.id, as_int(n, "Cursor.advance", "a number of elements")
        if not left:
            self.list._stand("Cursor.advance", id)
        while left:
            far = max(-FAR, min(left, FAR))
            done, id = self.list._step("Cursor.advance", far, ids_of([id, END]))
            left -= done
            if not done:
                raise IndexError(
                    f"Cursor.advance: the list ends {abs(left)} before that; see size()"
                )
        return ListCursor(self.list, id)

    def distance(self, other: ListCursor[_T]) -> int:
        """Return how many elements `other` is further on. ValueError if it is not behind."""
        if not isinstance(other, ListCursor):
            raise TypeError(f"Cursor.distance: {other!r:.60} is no cursor of a list; begin, end and "
                            "find return one")
        if other.list != self.list:
            raise ValueError("Cursor.distance: the cursors are of two lists; use one")
        total, id = 0, self.id
        if id == other.id:
            self.list._stand("Cursor.distance", id)
        while id != other.id:
            done, id = self.list._step("Cursor.distance", FAR, ids_of([id, other.id]))
            total += done
            if not done:
                raise ValueError("Cursor.distance: the other is before this one; turn them round")
        return total

    def __eq__(self, other):
        if not isinstance(other, ListCursor):
            return NotImplemented
        return self.id == (<ListCursor>other).id and self.list == (<ListCursor>other).list

    def __hash__(self):
        return hash((self.list, self.id))

    def __repr__(self):
        return f"<acp_mpi.ListCursor {self.at.node:#x} of {self.list._identity()}>"


cdef ListCursor cursor_at(ListReader list, list_id at):
    cdef ListCursor cursor = ListCursor.__new__(ListCursor)
    cursor.list = list
    cursor.at = at
    return cursor
