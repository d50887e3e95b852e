"""The base of maps, sets and multisets: parts on many ranks, cursors, iteration."""

import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, SupportsIndex

from acp_mpi.datastructs.codecs import OBJECT, as_array, codec_from, codec_of, key_at, note_of
from acp_mpi.datastructs.container import (
    MOST_RANKS,
    K,
    V,
    count_of,
    destroy_parts,
    make_on_living,
    shown,
)
from acp_mpi.datastructs.hashed_copies import BATCH, STRIPES, HashedCopies
from acp_mpi.datastructs.key_cursor import KeyCursor
from acp_mpi.datastructs.local import Local
from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError, PeerLostError
from acp_mpi.rma.buffers import hosted

_HEAD = struct.Struct("<HHI")
_PART = struct.Struct("<QQ")
_STEP = 1 << 12


@dataclass(frozen=True)
class HashStatistics:
    """The result of `statistics` of a map, set or multiset; sums over `ranks`."""

    ranks: tuple[int, ...]
    keys: int
    places: int
    graves: int
    bytes: int


class Hashed(HashedCopies[K, V]):
    """The common half of Map, Set and MultiSet."""

    _COUNTS: ClassVar[bool] = False
    _VALUE: ClassVar[str] = "V0"

    def _spread(
        self,
        contents: Any,
        key: Any,
        value: Any,
        ranks: Iterable[SupportsIndex] | None,
        slots: SupportsIndex,
        rank: SupportsIndex | None,
    ) -> None:
        name = type(self).__name__
        _engine.owner(_engine.GA_NULL, name)  # it says so if there was no init
        here = _engine.rank() if rank is None else _engine.existing_rank(rank, name)
        slots = count_of(name, slots)
        if ranks is not None and not isinstance(ranks, Iterable):
            raise TypeError(f"{name}: {ranks!r} is one thing, not some ranks; use [{ranks!r}]")
        codecs = codec_of(key, True, name), codec_of(value, False, name)
        if ranks is None:
            make_on_living(name, lambda living: self._make(here, living, *codecs))
        else:
            where = [_engine.existing_rank(r, name) for r in ranks]
            if len(set(where)) != len(where) or not 0 < len(where) <= MOST_RANKS:
                raise ValueError(
                    f"{name}: {len(where)} ranks, {len(set(where))} of them different; name 1 to "
                    f"{MOST_RANKS}, each once"
                )
            self._make(here, where, *codecs)
        try:
            if slots:
                self._make_room("slots", slots)
            if contents is not None:
                self.update(contents)
        except BaseException:
            self.destroy()
            raise

    def update(self, contents: Any) -> None:
        """Put in many elements."""
        raise NotImplementedError

    def _make(
        self, here: int, where: list[int], keys: _engine.Codec, values: _engine.Codec
    ) -> None:
        """Make the parts on the ranks `where`, the head on `here`."""
        name = type(self).__name__
        number = "O" if note_of(values) == OBJECT else values.letter or "\0"
        sizes = (keys.size, values.size, ord(number), int(self._COUNTS))
        made: list[tuple[int, int]] = []
        try:
            for r in where:
                one = (
                    (0, 0)
                    if r == here
                    else _engine.container_create(name, r, self._KIND, sizes, b"")
                )
                made.append(one)
            specs = note_of(keys) + b"\0" + note_of(values)
            parts = b"".join(_PART.pack(*one) for one in made)
            head = _HEAD.pack(len(specs), 0, len(made))
            self._create(here, sizes, head + specs + parts)
        except BaseException:
            destroy_parts(made, name)
            raise

    def _open(self) -> None:
        name = type(self).__name__
        if len(self._note) < _HEAD.size:
            raise AddressError(
                f"{name}: at {self.ga:#x} is a part of a {name}, not the {name}; attach to the "
                "address that its .ga names"
            )
        size, _, count = _HEAD.unpack_from(self._note)
        keys, _, values = self._note[_HEAD.size : _HEAD.size + size].partition(b"\0")
        at = _HEAD.size + size
        parts = [_PART.unpack_from(self._note, at + i * _PART.size) for i in range(count)]
        self._spread_over(
            name,
            self._KIND,
            [one if one[0] else (self.ga, self.serial) for one in parts],
            codec_from(keys, True),
            codec_from(values, False),
        )
        self._others = [one for one in parts if one[0]]

    def destroy(self) -> None:
        """Give back its memory; later uses, on any rank, raise AddressError.

        Again on the same handle: nothing. Local to the caller.
        """
        if self._destroyed:
            return
        for part in range(self._part_count):
            with suppress(AddressError, PeerLostError):  # as those of `destroy_parts`
                self._clear_part(part)
        destroy_parts(self._others, f"{type(self).__name__}.destroy")
        super().destroy()

    def statistics(self) -> HashStatistics:
        """Return where it is, how many keys it has, and the size of its tables."""
        looks = [self._look("statistics", part) for part in range(self._part_count)]
        keys, _, places, graves, size = (sum(column) for column in zip(*looks, strict=True))
        return HashStatistics(self.ranks, keys, places, graves, size)

    @property
    def local(self) -> Local[K, V]:
        """The part on the calling rank."""
        return Local(self)

    def _count_in(self, part: int) -> int:
        """Return the number of elements of one part."""
        return self._size_of("size", part, self._COUNTS)

    def size(self) -> int:
        """Return the number of elements: a sum over the ranks, one after the other."""
        return self._size_of("size", None, self._COUNTS)

    def __len__(self) -> int:
        return self.size()

    def _described(self) -> str:
        count = self._size_of("size")
        return self._containing(self.ranks, count, shown(self._elements(), count, "{:}"))

    def empty(self) -> bool:
        """Return whether there are no elements."""
        return not self._size_of("empty")

    def __bool__(self) -> bool:
        return not self.empty()

    def __contains__(self, key: object) -> bool:
        return self._has("find", key)

    def find(self, key: K) -> KeyCursor[K, V]:
        """Return a cursor to the key, or the end."""
        missing = object()
        value = self._find_value("find", key, missing)
        if value is missing:
            return self.end()
        part, stripe, key_hash = self._where(key)
        return KeyCursor(self, (part, stripe, key_hash), key, value)

    def find_ga(self, ga: SupportsIndex, size: SupportsIndex | None = None) -> KeyCursor[K, V]:
        """Return a cursor to the key with its `size` bytes at address `ga`, or the end."""
        return self.find(self._key_at("find_ga", ga, size))

    def _array_of(self, method: str, keys: Any) -> Any:
        """Return an array of keys as one of the keys' type; None: they are put in one by one."""
        name = f"{type(self).__name__}.{method}"
        keys = hosted(keys, name)
        if not self._inlined or not hasattr(keys, "__array_interface__"):
            return None
        return as_array(self._key_codec, keys, f"{name}: keys")

    def _key_at(self, method: str, ga: SupportsIndex, size: SupportsIndex | None) -> Any:
        return key_at(self._key_codec, ga, size, f"{type(self).__name__}.{method}")

    def begin(self) -> KeyCursor[K, V]:
        """Return a cursor to the first element, or the end."""
        return self._cursor_from(0, 0, 0)

    def end(self) -> KeyCursor[K, V]:
        """Return the cursor behind the last element."""
        return KeyCursor(self, (self._part_count, 0, 0), None, None)

    def _cursor_from(self, part: int, stripe: int, key_hash: int) -> KeyCursor[K, V]:
        """Return a cursor to the first element from a place on."""
        if key_hash >> 64:
            stripe, key_hash = stripe + 1, 0
        while part < self._part_count:
            elements: Sequence[tuple[int, Any, Any]] = ()
            room = _STEP
            while stripe < STRIPES and not elements:
                elements, stripe, key_hash = self._scan("advance", part, stripe, key_hash, room)
                room = BATCH  # if nothing came before the end, the next one has no room in a step
            if elements:
                first, key, value = min(elements, key=lambda e: (e[0] % STRIPES, e[0]))
                return KeyCursor(self, (part, first % STRIPES, first), key, value)
            part, stripe, key_hash = part + 1, 0, 0
        return self.end()

    def _iterate(self, parts: Iterable[int]) -> Iterator[K]:
        """Yield the keys of some parts."""
        return (key for key, _ in self._pairs(parts))

    def __iter__(self) -> Iterator[K]:
        return self._iterate(range(self._part_count))

    __reversed__ = None  # there is no order; without this line Python would ask for [n - 1], ...
