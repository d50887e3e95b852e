"""The part of a map, set or multiset on the calling rank."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from acp_mpi.engine import _engine

if TYPE_CHECKING:
    from acp_mpi.datastructs.hashed import Hashed

K = TypeVar("K")
V = TypeVar("V")


class Local(Generic[K, V]):
    """The part of a map, set or multiset on the calling rank. Local to the caller."""

    def __init__(self, owner: "Hashed[K, V]") -> None:
        self._owner = owner
        rank = _engine.rank()
        self._parts = [p for p, r in enumerate(owner.ranks) if r == rank]

    def _here_in(self, method: str) -> list[int]:
        """Return the parts that are here; AddressError if it is gone, also if there are none."""
        if not self._parts:
            self._owner._touch(f"local.{method}")
        return self._parts

    def size(self) -> int:
        """Return the number of elements here."""
        return sum(self._owner._count_in(p) for p in self._here_in("size"))

    __len__ = size

    def empty(self) -> bool:
        """Return whether nothing is here."""
        return not any(self._owner._size_of("empty", part) for part in self._here_in("empty"))

    def clear(self) -> None:
        """Take out what is here."""
        for part in self._here_in("clear"):
            self._owner._clear_part(part)

    def __iter__(self) -> Iterator[K]:
        return self._owner._iterate(self._here_in("iter"))

    def _elements(self) -> Iterator[tuple[K, V]]:
        """Yield what is here as pairs of key and value (of a set b'', of a multiset a count)."""
        return self._owner._pairs(self._here_in("items"))

    def assign(self, other: "Hashed[K, V] | Local[K, V]") -> None:
        """Put a copy of `other` in place of what is here, as far as its keys belong here.

        If `other` cannot be read, or there is no room for it, what is here is as before.
        """
        if not self._owner._is_own("local.assign", other):
            theirs = list(self._here(other))
            self._owner._replace(self._parts, list(self._elements()), theirs)
        else:
            self._owner._touch("local.assign")

    def merge(self, other: "Hashed[K, V] | Local[K, V]") -> None:
        """Move from `other` the elements that belong here, with keys that are not here."""
        if not self._owner._is_own("local.merge", other):
            self._owner._merge_in(self._here(other), other._taker())
        else:
            self._owner._touch("local.merge")

    def move(self, other: "Hashed[K, V] | Local[K, V]") -> None:
        """Put what `other` holds and belongs here in place of what is here; `other` loses it."""
        if self._owner._is_own("local.move", other):
            self._owner._touch("local.move")
            return
        taken = list(self._here(other))
        self._owner._replace(self._parts, list(self._elements()), taken)
        other._taker()._take_out("move", [key for key, _ in taken], [value for _, value in taken])

    def _taker(self) -> "Hashed[K, V]":
        """Return the one to take elements out of."""
        return self._owner

    def _here(self, other: "Hashed[K, V] | Local[K, V]") -> Iterator[tuple[K, V]]:
        wanted = set(self._parts)
        owner = self._owner
        return ((k, v) for k, v in other._elements() if owner._part_of(k) in wanted)

    def __repr__(self) -> str:
        return f"<local part of {self._owner._identity()}>"
