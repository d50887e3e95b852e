"""A multiset with its keys spread over ranks: each with how often it is there."""

from collections.abc import Iterable, Iterator, Mapping
from operator import index
from typing import Any, SupportsIndex, overload

from acp_mpi.datastructs.codecs import batches, bytes_of
from acp_mpi.datastructs.container import K, PlainKey, count_of, listed
from acp_mpi.datastructs.hashed import Hashed
from acp_mpi.datastructs.hashed_copies import HashedCopies
from acp_mpi.datastructs.local import Local

_MOST = 2**64 - 1


class LocalMultiSet(Local[K, int]):
    """The part of a multiset on the calling rank."""

    def items(self) -> Iterator[tuple[K, int]]:
        """Yield distinct keys with their counts."""
        return self._elements()

    def keys(self) -> Iterator[K]:
        """Yield distinct keys."""
        return (key for key, _ in self._elements())


class MultiSet(Hashed[K, int]):
    """Keys with counts, `contents` at first: keys, once for each time that they come, or counts.

    Counts are a mapping from keys. `key` is as in Set, and `ranks`, `slots` and `rank` as in Map.
    `size` and `len` count equal keys as often as they are there, and so does iteration. Local to
    the caller; each call that names one key is atomic.
    """

    _KIND = 5
    _COUNTS = True
    _VALUE = "Q"

    @overload
    def __init__(
        self,
        contents: Iterable[K] | Mapping[K, int],
        *,
        key: Any = object,
        ranks: Iterable[SupportsIndex] | None = None,
        slots: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "MultiSet[PlainKey]",
        contents: None = None,
        *,
        key: type[PlainKey],
        ranks: Iterable[SupportsIndex] | None = None,
        slots: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "MultiSet[Any]",
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

    @property
    def local(self) -> LocalMultiSet[K]:
        """The part on the calling rank."""
        return LocalMultiSet(self)

    def insert(self, key: K, count: SupportsIndex = 1) -> int:
        """Put a key in `count` times; return how often it is there now.

        OverflowError, and nothing is done, if the keys counted with it would be 2**64 or more.
        """
        count = _positive("insert", count)
        return int(self._put_and_get("insert", key, count, "add", count))

    def add(self, key: K) -> None:
        """Put a key in once more."""
        self.insert(key)

    def remove(self, key: K, count: SupportsIndex = 1) -> int:
        """Take a key out `count` times, or as often as it is there; return how often it is left."""
        return int(self._put_and_get("remove", key, _positive("remove", count), "take", 0))

    def discard(self, key: K) -> None:
        """Take a key out once if it is there."""
        self.remove(key)

    def remove_all(self, key: K) -> int:
        """Take a key out altogether; return how often it was there."""
        return int(self._erase_and_get("remove_all", key, 0))

    def retrieve(self, key: K) -> int:
        """Return how often a key is there."""
        return int(self._find_value("retrieve", key, 0))

    count = __getitem__ = retrieve

    def insert_ga(
        self, ga: SupportsIndex, size: SupportsIndex | None = None, count: SupportsIndex = 1
    ) -> int:
        """Put in the key with its bytes at address `ga`; return how often it is there now.

        `size` is left out where the type has one; the bytes of an object are a bytes object.
        """
        return self.insert(self._key_at("insert_ga", ga, size), count)

    def remove_ga(
        self, ga: SupportsIndex, size: SupportsIndex | None = None, count: SupportsIndex = 1
    ) -> int:
        """Take out the key with its bytes at address `ga`; return how often it is left."""
        return self.remove(self._key_at("remove_ga", ga, size), count)

    def remove_all_ga(self, ga: SupportsIndex, size: SupportsIndex | None = None) -> int:
        """Take out that key altogether; return how often it was there."""
        return self.remove_all(self._key_at("remove_all_ga", ga, size))

    def retrieve_ga(self, ga: SupportsIndex, size: SupportsIndex | None = None) -> int:
        """Return how often the key with its bytes at address `ga` is there."""
        return self.retrieve(self._key_at("retrieve_ga", ga, size))

    def update(self, keys: Iterable[K] | Mapping[K, int]) -> None:
        """Put in many keys, an array or any others, once for each time that they come.

        Keys of a mapping come as often as its values say, as with Python's Counter. One round for
        each rank; each key is put in atomically.
        """
        if (array := self._array_of("update", keys)) is not None and len(array):
            import numpy

            ones = numpy.ones(len(array), "Q")
            self._put_arrays("update", bytes_of(array), bytes_of(ones), len(array), "add")
            return
        counts = None
        if isinstance(keys, Mapping):
            counts = [_positive("update", count) for count in keys.values()]
        given = listed("MultiSet.update", keys)
        if not given:
            self._touch("update")
        self._put_list("update", given, counts or [1] * len(given), "add")

    def items(self) -> Iterator[tuple[K, int]]:
        """Yield distinct keys with their counts."""
        return self._elements()

    def keys(self) -> Iterator[K]:
        """Yield distinct keys."""
        return (key for key, _ in self._elements())

    def to_dict(self) -> dict[K, int]:
        """Return all distinct keys with their counts as a dict. Not at one instant."""
        return dict(self._elements())

    def _iterate(self, parts: Iterable[int]) -> Iterator[K]:
        """Yield the keys of some parts, each as often as it is there."""
        for key, count in self._pairs(parts):
            for _ in range(count):
                yield key

    def _merge_in(self, pairs: Iterator[tuple[K, int]], source: HashedCopies[K, int]) -> None:
        """Put in elements with all their counts, and take them out of `source`."""
        for keys, counts in batches(pairs):
            self._put_list("merge", keys, counts, "add")
            source._take_out("merge", keys, counts)

    def _take_out(self, name: str, keys: list[Any], values: list[int]) -> None:
        """Take out keys that are elsewhere now, but not what has been counted since."""
        self._put_list(name, keys, values, "take")


def _positive(name: str, count: SupportsIndex) -> int:
    if hasattr(count, "__index__") and index(count) < 1:
        raise ValueError(f"MultiSet.{name}: the count {count} is not positive; use 1 or more")
    return count_of(f"MultiSet.{name}", count, _MOST)
