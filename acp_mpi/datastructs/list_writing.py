"""How elements come into a list, and from one list to another."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex

from acp_mpi.datastructs.container import NOTHING, T, listed
from acp_mpi.datastructs.elements import pack_many
from acp_mpi.datastructs.list_reading import RESUMED, ListReading, element_by, fetch_all
from acp_mpi.engine import _engine
from acp_mpi.engine._engine import END
from acp_mpi.errors import HeapFullError, PeerLostError

ANY = 2**62  # elements: as many as there are
MOVED = 1000  # elements that are between two ranks at a time


def list_of(function: str, cursor: Any) -> Any:
    """Return the list of a cursor. TypeError if it is none."""
    if not isinstance(cursor, _engine.ListCursor):
        text = f"{function}: {cursor!r:.60} is not a cursor; begin, end and find return one"
        raise TypeError(text)
    return cursor.list


class ListWriting(ListReading[T]):
    """A list as it is written."""

    def __init__(
        self,
        contents: Iterable[Any] = NOTHING,
        *,
        dtype: Any = object,
        rank: SupportsIndex | None = None,
    ) -> None:
        self._create(rank, (), element_by(dtype).note)
        if contents is not NOTHING:
            try:
                self._extend("List", contents, None)
            except BaseException:
                self.destroy()
                raise

    def _place(
        self,
        function: str,
        where: int,
        at: tuple[int, int],
        data: bytes | _engine.Pieces,
        rank: SupportsIndex | None,
    ) -> tuple[int, int]:
        """Put in an element of the bytes `data`, in a block of its own where that is needed."""
        here = _engine.query_rank(self.ga)
        if (rank is None or rank == here) and len(data) <= _engine.inline_most:
            return self._put_bytes(function, where, *at, bytes(data))
        block = _engine.laid(data, self._home(rank, function))
        return self._adopt(function, where, at, [(len(data), block, block)])

    def _home(self, rank: SupportsIndex | None, function: str) -> int:
        """Return where a block of an element goes: to `rank`, or to that of the list."""
        if rank is None:
            return _engine.query_rank(self.ga)
        return _engine.existing_rank(rank, function)

    def _copied(
        self, function: str, ga: SupportsIndex, size: int, rank: SupportsIndex | None
    ) -> int:
        """Return the address of a new block with a copy of the bytes at `ga`."""
        block = _engine.block_of(function, size, self._home(rank, function))
        try:
            _engine.copy_all(function, [(block, ga, size)])
        except BaseException:
            _engine.forsake([block])
            raise
        return block

    def _adopt(
        self, function: str, where: int, at: tuple[int, int], records: list[tuple[int, int, int]]
    ) -> tuple[int, int]:
        """Put in elements with their bytes in blocks, which go back if that fails."""
        first = None
        try:
            while records:
                _, id = self._put_block(function, where, *at, records)
                first = first or id
        except BaseException:
            _engine.forsake(block for _, _, block in records)
            raise
        return first or END

    def _extend(self, function: str, values: Iterable[Any], rank: SupportsIndex | None) -> None:
        if isinstance(values, ListWriting) and values._note == self._note and values != self:
            self._copy(function, values, None, END, rank)
        elif width := self._element.width:
            count, data = pack_many(self._element, values, function)
            if not count:
                self._touch(function)
            if self._is_beside(rank, width):
                self._put_row(function, _engine.BACK, *END, data)
            else:
                each = [bytes(data[i * width : (i + 1) * width]) for i in range(count)]
                self._extend_bytes(function, each, rank)
        else:
            elements = [self._element.packed(v, function) for v in listed(function, values)]
            if not elements:
                self._touch(function)
            self._extend_bytes(function, elements, rank)

    def _is_beside(self, rank: SupportsIndex | None, size: int) -> bool:
        return rank in (None, _engine.query_rank(self.ga)) and size <= _engine.inline_most

    def _extend_bytes(
        self, function: str, elements: list[bytes], rank: SupportsIndex | None
    ) -> None:
        small = all(self._is_beside(rank, len(data)) for data in elements)
        if small and elements:
            self._put_many(function, _engine.BACK, *END, elements)
            return
        for start in range(0, len(elements), MOVED):
            self._extend_apart(function, elements[start : start + MOVED], rank)

    def _extend_apart(
        self, function: str, elements: list[bytes], rank: SupportsIndex | None
    ) -> None:
        """Put elements in that lie in blocks of their own, all brought there at once."""
        where = self._home(rank, function)
        records: list[tuple[int, int, int]] = []

        def blocks() -> Iterator[tuple[int, bytes]]:
            for data in elements:
                block = _engine.block_of(function, len(data), where)
                records.append((len(data), block, block))
                yield block, data

        try:
            _engine.put_all(function, blocks())
        except BaseException:
            _engine.forsake(block for _, _, block in records)
            raise
        self._adopt(function, _engine.BACK, END, records)

    def _copy(
        self,
        function: str,
        source: "ListWriting[Any]",
        first: tuple[int, int] | None,
        last: tuple[int, int],
        rank: SupportsIndex | None,
    ) -> None:
        """Append copies of elements of `source`; those in blocks go from rank to rank."""
        if first == END:
            if last != END:
                raise source._no_range(function, first, last)
            return
        ids = _engine.ids_of([first]) if first else b""
        flags, orders = 0, None
        while True:
            batch = source._walk(function, flags, 0, ids)
            if batch.stale and first and not flags:
                raise source._no_range(function, first, last)
            orders = batch.orders if orders is None else orders
            if batch.stale or batch.orders != orders:
                raise RuntimeError(f"{function}: the list was reordered meanwhile; try again")
            stop = next((i for i in range(len(batch.nodes)) if batch.id(i) == last), None)
            if not batch.nodes:
                self._touch(function)
            if batch.ended and stop is None and last != END:
                raise source._no_range(function, first or END, last)
            self._copy_batch(function, source, batch, stop, rank)
            if batch.ended or stop is not None:
                return
            ids, flags = batch.ids(RESUMED), _engine.BEHIND

    def _copy_batch(
        self,
        function: str,
        source: "ListWriting[Any]",
        batch: _engine.Batch,
        stop: int | None,
        rank: SupportsIndex | None,
    ) -> None:
        elsewhere = {i: (ga, size) for i, ga, size in batch.elsewhere}
        run: list[bytes] = []
        for i, value in enumerate(batch.values[:stop]):
            if i not in elsewhere:
                run.append(value if isinstance(value, bytes) else self._element.packed(value))
                continue
            self._extend_bytes(function, run, rank)
            run = []
            ga, size = elsewhere[i]
            block = self._copied(function, ga, size, rank)
            id = _engine.ids_of([(batch.nodes[i], batch.numbers[i])])
            if source._check(function, id) == b"\1":  # else the bytes may be another's
                self._adopt(function, _engine.BACK, END, [(size, block, block)])
            else:
                self._free([block])
        self._extend_bytes(function, run, rank)

    def _move(
        self,
        function: str,
        at: tuple[int, int],
        other: "ListWriting[T]",
        first: tuple[int, int] | None,
        last: tuple[int, int],
        count: int,
        changes: int = _engine.ANY_CHANGES,
        home: bool = False,
    ) -> None:
        """Move elements here, from `first` (None: all) up to `last`; `count` if `other` is far."""
        self._alike(function, other)
        if self._beside(other):
            self._splice_from(function, at, other, first or END, last, changes)
            return
        moved = 0
        while moved < count:
            where = _engine.FRONT if first is None else _engine.AT
            most = min(count - moved, MOVED)
            batch = other._take(function, where, _engine.KEEP, most, *(first or END))
            if batch is None:
                break
            moved += len(batch.blocks)
            self._land(function, at, other, batch, first is None, home)
            if batch.next == END:
                break
            first = first and batch.next

    def _land(
        self,
        function: str,
        at: tuple[int, int],
        other: "ListWriting[T]",
        batch: _engine.Batch,
        at_front: bool,
        home: bool,
    ) -> None:
        """Put elements in that were taken out of `other`; back there if that fails."""
        where = _engine.AT if at != END else _engine.BACK
        try:
            self._settle(function, where, at, batch.blocks, home)
        except BaseException:
            where = _engine.FRONT if at_front else _engine.AT if batch.next != END else _engine.BACK
            try:
                other._settle(function, where, END if at_front else batch.next, batch.blocks, True)
            finally:
                _engine.forsake(block for _, _, block in batch.blocks)
            raise

    def _settle(
        self, function: str, where: int, at: tuple[int, int], records: list[Any], home: bool
    ) -> None:
        """Put in elements that were taken out; `records` are those that are in no list.

        `home`: they were here before, and find room again, one by one if need be.
        """
        try:
            while records:
                self._put_block(function, where, *at, records)
        except HeapFullError:
            while home and records:
                self._settle_one(function, where, at, records)
            if records:
                raise

    def _settle_one(
        self, function: str, where: int, at: tuple[int, int], records: list[Any]
    ) -> None:
        at_front = where == _engine.FRONT
        one = [records.pop(-1 if at_front else 0)]
        try:
            self._put_block(function, where, *at, one)
        except HeapFullError:
            # Where it was beside its chain its block is as long as it will be: that makes room.
            size, ga, block = one[0]
            if not self._is_beside(_engine.query_rank(block), size):
                raise
            (data,) = fetch_all(function, [(ga, size)])
            one.clear()
            self._free([block])
            self._put_bytes(function, where, *at, bytes(data))
        finally:
            records[len(records) if at_front else 0 : 0] = one

    def _beside(self, other: "ListWriting[T]") -> bool:
        return _engine.query_rank(self.ga) == _engine.query_rank(other.ga)

    def _alike(self, function: str, other: "ListWriting[T]") -> None:
        if not isinstance(other, ListWriting):
            raise TypeError(f"{function}: {other!r:.60} is not a List; give one")
        if other._note != self._note:
            raise TypeError(
                f"{function}: the elements are {other.dtype} there and {self.dtype} here; "
                "convert them first"
            )

    def _bury(self, function: str) -> None:
        """Give back the memory of what was erased."""
        more = True
        while more:
            more, blocks = self._bury_some(function)
            self._free(blocks)

    @staticmethod
    def _free(blocks: Iterable[int]) -> None:
        rest = [block for block in blocks if block]
        try:
            while rest:
                with contextlib.suppress(PeerLostError):  # its memory went with it
                    _engine.free(rest.pop())
        except BaseException:
            _engine.forsake(rest)
            raise
