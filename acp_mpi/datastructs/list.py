"""A list: elements of any length in a chain on one rank, what they hold on any."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, SupportsIndex, overload

from acp_mpi.datastructs.container import NOTHING, PlainKey, T, shown
from acp_mpi.datastructs.list_copies import ListCopies
from acp_mpi.datastructs.list_order import comparing, keys_of, merged, ordered
from acp_mpi.datastructs.list_writing import ANY, list_of
from acp_mpi.engine import _engine
from acp_mpi.engine._engine import END, GONE, ListCursor
from acp_mpi.errors import AddressError


@dataclass(frozen=True)
class ListStatistics:
    """The result of `List.statistics`; `changes` counts insertions, removals and the like."""

    rank: int
    size: int
    changes: int


class List(ListCopies[T]):
    """A doubly linked list of `contents` on `rank` (None: the calling one).

    `dtype` object: any values that pickle; bytes: bytes of any length; else one fixed-size type as
    for Vector. The `rank` of an element says where its bytes lie, None: with the chain. Local to
    the caller; each call is atomic against others but where it says otherwise (paper 000).
    """

    @overload
    def __init__(self, contents: Iterable[T], *, rank: SupportsIndex | None = None) -> None: ...
    @overload
    def __init__(
        self: "List[PlainKey]",
        contents: Iterable[PlainKey] = ...,
        *,
        dtype: type[PlainKey],
        rank: SupportsIndex | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "List[Any]",
        contents: Iterable[Any] = ...,
        *,
        dtype: Any = object,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    def __init__(
        self,
        contents: Iterable[Any] = NOTHING,
        *,
        dtype: Any = object,
        rank: SupportsIndex | None = None,
    ) -> None:
        super().__init__(contents, dtype=dtype, rank=rank)

    append = _engine.ListHandle[T].push_back
    appendleft = _engine.ListHandle[T].push_front
    pop = _engine.ListHandle[T].pop_back
    popleft = _engine.ListHandle[T].pop_front

    # Places -------------------------------------------------------------------------------

    def begin(self) -> ListCursor[T]:
        """Return the cursor of the first element, `end()` if there is none."""
        batch = self._walk("List.begin", 0, 1, b"")
        return ListCursor(self, (batch.nodes[0], batch.numbers[0]) if batch.nodes else END)

    def end(self) -> ListCursor[T]:
        """Return the cursor behind the last element, whichever that is."""
        return ListCursor(self, END)

    def find(self, value: Any) -> ListCursor[T]:
        """Return the cursor of the first element that equals `value`, `end()` if none does."""
        for batch in self._batches("List.find"):
            for node, number, there in zip(batch.nodes, batch.numbers, batch.values, strict=True):
                if there is not GONE and there == value:
                    return ListCursor(self, (node, number))
        return self.end()

    def erase_range(self, first: ListCursor[T], last: ListCursor[T]) -> ListCursor[T]:
        """Take out the elements from `first` up to, but not with, `last`; returns `last`.

        ValueError if `last` is before `first`.
        """
        name = "List.erase_range"
        begin, end = self._id_of(first, name), self._id_of(last, name)
        if begin != end:
            try:
                self._erase_between(name, begin, end)
            except AddressError:
                raise self._no_range(name, begin, end) from None
            self._bury(name)
        else:
            self._stand(name, begin)
        return last

    def clear(self) -> None:
        """Take out all elements."""
        self._drop_all("List.clear")
        self._bury("List.clear")

    def empty(self) -> bool:
        """Return whether there is no element."""
        return self.size() == 0

    # Many ---------------------------------------------------------------------------------

    def extend(self, values: Iterable[T], rank: SupportsIndex | None = None) -> None:
        """Put all `values` behind the last element, those of an array or of another list as well.

        All or none up to 64 KiB; more go in by pieces, and others may get in between.
        """
        self._extend("List.extend", values, rank)

    def assign(self, values: Iterable[T], rank: SupportsIndex | None = None) -> None:
        """Have `values` in place of all elements, at once."""
        with self._aside() as new:
            new._extend("List.assign", values, rank)
            self._exchange("List.assign", new)

    def assign_range(
        self, first: ListCursor[T], last: ListCursor[T], rank: SupportsIndex | None = None
    ) -> None:
        """Have the elements from `first` up to `last`, of any list of this type, in their place.

        Elements in a block of their own go from rank to rank without the caller. ValueError if
        `last` is before `first`.
        """
        name = "List.assign_range"
        list_of(name, first)._alike(name, self)
        with self._aside() as new:
            new._copy(name, first.list, first.id, first.list._id_of(last, name), rank)
            self._exchange(name, new)

    def duplicate(self, rank: SupportsIndex | None = None) -> Self:
        """Return a new list on `rank` (None: the calling one) with the same elements, all there."""
        copy = type(self)(dtype=self._element, rank=rank)
        try:
            copy._copy("List.duplicate", self, None, END, None)
        except BaseException:
            copy.destroy()
            raise
        return copy

    def remove_ga(self, ga: SupportsIndex, size: SupportsIndex | None = None) -> int:
        """Take out all elements that equal the one with its bytes at `ga`; as `remove`."""
        return self.remove(self._decoded(self._bytes_at("List.remove_ga", ga, size)))

    # Order --------------------------------------------------------------------------------

    def sort(
        self,
        key: Callable[[T], Any] | None = None,
        compare: Callable[[T, T], SupportsIndex] | None = None,
        *,
        reverse: bool = False,
    ) -> None:
        """Sort the elements as `sorted` does; `compare(a, b)` is negative if `a` goes first.

        The functions run at the caller, on a snapshot. RuntimeError, and nothing is done, if the
        list changed meanwhile. Equal elements keep their order.
        """
        nodes, values, changes = self._snapshot("List.sort")
        keys = keys_of("List.sort", values, key, compare)
        order = ordered("List.sort", keys, compare, reverse)
        self._reorder("List.sort", changes, [nodes[i] for i in order], len(nodes))

    def merge(
        self,
        other: Self,
        compare: Callable[[T, T], SupportsIndex] | None = None,
        *,
        key: Callable[[T], Any] | None = None,
    ) -> None:
        """Move all elements of `other`, sorted as this list is, here, so that this stays sorted.

        Of equal elements those of this list come first. RuntimeError if one of the lists changed
        meanwhile: the elements are in `other` still, or at the end here.
        """
        name = "List.merge"
        self._alike(name, other)
        if other == self:
            self._touch(name)
            return
        nodes, values, changes = self._snapshot(name)
        others, their, since = other._snapshot(name)
        if not others:
            return
        keys = keys_of(name, values + their, key, compare)
        order = merged(name, keys, len(nodes), compare)
        self._move(name, END, other, None, END, len(others), since)
        if self._beside(other):
            now, changes = nodes + others, changes + 1
        else:
            now, _, changes = self._snapshot(name)
        if len(now) != len(order) or now[: len(nodes)] != nodes:
            raise RuntimeError(
                f"{name}: another rank changed the list meanwhile; the elements of the other one "
                "are in it, not in order: sort it"
            )
        self._reorder(name, changes, [now[i] for i in order], len(now))

    def remove(self, value: Any) -> int:
        """Take out all elements that equal `value`, unlike Python's lists; returns how many.

        RuntimeError, and nothing is done, if the list changed meanwhile.
        """
        nodes, values, changes = self._snapshot("List.remove")
        return self._keep("List.remove", changes, nodes, [there != value for there in values])

    def unique(self, compare: Callable[[T, T], SupportsIndex] | None = None) -> int:
        """Take out all elements that equal the one before them; returns how many.

        `compare(a, b)` is 0 if they do. RuntimeError, and nothing is done, if the list changed
        meanwhile.
        """
        same_as = comparing("List.unique", compare) if compare is not None else None
        nodes, values, changes = self._snapshot("List.unique")
        stays = []
        last = 0
        for i, value in enumerate(values):
            same = i and (same_as(values[last], value) == 0 if same_as else values[last] == value)
            stays.append(not same)
            last = last if same else i
        return self._keep("List.unique", changes, nodes, stays)

    # Two lists ----------------------------------------------------------------------------

    def splice(self, cursor: ListCursor[T], other: "Self | ListCursor[T]") -> None:
        """Move all elements of `other`, or the one of that cursor, before the one of `cursor`.

        Their blocks stay where they are. Atomic if the lists are on the same rank; else elements go
        some at a time, and meanwhile are in neither list.
        """
        at = self._id_of(cursor, "List.splice")
        if isinstance(other, ListCursor):
            if other.id == END:
                raise IndexError("List.splice: there is no element at the end; see size()")
            self._move("List.splice", at, other.list, other.id, other.id, 1)
        elif other == self:
            self._touch("List.splice")
        else:
            self._move("List.splice", at, other, None, END, ANY)

    def splice_range(
        self, cursor: ListCursor[T], first: ListCursor[T], last: ListCursor[T]
    ) -> None:
        """Move the elements from `first` up to `last`, of any list, before the one of `cursor`.

        As `splice`. ValueError if `last` is before `first`.
        """
        name = "List.splice_range"
        at = self._id_of(cursor, name)
        list_of(name, first)._id_of(last, name)
        if first == last:
            self._touch(name)
            first.list._stand(name, first.id)
            return
        try:
            count = 0 if self._beside(first.list) else first.distance(last)
            self._move(name, at, first.list, first.id, last.id, count)
        except (AddressError, ValueError):
            if at != END and self._check(name, _engine.ids_of([at])) != b"\1":
                raise
            raise first.list._no_range(name, first.id, last.id) from None

    def swap(self, other: Self) -> None:
        """Exchange all elements with `other`, of the same type.

        Atomic, O(1), and cursors go with the elements, if both are on one rank; else as `splice`.
        """
        self._alike("List.swap", other)
        if self._beside(other):
            self._exchange("List.swap", other)
        else:
            self._swap_apart("List.swap", other)

    # Python -------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[T]:
        """Iterate, in batches: an element that is there throughout appears once.

        RuntimeError if meanwhile the list was sorted, reversed or swapped, or all that an
        iteration stood at were taken out.
        """
        return self._values("List iteration", 0)

    def _described(self) -> str:
        count = len(self)
        return self._containing([_engine.query_rank(self.ga)], count, shown(self, count))

    def to_list(self) -> list[T]:
        """Return all elements as a Python list. As iteration."""
        return list(self)

    def __reversed__(self) -> Iterator[T]:
        return self._values("List iteration", _engine.BACKWARD)

    def __contains__(self, value: object) -> bool:
        return self.find(value) != self.end()

    def __iadd__(self, values: Iterable[T]) -> Self:
        self.extend(values)
        return self

    def statistics(self) -> ListStatistics:
        """Return where the chain is, how many elements it has, and how often it changed."""
        batch = self._walk("List.statistics", 0, 1, b"")
        return ListStatistics(_engine.query_rank(self.ga), batch.size, batch.changes)

    def destroy(self) -> None:
        """Give back its memory on all ranks; later uses raise AddressError.

        Again on the same handle: nothing. Local to the caller.
        """
        if not self._destroyed:
            with suppress(AddressError):  # a rank that began to destroy it may have been killed
                self.clear()
        super().destroy()

    def _keep(self, function: str, changes: int, nodes: list[int], stays: list[bool]) -> int:
        kept = [node for node, stay in zip(nodes, stays, strict=True) if stay]
        gone = [node for node, stay in zip(nodes, stays, strict=True) if not stay]
        if gone:
            self._reorder(function, changes, kept + gone, len(kept))
            self._bury(function)
        return len(gone)
