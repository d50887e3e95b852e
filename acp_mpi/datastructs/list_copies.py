"""How elements come into lists from addresses of any rank, past the caller."""

import contextlib
from collections.abc import Iterator
from typing import Any, Self, SupportsIndex

from acp_mpi.datastructs.container import T, count_of
from acp_mpi.datastructs.list_writing import ANY, ListWriting
from acp_mpi.engine import _engine
from acp_mpi.engine._engine import END, ListCursor
from acp_mpi.errors import Status, from_fault

_LEAST = 32  # bytes of an element in the heap of the chain
_MANY = 1 << 20  # elements; for more the room is checked before they are made


class ListCopies(ListWriting[T]):
    """A list as a place that elements are copied to."""

    def push_back_ga(
        self,
        ga: SupportsIndex,
        size: SupportsIndex | None = None,
        rank: SupportsIndex | None = None,
    ) -> None:
        """Put an element of the `size` bytes at address `ga` behind the last one.

        They go to `rank` (None: to the chain) without the caller. `size` None: that of the type.
        """
        self._put_from("List.push_back_ga", _engine.BACK, END, ga, size, rank)

    def push_front_ga(
        self,
        ga: SupportsIndex,
        size: SupportsIndex | None = None,
        rank: SupportsIndex | None = None,
    ) -> None:
        """Put an element of the `size` bytes at address `ga` before the first one."""
        self._put_from("List.push_front_ga", _engine.FRONT, END, ga, size, rank)

    def insert_ga(
        self,
        cursor: ListCursor[T],
        ga: SupportsIndex,
        size: SupportsIndex | None = None,
        rank: SupportsIndex | None = None,
    ) -> ListCursor[T]:
        """Put an element of the `size` bytes at `ga` before that of `cursor`; its cursor."""
        at = self._id_of(cursor, "List.insert_ga")
        return ListCursor(self, self._put_from("List.insert_ga", _engine.AT, at, ga, size, rank))

    append_ga = push_back_ga
    appendleft_ga = push_front_ga

    def fill(self, n: SupportsIndex, value: T, rank: SupportsIndex | None = None) -> None:
        """Have `n` times `value` in place of all elements, at once."""
        n = count_of("List.fill", n)
        self._fill("List.fill", n, self._element.packed(value, "List.fill"), rank)

    def fill_ga(
        self,
        n: SupportsIndex,
        ga: SupportsIndex,
        size: SupportsIndex | None = None,
        rank: SupportsIndex | None = None,
    ) -> None:
        """Have `n` times the element with its bytes at `ga` in place of all elements, at once."""
        n = count_of("List.fill_ga", n)
        self._fill("List.fill_ga", n, self._bytes_at("List.fill_ga", ga, size), rank)

    def _fill(self, function: str, n: int, data: bytes, rank: SupportsIndex | None) -> None:
        here = _engine.query_rank(self.ga)
        if n > _MANY and n * _LEAST > (limit := _engine.heap_look(here)[-1]):
            raise from_fault(function, Status.FULL, 0, n * _LEAST, here, high=limit)
        with self._aside() as new:
            new._extend_bytes(function, n * [data], rank)
            self._exchange(function, new)

    @contextlib.contextmanager
    def _aside(self) -> Iterator[Self]:
        """Make a list beside this one for as long as the block lasts."""
        new = type(self)(dtype=self._element, rank=_engine.query_rank(self.ga))
        try:
            yield new
        finally:
            new.destroy()

    def _swap_apart(self: Any, function: str, other: Any) -> None:
        """Exchange all elements with a list of another rank; what has moved goes back on errors."""
        with other._aside() as mine:
            swapped = False
            try:
                mine._move(function, END, self, None, END, ANY)
                mine._exchange(function, other)
                swapped = True
                self._move(function, END, mine, None, END, ANY)
            except BaseException:
                try:
                    if swapped:
                        mine._move(function, mine.begin().id, self, None, END, ANY)
                        mine._exchange(function, other)
                    self._move(function, self.begin().id, mine, None, END, ANY, home=True)
                finally:
                    other._move(function, END, mine, None, END, ANY)  # which ends with the block
                raise

    def _put_from(
        self,
        function: str,
        where: int,
        at: tuple[int, int],
        ga: SupportsIndex,
        size: SupportsIndex | None,
        rank: SupportsIndex | None,
    ) -> tuple[int, int]:
        size = self._size_at(function, size)
        block = self._copied(function, ga, size, rank)
        return self._adopt(function, where, at, [(size, block, block)])

    def _size_at(self, function: str, size: SupportsIndex | None) -> int:
        width = self._element.width
        if size is None and not width:
            raise TypeError(f"{function}: elements of this list have any size; give `size`")
        size = width if size is None else count_of(function, size, of="bytes")
        if width and size != width:
            raise ValueError(f"{function}: an element has {width} bytes, not {size}; leave it out")
        return size

    def _bytes_at(self, function: str, ga: SupportsIndex, size: SupportsIndex | None) -> bytes:
        data = bytearray(self._size_at(function, size))
        if data:
            _engine.get_all(function, [(ga, data)])
        return bytes(data)
