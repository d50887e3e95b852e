"""The base of vectors and deques: elements of one type, by index, on one rank."""

import collections.abc
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self, SupportsIndex

from acp_mpi.datastructs.container import NOTHING, SHOWN, T, count_of, shown
from acp_mpi.datastructs.cursor import Cursor
from acp_mpi.datastructs.elements import (
    array_of,
    element_of,
    pack_many,
    some_of,
    unpack_many,
)
from acp_mpi.datastructs.sequence_copies import CLIPS_REPEATS, END, SequenceCopies
from acp_mpi.engine import _engine

RESIZES_REPEATS = _engine.RESIZES | _engine.REPEATS


@dataclass(frozen=True)
class SequenceStatistics:
    """The result of `statistics`; `bytes` are those of the block of the elements."""

    rank: int
    size: int
    capacity: int
    itemsize: int
    bytes: int


class Sequence(SequenceCopies[T], collections.abc.Sequence[T]):
    """Elements of one type on `rank` (None: the calling one).

    They are `contents` at first, or `size` zeros. `dtype` is int, float, bool, a letter of the
    struct module, "V13" for 13 raw bytes, or anything that numpy.dtype takes. Local to the caller.
    """

    def __init__(
        self,
        dtype: Any,
        contents: Any = NOTHING,
        *,
        size: SupportsIndex | None = None,
        rank: SupportsIndex | None = None,
    ) -> None:
        name = type(self).__name__
        if hasattr(contents, "__index__") and not hasattr(contents, "__len__"):
            raise TypeError(
                f"{name}: the contents {contents!r:.60} are one number; give many in a list, or "
                f"size={contents!r:.60} for as many zeros"
            )
        element, zeros = element_of(dtype, name), 0 if size is None else count_of(name, size)
        if size is not None and contents is not NOTHING:
            raise TypeError(f"{name}: both contents and size={size!r} are given; give one of them")
        self._create(rank, (element.width,), element.note)
        try:
            if zeros:
                self.reserve(zeros)
                self._splice("fill", 0, 0, zeros, _engine.REPEATS, bytes(element.width))
            elif contents is not NOTHING:
                self._put_many("extend", 0, 0, contents)
        except BaseException:
            self.destroy()
            raise

    def empty(self) -> bool:
        """Return whether there is no element."""
        return self.size() == 0

    def capacity(self) -> int:
        """Return how many elements there is room for without growing."""
        return self._look(f"{type(self).__name__}.capacity")[1]

    def statistics(self) -> SequenceStatistics:
        """Return where it is, how many elements it has and room for, and its bytes."""
        size, room, width, total, _ = self._look(f"{type(self).__name__}.statistics")
        return SequenceStatistics(_engine.query_rank(self.ga), size, room, width, total)

    append = _engine.SequenceHandle[T].push_back

    def insert(self, at: SupportsIndex | Cursor[T], value: T) -> Cursor[T]:
        """Put `value` before the element at `at`, at the end if there is none; its cursor."""
        return Cursor(self, self._insert_one("insert", self._place("insert", at), value))

    def insert_range(
        self, at: SupportsIndex | Cursor[T], values: Any, last: Cursor[T] | None = None
    ) -> Cursor[T]:
        """Put all `values` before the element at `at`, in one operation.

        With `last` they are the elements between two cursors of one container, `values` and
        `last`, and go from rank to rank without the caller.
        """
        name, place = "insert_range", self._place("insert_range", at)
        if last is None:
            if isinstance(values, Cursor):
                raise TypeError(
                    f"{type(self).__name__}.{name}: {values!r} is where elements begin; give the "
                    "cursor where they end as well"
                )
            return Cursor(self, self._put_many(name, place, 0, values))
        count = self._between(name, values, last)
        return Cursor(self, self._put_copy(name, place, 0, values.sequence, values.index, count))

    def extend(self, values: Iterable[T]) -> None:
        """Put all `values` behind the last element, in one operation.

        They are an array, a buffer of such elements, any iterable, or a vector or deque of the same
        type, in which case they go from rank to rank without the caller.
        """
        self._put_many("extend", END, 0, values)

    def assign(self, values: Iterable[T]) -> None:
        """Have `values` in place of all elements, in one operation."""
        self._put_many("assign", 0, END, values)

    def fill(self, n: SupportsIndex, value: T) -> None:
        """Have `n` times `value` in place of all elements, in one operation."""
        name = f"{type(self).__name__}.fill"
        data = self._element.packed(value, name)
        self._splice("fill", 0, END, count_of(name, n), CLIPS_REPEATS, data)

    def resize(self, n: SupportsIndex, value: T | None = None) -> None:
        """Have `n` elements: the last ones go, or copies of `value` (None: zero bytes) come."""
        name = f"{type(self).__name__}.resize"
        n = count_of(name, n)
        one = bytes(self._element.width) if value is None else self._element.packed(value, name)
        self._splice("resize", 0, 0, n, RESIZES_REPEATS, one)

    def clear(self) -> None:
        """Take out all elements; the room for them stays."""
        self._splice("clear", 0, END, 0, _engine.CLIPS, b"")

    def erase(self, at: SupportsIndex | Cursor[T]) -> Cursor[T]:
        """Take out the element at `at`; the cursor of the one behind it. IndexError."""
        return Cursor(self, self._splice("erase", self._place("erase", at), 1, 0, 0, b""))

    def erase_range(
        self, first: SupportsIndex | Cursor[T], last: SupportsIndex | Cursor[T]
    ) -> Cursor[T]:
        """Take out the elements from `first` up to, but not with, `last`; none if it is before.

        The cursor of the one behind them. If one of the two is negative and the other is not, the
        size is asked for first. IndexError.
        """
        begin, end = self._place("erase_range", first), self._place("erase_range", last)
        if (begin < 0) != (end < 0):
            size = self.size()
            begin, end = (i + size if i < 0 else i for i in (begin, end))
            if begin < 0 or end < 0:
                raise IndexError(
                    f"{type(self).__name__}.erase_range: there is no element at "
                    f"{min(begin, end) - size}; see size()"
                )
        return Cursor(self, self._splice("erase_range", begin, max(end - begin, 0), 0, 0, b""))

    def assign_range(self, first: Cursor[T], last: Cursor[T]) -> None:
        """Have the elements between two cursors of one container in place of all elements.

        They go from rank to rank without the caller.
        """
        count = self._between("assign_range", first, last)
        self._put_copy("assign_range", 0, END, first.sequence, first.index, count)

    def swap(self, other: Self) -> None:
        """Exchange all elements with `other`, of the same type, on any rank.

        Each of the two changes at once, one after the other; if one has no room for what comes,
        both are as before.
        """
        if not isinstance(other, Sequence):
            raise TypeError(
                f"{type(self).__name__}.swap: {other!r:.60} is not a Vector or Deque; give one"
            )
        self._alike("swap", other)
        if other == self:
            self._look(self._named("swap"))  # is it there?
            return
        mine, size = self._block_of("swap", self, 0, END)
        there = 0
        try:
            there = other._landed("swap", mine, size)  # before anything changes
            self._put_copy("swap", 0, END, other, 0, END)
        except BaseException:
            _engine.forsake([mine, there])
            raise
        try:
            other._splice("swap", 0, END, size, _engine.CLIPS, there)
        except Exception:
            self._splice("swap", 0, END, size, _engine.CLIPS, mine)  # as it was
            raise
        except BaseException:
            _engine.forsake([mine])
            raise
        _engine.free(mine)

    def begin(self) -> Cursor[T]:
        """Return the cursor of the first element."""
        self._look(self._named("begin"))  # is it there?
        return Cursor(self, 0)

    def end(self) -> Cursor[T]:
        """Return the cursor behind the element that is the last one now."""
        return Cursor(self, self.size())

    def _get_slice(self, index: slice) -> Any:
        """Return the elements of a slice as they are at one instant: what `[]` does."""
        name = f"{type(self).__name__}[]"
        self._check_slice(index)
        if index.step is None or index.step == 1:
            data, count = self._slice_bytes(name, index)
            return array_of(self._element, data, count)
        data = self._read(name, 0, END, _engine.CLIPS)
        return some_of(self._element, data, self._count(data), index)

    def _count(self, data: bytearray) -> int:
        return len(data) // self._element.width if self._element.width else self.size()

    def _slice_bytes(self, name: str, index: slice) -> tuple[bytearray, int]:
        start, count = self._stretch(index)
        data = self._read(name, start, count, _engine.CLIPS)
        if not self._element.width:
            end = start + count if start >= 0 else None
            count = len(range(*slice(start, end).indices(self.size())))
        return data, len(data) // self._element.width if self._element.width else count

    def _stretch(self, index: slice) -> tuple[int, int]:
        """Return where a slice begins and how many elements it has at most.

        Only an index that counts from the end needs the size.
        """
        start = max(-END, min(operator.index(index.start or 0), END))
        stop = END if index.stop is None else min(operator.index(index.stop), END)
        if stop < 0 or (start < 0 and stop != END):
            start, stop, _ = index.indices(self.size())
        if start >= stop:
            return start, 0
        return start, END if stop == END else stop - start

    def _check_slice(self, index: Any) -> None:
        if not isinstance(index, slice):
            raise TypeError(
                f"{type(self).__name__}[]: {index!r:.60} is not an index; use an int or a slice"
            )
        for part in (index.start, index.stop, index.step):
            if part is not None and not hasattr(part, "__index__"):
                raise TypeError(
                    f"{type(self).__name__}[]: {part!r:.60} is not an index; use ints in a slice"
                )
        if index.step is not None and operator.index(index.step) == 0:
            raise ValueError(f"{type(self).__name__}[]: the step of a slice is 0; use 1, say")

    def _range_of(self, index: slice) -> tuple[int, int]:
        self._check_slice(index)
        if index.step not in (None, 1):
            raise ValueError(
                f"{type(self).__name__}[]: a slice with step {index.step} is only read; write "
                "element by element, or assign the whole"
            )
        return self._stretch(index)

    def _set_slice(self, index: slice, values: Any) -> None:
        """Have `values` in place of a slice, in one operation: what `[]` does."""
        start, count = self._range_of(index)
        self._put_many("[]", start, count, values)

    def _drop_slice(self, index: slice) -> None:
        """Take out a slice, in one operation: what `del` does."""
        start, count = self._range_of(index)
        self._splice("[]", start, count, 0, _engine.CLIPS, b"")

    def tolist(self) -> list[T]:
        """Return all elements as they are at one instant."""
        data, count = self._slice_bytes(f"{type(self).__name__}.tolist", slice(None))
        return unpack_many(self._element, data, count)

    to_list = tolist

    def _described(self) -> str:
        count = len(self)
        data, some = self._slice_bytes(f"{type(self).__name__}.__repr__", slice(SHOWN))
        elements = shown(unpack_many(self._element, data, some), count)
        return self._containing([_engine.query_rank(self.ga)], count, elements)

    def index(self, value: Any, start: int = 0, stop: int | None = None) -> int:
        """Return the first index of `value` from `start` up to `stop`. ValueError."""
        values = self.tolist()
        return values.index(value, start, len(values) if stop is None else stop)

    def count(self, value: Any) -> int:
        """Return how many elements equal `value`."""
        return self.tolist().count(value)

    def __contains__(self, value: object) -> bool:
        return value in self.tolist()

    def __iter__(self) -> Iterator[T]:
        """Iterate over the elements as they are now, at one instant."""
        return iter(self.tolist())

    def __reversed__(self) -> Iterator[T]:
        return reversed(self.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy

        if copy is False:
            raise ValueError(
                f"{type(self).__name__}: its elements come as a copy; see Vector.view for those "
                "of this node"
            )
        data, count = self._slice_bytes(f"{type(self).__name__}[]", slice(None))
        return numpy.asarray(array_of(self._element, data, count), dtype)

    def __iadd__(self, values: Iterable[T]) -> Self:
        self.extend(values)
        return self

    def duplicate(self, rank: SupportsIndex | None = None) -> Self:
        """Return a new container on `rank` (None: the calling one) with the same elements."""
        copy = type(self)(self._element, rank=rank)
        try:
            copy.assign(self)
        except BaseException:
            copy.destroy()
            raise
        return copy

    def _put_many(self, method: str, at: int, erase: int, values: Any) -> int:
        if isinstance(values, Sequence) and values._element.note == self._element.note:
            return self._put_copy(method, at, erase, values, 0, END)
        count, data = pack_many(self._element, values, self._named(method))
        return self._splice(method, at, erase, count, _engine.CLIPS, data)
