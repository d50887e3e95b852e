"""How a list is read: in batches, with what lies elsewhere fetched beside."""

import pickle
from array import array
from collections.abc import Iterator
from functools import partial
from typing import Any

from acp_mpi.datastructs.container import Container, T
from acp_mpi.datastructs.elements import dtype_of, element_from, element_of
from acp_mpi.engine import _engine
from acp_mpi.engine._engine import GONE
from acp_mpi.errors import AddressError

PROTOCOL = 5  # of pickle: buffers stand in one piece
OBJECTS = _engine.Element(0, b"object", "", partial(pickle.dumps, protocol=PROTOCOL), pickle.loads)
BYTES = _engine.Element(0, b"bytes", "", _engine.raw_bytes, bytes)
RESUMED = 64  # elements of which one must be left for an iteration to go on


def element_by(dtype: Any) -> _engine.Element:
    """Return what elements of `dtype` are: object, bytes, or as `element_of`."""
    if dtype is bytes:
        return BYTES
    if dtype is object or dtype == "object":  # as NumPy's type of objects says it is
        return OBJECTS
    return element_of(dtype, "List")


def fetch_all(function: str, places: list[tuple[int, int]]) -> list[bytearray]:
    """Return the bytes at (address, size) each, all brought at the same time."""
    buffers = [bytearray(size) for _, size in places]
    _engine.get_all(function, ((ga, data) for (ga, _), data in zip(places, buffers, strict=True)))
    return buffers


class ListReading(_engine.ListHandle[T], Container):
    """A list as it is read."""

    _KIND = 3

    def _open(self) -> None:
        known = {OBJECTS.note: OBJECTS, BYTES.note: BYTES}
        self._of(known.get(self._note) or element_from(self._note))

    @property
    def dtype(self) -> Any:
        """Object, bytes, or the NumPy type of the elements."""
        if self._note in (OBJECTS.note, BYTES.note):
            return object if self._note == OBJECTS.note else bytes
        return dtype_of(self._element)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        import numpy

        if copy is False:
            raise ValueError("List: its elements come as a copy; leave copy=False out")
        own = None if self._note in (OBJECTS.note, BYTES.note) else self.dtype
        values = list(self._values("List iteration", 0))
        return numpy.asarray(numpy.array(values, dtype if own is None else own), dtype)

    def _touch(self, function: str) -> None:
        """Raise AddressError if the list is gone: for a call that has nothing to do."""
        self._stand(function, _engine.END)

    def _no_range(self, function: str, first: tuple[int, int], last: tuple[int, int]) -> Exception:
        """Return why no elements lead from one place to another."""
        ids = [one for one in (first, last) if one != _engine.END]
        if b"\0" in self._check(function, _engine.ids_of(ids)):
            return AddressError(
                f"{function}: an element of the two cursors was taken out of the list; get new "
                "cursors by begin, end, find or insert"
            )
        return ValueError(
            f"{function}: the cursor of the end is before that of the beginning; turn them round"
        )

    def _values(self, function: str, flags: int) -> Iterator[T]:
        for batch in self._batches(function, flags):
            for value in batch.values:
                if value is not GONE:
                    yield value

    def _batches(
        self, function: str, flags: int = 0, first: tuple[int, int] | None = None
    ) -> Iterator[_engine.Batch]:
        """Yield all elements, decoded; those that were erased before they were fetched as GONE."""
        ids = _engine.ids_of([first]) if first else b""
        batch = self._walk(function, flags, 0, ids)
        orders = batch.orders
        while True:
            if batch.stale or batch.orders != orders:
                raise RuntimeError(
                    f"{function}: the list was reordered, or what it stood at was taken out, "
                    "meanwhile; begin anew"
                )
            self._fetch(function, batch)
            yield batch
            if batch.ended:
                return
            batch = self._walk(function, flags | _engine.BEHIND, 0, batch.ids(RESUMED))

    def _fetch(self, function: str, batch: _engine.Batch) -> None:
        """Bring what lies elsewhere, and make values of bytes."""
        values = batch.values
        long = self._bring(function, batch) if batch.elsewhere else {}
        if not self._element.letter:
            values[:] = [v if v is GONE else self._decoded(v) for v in values]
        for i, value in long.items():
            values[i] = value

    def _bring(self, function: str, batch: _engine.Batch) -> dict[int, Any]:
        """Bring the remote elements; return their long objects, with GONE in their places."""
        values = batch.values
        long = {}
        others = []
        for i, ga, size in batch.elsewhere:
            value = self._long_one(function, batch.id(i), ga, size)
            if value is None:
                others.append((i, ga, size))
            else:
                long[i], values[i] = value, GONE
        if others:
            fetched = fetch_all(function, [(ga, size) for _, ga, size in others])
            there = self._check(function, _engine.ids_of([batch.id(i) for i, _, _ in others]))
            for (i, _, _), data, alive in zip(others, fetched, there, strict=True):
                values[i] = data if alive else GONE
                if alive and self._element.letter:
                    values[i] = self._decoded(bytes(data))
        return long

    def _snapshot(self, function: str) -> tuple[list[int], list[Any], int]:
        """Return nodes and values of all elements, and the number of changes they were read at."""
        nodes: list[int] = []
        values: list[Any] = []
        changes = None
        for batch in self._batches(function):
            changes = batch.changes if changes is None else changes
            if batch.changes != changes or any(v is GONE for v in batch.values):
                raise RuntimeError(f"{function}: the list changed while it was read; try again")
            nodes += batch.nodes
            values += batch.values
        return nodes, values, changes or 0

    def _reorder(self, function: str, changes: int, nodes: list[int], kept: int) -> None:
        if nodes:
            self._order(function, changes, len(nodes), kept, array("Q", nodes).tobytes())
