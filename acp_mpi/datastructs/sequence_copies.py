"""How elements come into vectors and deques from addresses of any rank, past the caller."""

import operator
from typing import Any, SupportsIndex

from acp_mpi.datastructs.container import Container, T, count_of
from acp_mpi.datastructs.cursor import Cursor
from acp_mpi.datastructs.elements import dtype_of, element_from
from acp_mpi.engine import _engine
from acp_mpi.errors import Status, from_fault

END = 2**63 - 1
CLIPS_REPEATS = _engine.CLIPS | _engine.REPEATS


class SequenceCopies(_engine.SequenceHandle[T], Container):
    """A vector or deque as a place that elements are copied to."""

    def _open(self) -> None:
        self._of(element_from(self._note))

    def _splice(self, method: str, at: int, erase: int, insert: int, flags: int, data: Any) -> int:
        """Change it, and return the index at which that was."""
        return self._replace(self._named(method), at, erase, insert, flags, data)

    def _named(self, method: str) -> str:
        return f"{type(self).__name__}{'' if method == '[]' else '.'}{method}"

    def _place(self, method: str, at: SupportsIndex | Cursor[T]) -> int:
        """Return the index that an index or a cursor of this container means."""
        name = f"{type(self).__name__}.{method}"
        if isinstance(at, Cursor):
            if at.sequence is not self and at.sequence != self:
                raise ValueError(
                    f"{name}: {at!r} is not of this {type(self).__name__}; use one of its own"
                )
            at = at.index
        try:
            return max(-END, min(operator.index(at), END))
        except TypeError:
            raise TypeError(f"{name}: {at!r:.60} is not an index; use an int or a cursor") from None

    def _between(self, method: str, first: Any, last: Any) -> int:
        """Return how many elements are between two cursors of one container."""
        if not isinstance(first, Cursor) or not isinstance(last, Cursor):
            raise TypeError(
                f"{type(self).__name__}.{method}: {first!r:.60} and {last!r:.60} are not both "
                "cursors; begin and end return some"
            )
        return max(first.distance(last), 0)

    @property
    def dtype(self) -> Any:
        """The NumPy type of the elements."""
        return dtype_of(self._element)

    def push_back_ga(self, ga: SupportsIndex) -> None:
        """Put the element with its bytes at address `ga` behind the last one."""
        self._put_from("push_back_ga", END, 0, ga, 1)

    append_ga = push_back_ga

    def push_front_ga(self, ga: SupportsIndex) -> None:
        """Put the element with its bytes at address `ga` before the first one."""
        self._put_from("push_front_ga", 0, 0, ga, 1)

    def insert_ga(self, at: SupportsIndex | Cursor[T], ga: SupportsIndex) -> Cursor[T]:
        """Put the element with its bytes at address `ga` before the element at `at`."""
        return Cursor(self, self._put_from("insert_ga", self._place("insert_ga", at), 0, ga, 1))

    def insert_range_ga(
        self, at: SupportsIndex | Cursor[T], ga: SupportsIndex, n: SupportsIndex
    ) -> Cursor[T]:
        """Put `n` elements with their bytes at address `ga` before the element at `at`."""
        place = self._place("insert_range_ga", at)
        return Cursor(self, self._put_from("insert_range_ga", place, 0, ga, n))

    def extend_ga(self, ga: SupportsIndex, n: SupportsIndex) -> None:
        """Put `n` elements with their bytes at address `ga` behind the last one."""
        self._put_from("extend_ga", END, 0, ga, n)

    def assign_ga(self, ga: SupportsIndex, n: SupportsIndex) -> None:
        """Have `n` elements with their bytes at address `ga` in place of all elements."""
        self._put_from("assign_ga", 0, END, ga, n)

    def fill_ga(self, n: SupportsIndex, ga: SupportsIndex) -> None:
        """Have `n` times the element with its bytes at `ga` in place of all elements."""
        name = self._named("fill_ga")
        n = count_of(name, n)
        data = bytearray(self._element.width)
        if data:
            _engine.get_all(name, [(ga, data)])
        self._splice("fill_ga", 0, END, n, CLIPS_REPEATS, data)

    def _ga_of(self, index: int) -> int:
        size, _, width, _, ga = self._look("Cursor.ga")
        if not 0 <= index < size:
            raise IndexError(f"Cursor.ga: there is no element at {index}; see size()")
        if not ga:
            raise ValueError("Cursor.ga: the elements go around the end of their block")
        return ga + index * width

    def _alike(self, method: str, other: "SequenceCopies[Any]") -> None:
        if other._element.note != self._element.note:
            raise TypeError(
                f"{self._named(method)}: the elements are {other.dtype} there and "
                f"{self.dtype} here; convert them first"
            )

    def _block_of(
        self, method: str, source: "SequenceCopies[Any]", at: int, count: int
    ) -> tuple[int, int]:
        """Return the address of a block with elements of `source`, and how many there are."""
        return source._read_block(self._named(method), at, count)

    def _put_copy(
        self,
        method: str,
        at: int,
        erase: int,
        source: "SequenceCopies[Any]",
        first: int,
        count: int,
    ) -> int:
        self._alike(method, source)
        block, count = self._block_of(method, source, first, count)
        return self._put_block(method, at, erase, count, block, block)

    def _put_from(
        self, method: str, at: int, erase: int, ga: SupportsIndex, count: SupportsIndex
    ) -> int:
        count = count_of(self._named(method), count)
        if count * self._element.width >= 1 << 63:  # no size that malloc takes, or has
            size, rank = count * self._element.width, _engine.query_rank(self.ga)
            raise from_fault(self._named(method), Status.FULL, 0, size, rank)
        return self._put_block(method, at, erase, count, ga, 0)

    def _landed(self, method: str, ga: SupportsIndex, count: int) -> int:
        """Return a new block on the own rank with the bytes of `count` elements at `ga`."""
        size = count * self._element.width
        here = _engine.block_of(self._named(method), size, _engine.query_rank(self.ga))
        try:
            if size:
                _engine.copy_all(self._named(method), [(here, ga, size)])
        except BaseException:
            _engine.forsake([here])
            raise
        return here

    def _put_block(
        self, method: str, at: int, erase: int, count: int, ga: SupportsIndex, block: int
    ) -> int:
        """Put `count` elements at `ga` in; `block`, if any, is theirs and goes with them."""
        try:
            if not block or _engine.query_rank(block) != _engine.query_rank(self.ga):
                here = self._landed(method, ga, count)
            else:
                here, block = block, 0
        finally:
            if block:
                _engine.free(block)
        return self._splice(method, at, erase, count, _engine.CLIPS, here)
