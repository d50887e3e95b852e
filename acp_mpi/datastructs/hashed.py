"""What maps, sets and multisets have in common: parts on many ranks, cursors, iteration."""

import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from acp_mpi.datastructs.container import Container
from acp_mpi.datastructs.elements import dtype_of, element_from, element_of
from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError

_HEAD = struct.Struct("<HHI")
_PART = struct.Struct("<QQ")
_OBJECT = b"object"
_BATCH = 1 << 16
_STEP = 1 << 12
_STRIPES = 8
_MOST_PARTS = 4000  # whose addresses fit into the note


@dataclass(frozen=True)
class HashStatistics:
    """What `statistics` of a map, set or multiset returns; sums over `ranks`."""

    ranks: tuple[int, ...]
    keys: int
    places: int
    graves: int
    bytes: int


class KeyCursor:
    """A place in a map, set or multiset: a key with its value as it was found, or the end.

    Cursors follow an order that no change of other elements alters. One whose element is erased
    can still be advanced.
    """

    __slots__ = ("_at", "_owner", "key", "value")

    def __init__(self, owner: "Hashed", at: tuple[int, int, int], key: Any, value: Any) -> None:
        self._owner = owner
        self._at = at  # part, stripe, hash
        self.key = key
        self.value = value

    @property
    def is_end(self) -> bool:
        """Whether it is behind the last element."""
        return self._at[0] == self._owner.part_count

    @property
    def ga(self) -> int:
        """The address of the value now; it changes when the map grows. 0: erased, or the end."""
        return 0 if self.is_end else self._owner.place("Cursor.ga", self.key)

    def advance(self, n: int = 1) -> "KeyCursor":
        """Return a cursor `n` elements further on, or the end."""
        if n < 0:
            raise ValueError(f"Cursor.advance: {n} is negative; these cursors go forward only")
        cursor = self
        for _ in range(n):
            if cursor.is_end:
                break
            part, stripe, key_hash = cursor._at
            cursor = self._owner.cursor_from(part, stripe, key_hash + 1)
        return cursor

    def distance(self, other: "KeyCursor") -> int:
        """Return how many steps lead from here to `other`, which is not before it."""
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
        return "<Cursor at the end>" if self.is_end else f"<Cursor at {self.key!r}>"


class Local:
    """What of a map, set or multiset lives on the calling rank. Local to the caller."""

    def __init__(self, owner: "Hashed") -> None:
        self._owner = owner
        rank = _engine.rank()
        self._parts = [p for p, r in enumerate(owner.ranks) if r == rank]

    def size(self) -> int:
        """Return the number of elements here."""
        return sum(self._owner.count_in(p) for p in self._parts)

    __len__ = size

    def empty(self) -> bool:
        """Return whether nothing is here."""
        return self.size() == 0

    def clear(self) -> None:
        """Take out what is here."""
        for part in self._parts:
            self._owner.clear_part(part)

    def __iter__(self) -> Iterator[Any]:
        return self._owner.iterate(self._parts)

    def elements(self) -> Iterator[tuple[Any, Any]]:
        """Yield what is here as pairs of key and value (of a set b'', of a multiset a count)."""
        return self._owner.pairs(self._parts)

    def assign(self, other: "Hashed | Local") -> None:
        """Put a copy of `other` in place of what is here, as far as its keys belong here."""
        self.clear()
        self._owner.take_over(self._here(other), "assign")

    def merge(self, other: "Hashed | Local") -> None:
        """Move from `other` the elements that belong here and whose keys are not here."""
        self._owner.merge_in(self._here(other), other.taker())

    def move(self, other: "Hashed | Local") -> None:
        """Put what `other` holds and belongs here in place of what is here; `other` loses it."""
        self.clear()
        taken = list(self._here(other))
        self._owner.take_over(iter(taken), "assign")
        other.taker().put_list("move", [key for key, _ in taken], None, None)

    def taker(self) -> "Hashed":
        return self._owner

    def _here(self, other: "Hashed | Local") -> Iterator[tuple[Any, Any]]:
        wanted = set(self._parts)
        owner = self._owner
        return ((k, v) for k, v in other.elements() if owner.part_of(k) in wanted)


class Hashed(_engine.ManyHandle, Container):
    """The common half of Map, Set and MultiSet."""

    COUNTS: ClassVar[bool] = False

    def _spread(
        self, ranks: Iterable[int] | None, slots: int, rank: int | None, key: Any, value: Any
    ) -> None:
        name = type(self).__name__
        here = _engine.rank() if rank is None else _engine.existing_rank(rank, name)
        everyone = range(_engine.procs()) if ranks is None else ranks
        where = [_engine.existing_rank(r, name) for r in everyone]
        if len(set(where)) != len(where) or not 0 < len(where) <= _MOST_PARTS:
            raise ValueError(f"{name}: ranks must be 1 to {_MOST_PARTS} different ones")
        keys, values = _codec(key, True), _codec(value, False)
        sizes = (keys.size, values.size, ord(values.letter or "\0"), int(self.COUNTS))
        made: list[tuple[int, int]] = []
        try:
            for r in where:
                one = (
                    (0, 0)
                    if r == here
                    else _engine.container_create(name, r, self.KIND, sizes, b"")
                )
                made.append(one)
            specs = b"\0".join(c.element.note if c.element else _OBJECT for c in (keys, values))
            parts = b"".join(_PART.pack(*one) for one in made)
            head = _HEAD.pack(len(specs), 0, len(made))
            self._create(here, sizes, head + specs + parts)
        except BaseException:
            for ga, serial in made:
                if ga:
                    _engine.container_destroy(name, _named(ga, serial))
            raise
        if slots:
            self.make_room(name, slots)

    def _open(self) -> None:
        name = type(self).__name__
        if len(self.note) < _HEAD.size:
            raise AddressError(
                f"{name}: at {self.ga:#x} is a part of a {name}, not the {name}; attach to the "
                "address that its .ga names"
            )
        size, _, count = _HEAD.unpack_from(self.note)
        keys, _, values = self.note[_HEAD.size : _HEAD.size + size].partition(b"\0")
        at = _HEAD.size + size
        parts = [_PART.unpack_from(self.note, at + i * _PART.size) for i in range(count)]
        self.spread_over(
            name,
            self.KIND,
            [one if one[0] else (self.ga, self.serial) for one in parts],
            _codec_from(keys, True),
            _codec_from(values, False),
        )
        self._others = [one for one in parts if one[0]]

    def destroy(self) -> None:
        """Give back its memory; whoever uses it later, on any rank, gets an AddressError.

        Again on the same handle: nothing. Local to the caller.
        """
        if self._destroyed:
            return
        self.clear()
        for ga, serial in self._others:
            with suppress(AddressError):  # whoever began to destroy it may have been killed
                _engine.container_destroy(f"{type(self).__name__}.destroy", _named(ga, serial))
        super().destroy()

    def statistics(self) -> HashStatistics:
        """Return where it is, how many keys it has, and the size of its tables."""
        looks = [self.look("statistics", part) for part in range(self.part_count)]
        keys, _, places, graves, size = (sum(column) for column in zip(*looks, strict=True))
        return HashStatistics(self.ranks, keys, places, graves, size)

    @property
    def part_count(self) -> int:
        """The number of ranks that it is spread over."""
        return len(self.ranks)

    @property
    def local(self) -> Local:
        """What lives on the calling rank."""
        return Local(self)

    def count_in(self, part: int) -> int:
        """Return the number of elements of one part."""
        return self.size_of("size", part, self.COUNTS)

    def clear_part(self, part: int) -> None:
        """Take everything out of one part."""
        self.clear_of("clear", part)

    def size(self) -> int:
        """Return the number of elements: a sum over the ranks, one after the other."""
        return self.size_of("size", None, self.COUNTS)

    def __len__(self) -> int:
        return self.size()

    def empty(self) -> bool:
        """Return whether there are no elements."""
        return self.size() == 0

    def __bool__(self) -> bool:
        return not self.empty()

    def clear(self) -> None:
        """Take everything out. Not at one instant: rank by rank, an eighth of its keys at a time."""
        for part in range(self.part_count):
            self.clear_part(part)

    def __contains__(self, key: Any) -> bool:
        return self.has("find", key)

    def find(self, key: Any) -> KeyCursor:
        """Return a cursor to the key, or the end."""
        missing = object()
        value = self.find_value("find", key, missing)
        if value is missing:
            return self.end()
        part, stripe, key_hash = self.where(key)
        return KeyCursor(self, (part, stripe, key_hash), key, value)

    def begin(self) -> KeyCursor:
        """Return a cursor to the first element, or the end."""
        return self.cursor_from(0, 0, 0)

    def end(self) -> KeyCursor:
        """Return the cursor behind the last element."""
        return KeyCursor(self, (self.part_count, 0, 0), None, None)

    def cursor_from(self, part: int, stripe: int, key_hash: int) -> KeyCursor:
        """Return a cursor to the first element from a place on."""
        if key_hash >> 64:
            stripe, key_hash = stripe + 1, 0
        while part < self.part_count:
            elements: Sequence[tuple[int, Any, Any]] = ()
            while stripe < _STRIPES and not elements:
                elements, stripe, key_hash = self.scan("advance", part, stripe, key_hash, _STEP)
            if elements:
                first, key, value = min(elements, key=lambda e: (e[0] % _STRIPES, e[0]))
                return KeyCursor(self, (part, first % _STRIPES, first), key, value)
            part, stripe, key_hash = part + 1, 0, 0
        return self.end()

    def pairs(self, parts: Iterable[int]) -> Iterator[tuple[Any, Any]]:
        """Yield key and value of the elements of some parts, in batches."""
        for part in parts:
            stripe = key_hash = 0
            while stripe < _STRIPES:
                elements, stripe, key_hash = self.scan("items", part, stripe, key_hash, _BATCH)
                for _, key, value in elements:
                    yield key, value

    def elements(self) -> Iterator[tuple[Any, Any]]:
        """Yield all as pairs of key and value (of a set b'', of a multiset a count)."""
        return self.pairs(range(self.part_count))

    def iterate(self, parts: Iterable[int]) -> Iterator[Any]:
        """Yield the keys of some parts."""
        return (key for key, _ in self.pairs(parts))

    def __iter__(self) -> Iterator[Any]:
        return self.iterate(range(self.part_count))

    def take_over(self, pairs: Iterator[tuple[Any, Any]], how: str) -> None:
        """Put elements in, many at a time."""
        for keys, values in batches(pairs):
            self.put_list(how, keys, values, how)

    def merge_in(self, pairs: Iterator[tuple[Any, Any]], source: "Hashed") -> None:
        """Put in elements whose keys are not there, and take those out of `source`."""
        for keys, values in batches(pairs):
            there = self.put_list("merge", keys, values, "insert")
            moved = [key for key, was in zip(keys, there, strict=True) if not was]
            source.put_list("merge", moved, None, None)

    def taker(self) -> "Hashed":
        return self

    def assign(self, other: "Self | Local") -> None:
        """Put a copy of `other` in place of what is here. Not at one instant."""
        if other is not self:
            self.clear()
            self.take_over(other.elements(), "assign")

    def merge(self, other: "Self | Local") -> None:
        """Move from `other` the elements whose keys are not here. Not at one instant."""
        if other is not self:
            self.merge_in(other.elements(), other.taker())

    def move(self, other: "Self | Local") -> None:
        """Put what `other` holds in place of what is here; `other` is empty then."""
        if other is not self:
            self.assign(other)
            other.clear()

    def swap(self, other: Self) -> None:
        """Exchange the elements with those of `other`. Not at one instant."""
        if other is self:
            return
        mine = list(self.elements())
        self.assign(other)
        other.clear()
        other.take_over(iter(mine), "assign")


def _codec(what: Any, is_key: bool) -> _engine.Codec:
    is_object = isinstance(what, type) and what in (object, str, bytes)
    return _engine.Codec(None if is_object or what == "object" else element_of(what), is_key)


def _codec_from(note: bytes, is_key: bool) -> _engine.Codec:
    return _engine.Codec(None if note == _OBJECT else element_from(note), is_key)


def _named(ga: int, serial: int) -> Any:
    handle = _engine.Handle()
    handle.found(ga, serial, b"")
    return handle


def batches(pairs: Iterator[tuple[Any, Any]]) -> Iterator[tuple[list[Any], list[Any]]]:
    keys: list[Any] = []
    values: list[Any] = []
    for key, value in pairs:
        keys.append(key)
        values.append(value)
        if len(keys) == 4096:
            yield keys, values
            keys, values = [], []
    if keys:
        yield keys, values


def as_array(codec: _engine.Codec, items: Any, what: str) -> Any:
    """Return `items` as a contiguous array of the codec's type, None where a list will do.

    That is for objects, in programs that do not use NumPy, and for lists of other things than
    numbers.
    """
    numpy = sys.modules.get("numpy")
    if numpy is None or not codec.element or not codec.element.width:
        return None
    if not codec.letter and not isinstance(items, numpy.ndarray):
        return None
    dtype = dtype_of(codec.element)
    given = numpy.asarray(items)
    if given.dtype.kind == "O" or given.size == 0:
        given = numpy.array(items, dtype)
    whole = dtype.kind in "iu" and given.dtype.kind in "iub"
    if not whole and not numpy.can_cast(given.dtype, dtype, "same_kind"):
        raise TypeError(f"{what} of {given.dtype} are not {dtype}: convert them first")
    array = numpy.ascontiguousarray(given, dtype).reshape(-1)
    if whole and not numpy.can_cast(given.dtype, dtype) and (array != given.reshape(-1)).any():
        raise OverflowError(f"{what} of {given.dtype} do not all fit into {dtype}")
    if codec.is_key and dtype.kind == "f":
        array = array + dtype.type(0)  # -0.0 is 0.0
        array[numpy.isnan(array)] = numpy.nan
    return array
