"""A hash table whose keys are spread over ranks."""

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from acp_mpi.datastructs.codecs import array_dtype, as_array
from acp_mpi.datastructs.hashed import Hashed
from acp_mpi.datastructs.local import Local
from acp_mpi.engine import _engine

_OPS = ("add", "multiply", "min", "max", "and", "or", "xor")
_MISSING = object()


class LocalMap(Local):
    """What of a map lives on the calling rank."""

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield keys with their values."""
        return self.elements()

    def keys(self) -> Iterator[Any]:
        """Yield the keys."""
        return iter(self)

    def values(self) -> Iterator[Any]:
        """Yield the values."""
        return (value for _, value in self.elements())


class Map(_engine.MapMethods, Hashed):
    """A hash table on `ranks` (None: all of now), controlled on `rank` (None: the calling one).

    `key` and `value` are dtypes, struct format characters or `object`; `slots` elements have room
    at once, and it grows. Keys that are objects are None, bool, int, float, str, bytes and tuples
    of these, compared as Python does; other values than numbers are pickled. Local to the caller;
    each call that names one key is atomic.
    """

    KIND = 4

    def __init__(
        self,
        ranks: Iterable[int] | None = None,
        slots: int = 0,
        rank: int | None = None,
        *,
        key: Any = object,
        value: Any = object,
    ) -> None:
        self._spread(ranks, slots, rank, key, value)

    @property
    def local(self) -> LocalMap:
        """What lives on the calling rank."""
        return LocalMap(self)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key; if it is not there put it in with `default`."""
        return self.put_and_get("setdefault", key, default, "insert", default)

    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Take a key out and return its value; `default` if it was not there, else KeyError."""
        value = self.erase_and_get("pop", key, _MISSING)
        if value is not _MISSING:
            return value
        if default is _MISSING:
            raise KeyError(key)
        return default

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Yield keys with their values, in batches: what is there throughout comes once."""
        return self.elements()

    def keys(self) -> Iterator[Any]:
        """Yield the keys."""
        return iter(self)

    def values(self) -> Iterator[Any]:
        """Yield the values."""
        return (value for _, value in self.elements())

    def update(self, keys: Any, values: Any = None) -> None:
        """Put in many elements, replacing values: arrays or lists, a mapping, or pairs.

        One round for each rank; each element is put in atomically, not all at one instant. Of
        equal keys the last one counts.
        """
        if values is None:
            pairs = list(keys.items() if hasattr(keys, "keys") else keys)
            keys, values = [k for k, _ in pairs], [v for _, v in pairs]
        self._put_many("update", keys, values, "assign")

    def accumulate(self, keys: Any, values: Any, op: str = "add") -> None:
        """Combine many values with those there: `op` is add, multiply, min, max, and, or, xor.

        Missing keys start at the neutral element. `value` must be a number; integers wrap. One
        round for each rank; each step is atomic.
        """
        if op not in _OPS:
            raise ValueError(f"Map.accumulate: op is one of {', '.join(_OPS)}, not {op!r}")
        letter = self.value_codec.letter
        if letter in ("", "?") or (letter in "fd" and op in ("and", "or", "xor")):
            raise TypeError(
                f"Map.accumulate: {op} is nothing that the values of this map can do; make it with "
                "value='q', say"
            )
        self._put_many("accumulate", keys, values, op)

    def get_many(self, keys: Any, default: Any = None) -> tuple[Any, Any]:
        """Return the values of many keys and which of them are there.

        Arrays where keys and values have a dtype and NumPy is used (the value of a missing key is
        `default`, or zero), else lists. One round for each rank; each find is atomic.
        """
        dtype = array_dtype(self.value_codec) if self.inlined else None
        array = None if dtype is None else as_array(self.key_codec, keys, "Map.get_many: keys")
        if array is None:
            return self.get_list("get_many", list(keys), default)
        numpy = sys.modules["numpy"]
        values = numpy.zeros(len(array), dtype)
        if default is not None:
            values[:] = default
        found = numpy.zeros(len(array), bool)
        self.get_arrays("get_many", _plain(array), len(array), _plain(values), _plain(found))
        return values, found

    def _put_many(self, name: str, keys: Any, values: Any, how: str) -> None:
        if not hasattr(keys, "__len__") or not hasattr(values, "__len__"):
            keys, values = list(keys), list(values)
        if len(keys) != len(values):
            raise ValueError(
                f"Map.{name}: {len(keys)} keys and {len(values)} values; give as many of both"
            )
        array = filled = None
        if self.inlined:
            array = as_array(self.key_codec, keys, f"Map.{name}: keys")
            filled = as_array(self.value_codec, values, f"Map.{name}: values")
        if array is None or filled is None:
            self.put_list(name, list(keys), list(values), how)
        else:
            self.put_arrays(name, _plain(array), _plain(filled), len(array), how)


def _plain(array: Any) -> Any:
    return array.view("u1") if array.nbytes else b""
