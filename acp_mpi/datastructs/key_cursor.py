"""Places in maps, sets and multisets."""

from typing import TYPE_CHECKING, Any, Generic, SupportsIndex, TypeVar

from acp_mpi.datastructs.cursor import steps_of

if TYPE_CHECKING:
    from acp_mpi.datastructs.hashed import Hashed

K = TypeVar("K")
V = TypeVar("V")


class KeyCursor(Generic[K, V]):
    """A place in a map, set or multiset: a key with its value as it was found, or the end.

    Cursors follow an order that no change of other elements alters. A cursor at an erased element
    can still be advanced.
    """

    __slots__ = ("_at", "_key", "_owner", "_value")

    def __init__(
        self, owner: "Hashed[K, V]", at: tuple[int, int, int], key: Any, value: Any
    ) -> None:
        self._owner = owner
        self._at = at  # part, stripe, hash
        self._key = key
        self._value = value

    @property
    def key(self) -> K:
        """The key; None at the end."""
        key: K = self._key
        return key

    @property
    def value(self) -> V:
        """The value as it was found; None at the end. Not to be set: `m[cursor.key] = x` does."""
        value: V = self._value
        return value

    @property
    def is_end(self) -> bool:
        """Whether it is behind the last element."""
        return self._at[0] == self._owner._part_count

    @property
    def ga(self) -> int:
        """The address of the value now; it changes when the map grows. 0: erased, or the end."""
        return 0 if self.is_end else self._owner._place("Cursor.ga", self.key)

    def advance(self, n: SupportsIndex = 1) -> "KeyCursor[K, V]":
        """Return a cursor `n` elements further on, or the end."""
        n = steps_of(n)
        if n < 0:
            raise ValueError(f"Cursor.advance: {n} is negative; these cursors go forward only")
        if not n:
            self._owner._touch("advance")
        cursor = self
        for _ in range(n):
            if cursor.is_end:
                break
            part, stripe, key_hash = cursor._at
            cursor = self._owner._cursor_from(part, stripe, key_hash + 1)
        return cursor

    def distance(self, other: "KeyCursor[K, V]") -> int:
        """Return how many steps lead from here to `other`, which is not before it."""
        if not isinstance(other, KeyCursor):
            raise TypeError(
                f"Cursor.distance: {other!r:.60} is not a cursor of a map or set; begin, end and "
                "find return one"
            )
        if other._owner != self._owner:
            raise ValueError("Cursor.distance: the cursors are of two containers; use one")
        if other._at < self._at:
            raise ValueError("Cursor.distance: the other cursor is before this one")
        cursor, steps = self, 0
        while cursor._at < other._at:
            cursor, steps = cursor.advance(), steps + 1
        return steps

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyCursor):
            return NotImplemented
        return self._owner == other._owner and self._at == other._at

    def __hash__(self) -> int:
        return hash((self._owner, self._at))

    def __repr__(self) -> str:
        place = "the end" if self.is_end else f"{self.key!r}"
        return f"<acp_mpi.KeyCursor at {place} of {self._owner._identity()}>"
