"""A set with its keys spread over ranks."""

from collections.abc import Iterable
from typing import Any, SupportsIndex

from acp_mpi.datastructs.codecs import bytes_of
from acp_mpi.datastructs.container import listed
from acp_mpi.datastructs.hashed import Hashed
from acp_mpi.engine import _engine


class Set(_engine.SetMethods, Hashed):
    """Distinct keys, `contents` at first: an array or any others.

    `key` is a dtype, a struct format character or `object`: None, bool, int, float, str, bytes and
    tuples of these. `ranks`, `slots` and `rank` are as in Map. Local to the caller; each call that
    names one key is atomic.
    """

    _KIND = 6

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

    def update(self, keys: Iterable[Any]) -> None:
        """Put in many keys, an array or any others, one round for each rank; each atomically."""
        if (array := self._array_of("update", keys)) is not None and len(array):
            self._put_arrays("update", bytes_of(array), None, len(array), "insert")
            return
        given = listed("Set.update", keys)
        if not given:
            self._touch("update")
        self._put_list("update", given, [b""] * len(given), "insert")
