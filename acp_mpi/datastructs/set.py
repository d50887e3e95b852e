"""A set with its keys spread over ranks."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, SupportsIndex, overload

from acp_mpi.datastructs.codecs import bytes_of
from acp_mpi.datastructs.container import K, PlainKey, T, listed, shown
from acp_mpi.datastructs.hashed import Hashed
from acp_mpi.engine import _engine


class Set(_engine.SetMethods[K], Hashed[K, bytes], AbstractSet[K]):
    """Distinct keys, `contents` at first: an array or any others.

    `key` is a dtype, a struct format character or `object`: None, bool, int, float, str, bytes and
    tuples of these. `ranks`, `slots` and `rank` are as in Map. Local to the caller; each call that
    names one key is atomic.
    """

    _KIND = 6

    @overload
    def __init__(
        self,
        contents: Iterable[K],
        *,
        key: Any = object,
        ranks: Iterable[SupportsIndex] | None = None,
        slots: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "Set[PlainKey]",
        contents: None = None,
        *,
        key: type[PlainKey],
        ranks: Iterable[SupportsIndex] | None = None,
        slots: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "Set[Any]",
        contents: None = None,
        *,
        key: Any = object,
        ranks: Iterable[SupportsIndex] | None = None,
        slots: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    def __init__(
        self,
        contents: Any = None,
        *,
        key: Any = object,
        ranks: Iterable[SupportsIndex] | None = None,
        slots: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
    ) -> None:
        self._spread(contents, key, self._VALUE, ranks, slots, rank)

    @classmethod
    def _from_iterable(cls, keys: Iterable[T]) -> set[T]:
        """Return the result of `&` and the like: of this process alone, as any other result."""
        return set(keys)

    def _described(self) -> str:
        count = self.size()
        return self._containing(self.ranks, count, shown(self, count, "{}"))

    def to_set(self) -> set[K]:
        """Return all keys as a Python set. Not at one instant."""
        return set(self)

    def insert_ga(self, ga: SupportsIndex, size: SupportsIndex | None = None) -> bool:
        """Put in the key with its bytes at address `ga`; return whether it was new.

        `size` is left out where the type has one; the bytes of an object are a bytes object.
        """
        return self.insert(self._key_at("insert_ga", ga, size))

    def remove_ga(self, ga: SupportsIndex, size: SupportsIndex | None = None) -> bool:
        """Take out the key with its bytes at address `ga`; return whether it was there."""
        return self.remove(self._key_at("remove_ga", ga, size))

    def retrieve_ga(self, ga: SupportsIndex, size: SupportsIndex | None = None) -> bool:
        """Return whether the key with its bytes at address `ga` is there."""
        return self.retrieve(self._key_at("retrieve_ga", ga, size))

    def update(self, keys: Iterable[K]) -> None:
        """Put in many keys, an array or any others, one round for each rank; each atomically."""
        if (array := self._array_of("update", keys)) is not None and len(array):
            self._put_arrays("update", bytes_of(array), None, len(array), "insert")
            return
        given = listed("Set.update", keys)
        if not given:
            self._touch("update")
        self._put_list("update", given, [b""] * len(given), "insert")
