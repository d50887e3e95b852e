"""A set whose keys are spread over ranks."""

from collections.abc import Iterable
from typing import Any

from acp_mpi.datastructs.hashed import Hashed
from acp_mpi.engine import _engine


class Set(_engine.SetMethods, Hashed):
    """Distinct keys on `ranks` (None: all of now), controlled on `rank` (None: the calling one).

    `key` is a dtype, a struct format character or `object`: None, bool, int, float, str, bytes and
    tuples of these. Local to the caller; each call that names one key is atomic.
    """

    KIND = 6

    def __init__(
        self,
        ranks: Iterable[int] | None = None,
        slots: int = 0,
        rank: int | None = None,
        *,
        key: Any = object,
    ) -> None:
        self._spread(ranks, slots, rank, key, "V0")

    def update(self, keys: Iterable[Any]) -> None:
        """Put in many keys, one round for each rank; each is put in atomically."""
        given = list(keys)
        self.put_list("update", given, [b""] * len(given), "insert")
