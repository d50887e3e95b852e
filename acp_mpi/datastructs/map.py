"""A hash table with its keys spread over ranks."""

from collections.abc import (
    ItemsView,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    ValuesView,
)
from typing import Any, SupportsIndex, overload

from acp_mpi.datastructs.codecs import array_dtype, as_array, bytes_of, size_at
from acp_mpi.datastructs.container import K, PlainKey, PlainValue, T, V, count_of, listed
from acp_mpi.datastructs.hashed import Hashed
from acp_mpi.datastructs.local import Local
from acp_mpi.engine import _engine
from acp_mpi.rma.buffers import hosted

_OPS = ("add", "multiply", "min", "max", "and", "or", "xor")
_MISSING = object()


class LocalMap(Local[K, V]):
    """The part of a map on the calling rank."""

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield keys with their values."""
        return self._elements()

    def keys(self) -> Iterator[K]:
        """Yield the keys."""
        return iter(self)

    def values(self) -> Iterator[V]:
        """Yield the values."""
        return (value for _, value in self._elements())


class _Items(ItemsView[K, V]):
    def __init__(self, owner: "Map[K, V]") -> None:
        super().__init__(owner)
        self._owner = owner

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return self._owner._elements()


class _Values(ValuesView[V]):
    def __init__(self, owner: "Map[Any, V]") -> None:
        super().__init__(owner)
        self._owner = owner

    def __iter__(self) -> Iterator[V]:
        return (value for _, value in self._owner._elements())

    def __contains__(self, value: object) -> bool:
        return any(each is value or each == value for each in self)


class Map(_engine.MapMethods[K, V], Hashed[K, V], MutableMapping[K, V]):
    """A hash table of `contents`: a mapping, or pairs of key and value.

    `key` and `value` are dtypes, struct format characters or `object`. Keys that are objects are
    None, bool, int, float, str, bytes and tuples of these, compared as Python does; other values
    than numbers are pickled. The keys are spread over `ranks` (None: those that live now, at most
    4,000 of them, evenly strided), the control block is on `rank` (None: the calling one). `slots`
    elements have room at once, and it grows. Local to the caller; each call that names one key is
    atomic.
    """

    _KIND = 4

    @overload
    def __init__(
        self,
        contents: Mapping[K, V] | Iterable[tuple[K, V]],
        *,
        key: Any = object,
        value: Any = object,
        ranks: Iterable[SupportsIndex] | None = None,
        slots: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "Map[PlainKey, PlainValue]",
        contents: None = None,
        *,
        key: type[PlainKey],
        value: type[PlainValue],
        ranks: Iterable[SupportsIndex] | None = None,
        slots: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: "Map[Any, Any]",
        contents: None = None,
        *,
        key: Any = object,
        value: Any = object,
        ranks: Iterable[SupportsIndex] | None = None,
        slots: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
    ) -> None: ...
    def __init__(
        self,
        contents: Any = None,
        *,
        key: Any = object,
        value: Any = object,
        ranks: Iterable[SupportsIndex] | None = None,
        slots: SupportsIndex = 0,
        rank: SupportsIndex | None = None,
    ) -> None:
        self._spread(contents, key, value, ranks, slots, rank)

    @property
    def local(self) -> LocalMap[K, V]:
        """The part on the calling rank."""
        return LocalMap(self)

    def setdefault(self, key: K, default: Any = None) -> V:
        """Return the value of a key; if it is not there put it in with `default`."""
        value: V = self._put_and_get("setdefault", key, default, "insert", default)
        return value

    @overload
    def pop(self, key: K) -> V: ...
    @overload
    def pop(self, key: K, default: T) -> V | T: ...
    def pop(self, key: Any, default: Any = _MISSING) -> Any:
        """Take a key out and return its value; `default` if it was not there, else KeyError."""
        value = self._erase_and_get("pop", key, _MISSING)
        if value is not _MISSING:
            return value
        if default is _MISSING:
            raise KeyError(key)
        return default

    def insert_ga(
        self,
        key_ga: SupportsIndex,
        ga: SupportsIndex,
        key_size: SupportsIndex | None = None,
        size: SupportsIndex | None = None,
    ) -> bool:
        """Put a key in unless it is there, key and value as bytes at addresses; whether it was new.

        A value of more than 8 KiB goes from rank to rank without the caller. Sizes are left out
        where the type has one. Where keys are objects the bytes are those of a bytes object,
        where values are objects those of a pickle.
        """
        return not self._put_from("insert_ga", "insert", key_ga, ga, key_size, size)

    def assign_ga(
        self,
        key_ga: SupportsIndex,
        ga: SupportsIndex,
        key_size: SupportsIndex | None = None,
        size: SupportsIndex | None = None,
    ) -> bool:
        """Put a key in, replacing its value, as `insert_ga`; return whether it was new."""
        return not self._put_from("assign_ga", "assign", key_ga, ga, key_size, size)

    def remove_ga(self, key_ga: SupportsIndex, key_size: SupportsIndex | None = None) -> bool:
        """Take out the key with its bytes at an address; return whether it was there."""
        return self.remove(self._key_at("remove_ga", key_ga, key_size))

    def retrieve_ga(
        self,
        key_ga: SupportsIndex,
        ga: SupportsIndex,
        key_size: SupportsIndex | None = None,
        size: SupportsIndex | None = None,
    ) -> int | None:
        """Copy the value of the key with its bytes at `key_ga` to the `size` bytes at `ga`.

        Return how many bytes it has, None if the key is not there. ValueError if they are more
        than `size`; nothing is copied then.
        """
        name = "Map.retrieve_ga"
        key = self._key_at("retrieve_ga", key_ga, key_size)
        if size is None:
            room = size_at(self._value_codec, None, name)
        else:
            room = count_of(name, size, of="bytes")
        found = self._get_copy("retrieve_ga", key, ga, room)
        if found is not None and found > room:
            raise ValueError(f"{name}: the value has {found} bytes; make room for more than {room}")
        return found

    def _put_from(
        self,
        method: str,
        how: str,
        key_ga: SupportsIndex,
        ga: SupportsIndex,
        key_size: SupportsIndex | None,
        size: SupportsIndex | None,
    ) -> bool:
        key = self._key_at(method, key_ga, key_size)
        return self._put_copy(
            method, key, ga, size_at(self._value_codec, size, f"Map.{method}"), how
        )

    def popitem(self) -> tuple[K, V]:
        """Take some key out and return it with its value. KeyError if there is none."""
        while not (cursor := self.begin()).is_end:
            value = self._erase_and_get("popitem", cursor.key, _MISSING)
            if value is not _MISSING:
                return cursor.key, value
        raise KeyError("Map.popitem: the map is empty")

    def items(self) -> ItemsView[K, V]:
        """Return a view of keys with their values, as that of a dict.

        Iteration goes in batches: what is there throughout comes once.
        """
        return _Items(self)

    def keys(self) -> KeysView[K]:
        """Return a view of the keys, as that of a dict."""
        return KeysView(self)

    def values(self) -> ValuesView[V]:
        """Return a view of the values, as that of a dict."""
        return _Values(self)

    def to_dict(self) -> dict[K, V]:
        """Return all keys with their values as a dict. Not at one instant."""
        return dict(self._elements())

    def update(self, keys: Any, values: Any = None) -> None:
        """Put in many elements, replacing values: arrays or lists, a mapping, or pairs.

        One round for each rank; each element is put in atomically, not all at one instant. Of
        equal keys the last one counts.
        """
        if values is None:
            pairs = listed("Map.update", keys.items() if hasattr(keys, "keys") else keys)
            try:
                keys, values = [k for k, _ in pairs], [v for _, v in pairs]
            except (TypeError, ValueError) as error:
                raise type(error)(
                    f"Map.update: {error}; give a mapping, pairs, or keys and values"
                ) from None
        self._put_many("update", keys, values, "assign")

    def accumulate(self, keys: Any, values: Any, op: str = "add") -> None:
        """Combine many values with those there: `op` is add, multiply, min, max, and, or, xor.

        Missing keys start at the neutral element. `value` must be a number; integers wrap. One
        round for each rank; each step is atomic.
        """
        if op not in _OPS:
            raise ValueError(f"Map.accumulate: op is one of {', '.join(_OPS)}, not {op!r}")
        letter = self._value_codec.letter
        if letter in ("", "?") or (letter in "fd" and op in ("and", "or", "xor")):
            raise TypeError(
                f"Map.accumulate: {op} is nothing that the values of this map can do; make it with "
                "value='q', say, or add to objects key by key with Map.add"
            )
        self._put_many("accumulate", keys, values, op)

    def get_many(self, keys: Any, default: Any = None) -> tuple[Any, Any]:
        """Return the values of many keys and which of them are there.

        Arrays where keys and values have a dtype and NumPy is used (the value of a missing key is
        `default`, or zero), else lists. One round for each rank; each find is atomic.
        """
        keys = _many("Map.get_many", keys)
        if not len(keys):
            self._touch("get_many")
        dtype = array_dtype(self._value_codec) if self._inlined else None
        array = None if dtype is None else as_array(self._key_codec, keys, "Map.get_many: keys")
        if array is None:
            return self._get_list("get_many", list(keys), default)
        import numpy

        values = numpy.zeros(len(array), dtype)
        if default is not None:
            element: Any = self._value_codec.element
            one = element.packed(default, "Map.get_many: default")
            values[:] = numpy.frombuffer(one, dtype)
        found = numpy.zeros(len(array), bool)
        self._get_arrays("get_many", bytes_of(array), len(array), bytes_of(values), bytes_of(found))
        return values, found

    def _put_many(self, name: str, keys: Any, values: Any, how: str) -> None:
        keys, values = (_many(f"Map.{name}", things) for things in (keys, values))
        if len(keys) != len(values):
            raise ValueError(
                f"Map.{name}: {len(keys)} keys and {len(values)} values; give as many of both"
            )
        if not len(keys):
            self._touch(name)
        array = filled = None
        if self._inlined:
            array = as_array(self._key_codec, keys, f"Map.{name}: keys")
            filled = as_array(self._value_codec, values, f"Map.{name}: values")
            if array is not None and filled is not None and len(array) != len(filled):
                raise ValueError(
                    f"Map.{name}: {len(array)} keys and {len(filled)} values in arrays of several "
                    "dimensions; give as many of both"
                )
        if array is None or filled is None:
            self._put_list(name, list(keys), list(values), how)
        else:
            self._put_arrays(name, bytes_of(array), bytes_of(filled), len(array), how)


def _many(function: str, things: Any) -> Any:
    """Return many things, of which it is known how many they are: an array, or any others."""
    things = hosted(things, function)
    return things if hasattr(things, "__len__") else listed(function, things)
