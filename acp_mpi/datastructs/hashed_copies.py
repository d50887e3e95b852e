"""How elements come from one map, set or multiset into another: through the caller."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Any, Generic, Self

from acp_mpi.datastructs.alike import alike
from acp_mpi.datastructs.codecs import batches
from acp_mpi.datastructs.container import Container, K, V
from acp_mpi.datastructs.local import Local
from acp_mpi.engine import _engine
from acp_mpi.errors import PeerLostError

BATCH = 1 << 16
STRIPES = 8


class HashedCopies(_engine.ManyHandle, Container, Generic[K, V]):
    """A map, set or multiset as a place that elements are copied to and from."""

    @property
    def _part_count(self) -> int:
        """The number of ranks that it is spread over."""
        return len(self.ranks)

    def _clear_part(self, part: int) -> None:
        """Take everything out of one part."""
        self._clear_of("clear", part)

    def clear(self) -> None:
        """Take everything out: rank by rank, on each an eighth of its keys at a time."""
        for part in range(self._part_count):
            self._clear_part(part)

    def _pairs(self, parts: Iterable[int]) -> Iterator[tuple[K, V]]:
        """Yield key and value of the elements of some parts, in batches."""
        for part in parts:
            stripe = key_hash = 0
            while stripe < STRIPES:
                elements, stripe, key_hash = self._scan("items", part, stripe, key_hash, BATCH)
                for _, key, value in elements:
                    yield key, value

    def _elements(self) -> Iterator[tuple[K, V]]:
        """Yield all as pairs of key and value (of a set b'', of a multiset a count)."""
        return self._pairs(range(self._part_count))

    def _rows(self) -> Iterator[bytes]:
        """Yield key and value of all, which stand in slots, each padded to a multiple of 8."""
        for part in range(self._part_count):
            stripe = key_hash = 0
            while stripe < STRIPES:
                rows, stripe, key_hash = self._scan_rows("items", part, stripe, key_hash, BATCH)
                yield rows

    def _merge_in(self, pairs: Iterator[tuple[K, V]], source: "HashedCopies[K, V]") -> None:
        """Put in elements with keys that are not there, and take those out of `source`."""
        for keys, values in batches(pairs):
            there = self._put_list("merge", keys, values, "insert")
            moved = [key for key, was in zip(keys, there, strict=True) if not was]
            source._put_list("merge", moved, None, None)

    def _take_out(self, name: str, keys: list[Any], values: list[Any]) -> None:
        """Take out elements that are elsewhere now."""
        self._put_list(name, keys, None, None)

    def _taker(self) -> "HashedCopies[K, V]":
        """Return the one to take elements out of."""
        return self

    def _is_own(self, method: str, other: Any) -> bool:
        """Return whether `other` is this one, or a part of it, by whichever handle. TypeError."""
        return alike(self, f"{type(self).__name__}.{method}", other) == self

    def _touch(self, method: str) -> None:
        """Raise AddressError if it is gone: for a call that has nothing to do."""
        for part in range(self._part_count):
            with suppress(PeerLostError):  # of a rank that has died others hold parts, perhaps
                self._look(method, part)
                return

    def assign(self, other: "Self | Local[K, V]") -> None:
        """Put a copy of `other` in place of what is here. Not at one instant.

        If `other` cannot be read, or there is no room for it, this one is as before.
        """
        if not self._is_own("assign", other) or isinstance(other, Local):
            theirs = list(other._elements())
            self._replace(range(self._part_count), list(self._elements()), theirs)
        else:
            self._touch("assign")

    def merge(self, other: "Self | Local[K, V]") -> None:
        """Move from `other` the elements with keys that are not here. Not at one instant."""
        pairs = iter(()) if self._is_own("merge", other) else other._elements()
        first = next(pairs, None)
        if first is None:
            self._touch("merge")
        else:
            self._merge_in(chain([first], pairs), other._taker())

    def move(self, other: "Self | Local[K, V]") -> None:
        """Put what `other` holds in place of what is here; `other` is empty then. As `assign`."""
        own = self._is_own("move", other)
        self.assign(other)
        if not own:
            other.clear()

    def swap(self, other: Self) -> None:
        """Exchange the elements with those of `other`. Not at one instant.

        If one of them has no room for what comes, both are as before.
        """
        whole = alike(self, f"{type(self).__name__}.swap", other)
        if whole == self:
            self._touch("swap")
            return
        mine, theirs = list(self._elements()), list(whole._elements())
        self._replace(range(self._part_count), mine, theirs)
        try:
            whole._replace(range(whole._part_count), theirs, mine)
        except BaseException:
            self._hold(range(self._part_count), mine)
            raise

    def _replace(
        self,
        parts: Iterable[int],
        there: list[tuple[Any, Any]],
        pairs: list[tuple[Any, Any]],
    ) -> None:
        """Have `pairs` in place of `there`, the elements of some parts; as before if that fails."""
        try:
            self._hold(parts, pairs)
        except BaseException:
            self._hold(parts, there)
            raise

    def _hold(self, parts: Iterable[int], pairs: list[tuple[Any, Any]]) -> None:
        for part in parts:
            self._clear_part(part)
        for keys, values in batches(iter(pairs)):
            self._put_list("assign", keys, values, "assign")
