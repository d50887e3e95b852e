"""The base of all containers: handles that travel, attach, destroy."""

import itertools
import operator
import reprlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, ClassVar, Self, SupportsIndex, TypeVar

from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError, PeerLostError
from acp_mpi.rma.buffers import hosted
from acp_mpi.util import log
from acp_mpi.util.text import ranges

KINDS = (
    "?",
    "Counter",
    "Deque",
    "List",
    "Map",
    "MultiSet",
    "Set",
    "Vector",
    "Workspace",
)  # by number, as in container.h


T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
# Types that elements, keys and values have as they were given; of others checkers know nothing.
Plain = TypeVar("Plain", bool, int, float)
PlainKey = TypeVar("PlainKey", bool, int, float, str, bytes)
PlainValue = TypeVar("PlainValue", bool, int, float, str, bytes)

NOTHING = ()  # as the contents of a container: none are given
PATIENCE = 0.05  # s, for what a repr shows
SHOWN = 10
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60
MOST_RANKS = 4000  # that one container is spread over: their addresses fit into its note


class Container(_engine.Handle):
    """A container in global memory, by its address and serial.

    A container pickles, and so can be published, sent and stored in other containers; every rank
    that has it uses the same container. Dropping it frees nothing: `destroy`, or `with`, does.
    """

    _KIND: ClassVar[int]
    _destroyed = False

    def _create(
        self, rank: SupportsIndex | None, words: tuple[int, ...] = (), note: bytes = b""
    ) -> None:
        """Make the container, with what `_open` needs to know as `note`. Local to the caller."""
        name = type(self).__name__
        ga, serial = _engine.container_create(name, rank, self._KIND, words, note)
        self._found(ga, serial, note)
        self._open()

    def _open(self) -> None:
        """Take what this handle needs from `note`."""

    @classmethod
    def attach(cls, ga: SupportsIndex) -> Self:
        """Return a handle of the container at address `ga`.

        AddressError if there is none, or one of another type.
        """
        name = f"{cls.__name__}.attach"
        serial, kind, note = _engine.container_describe(name, ga)
        if kind != cls._KIND:
            raise AddressError(
                f"{name}: at {ga:#x} is a {KINDS[kind]}; use {KINDS[kind]}.attach for it"
            )
        found: Self = _restored(cls, ga, serial, note)
        return found

    def destroy(self) -> None:
        """Give back its memory; later uses, on any rank, raise AddressError.

        Again on the same handle: nothing. Local to the caller.
        """
        if not self._destroyed:
            _engine.container_destroy(f"{type(self).__name__}.destroy", self)
            self._destroyed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.destroy()

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.ga, self.serial, self._note)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Container):
            return NotImplemented
        return (self.ga, self.serial) == (other.ga, other.serial)

    def __hash__(self) -> int:
        return hash((self.ga, self.serial))

    def _identity(self) -> str:
        """Say which container it is."""
        return f"<acp_mpi.{type(self).__name__} at {self.ga:#x}>"

    def _described(self) -> str:
        """Say where it is and what is in it."""
        raise NotImplementedError

    def _containing(self, ranks: Iterable[int], count: int, elements: str) -> str:
        return f"<acp_mpi.{type(self).__name__} of {count} {on(ranks)}: {elements}>"

    def __repr__(self) -> str:
        """Say what it is, with the first elements if they come at once (0.05 s)."""
        return _engine.glance(self._described, PATIENCE) or self._identity()


def on(ranks: Iterable[int]) -> str:
    """Say on which ranks something is."""
    text = f"{ranges(ranks):.60}"
    return f"on rank {text}" if text.isdigit() else f"on ranks {text}"


def shown(elements: Iterable[Any], count: int, form: str = "[]") -> str:
    """Say the first of `count` elements; pairs, in braces, as those of a dict."""
    some = [
        ": ".join(map(_SHORT.repr, each)) if form == "{:}" else _SHORT.repr(each)
        for each in itertools.islice(elements, SHOWN)
    ]
    return form[0] + ", ".join(some + ["…"] * (count > len(some))) + form[-1]


def make_on_living(name: str, make: Callable[[list[int]], None], first: int = 0) -> None:
    """Call `make` with the ranks that a container is spread over by default.

    These are the living from `first` on, around the end, at most MOST_RANKS, evenly strided. A rank
    that `make` finds lost is left out of the next attempt.
    """
    while True:
        living = _living(first)
        count = min(len(living), MOST_RANKS)
        if count < len(living):
            log.info("datastructs", "%s is on %d of %d ranks that live", name, count, len(living))
        try:
            make([living[i * len(living) // count] for i in range(count)])
        except PeerLostError:
            if living == _living(first):
                raise
        else:
            return


def _living(first: int) -> list[int]:
    absent, procs = {*_engine.lost_ranks(), *_engine.services()}, _engine.procs()
    return [r for r in (*range(first, procs), *range(first)) if r not in absent]


def count_of(function: str, n: Any, most: int = 2**63 - 1, of: str = "elements") -> int:
    """Return a number of things as an int from 0. TypeError, ValueError, OverflowError."""
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(f"{function}: {n!r:.60} is not a number of {of}; use an int") from None
    if n < 0:
        raise ValueError(f"{function}: there are no {n} {of}; use 0 or more")
    if n > most:
        raise OverflowError(f"{function}: {n} are more than there can be; use {most} or less")
    return int(n)


def listed(function: str, things: Any) -> list[Any]:
    """Return many things as a list. TypeError if it is one."""
    things = hosted(things, function)
    if not isinstance(things, Iterable) and not hasattr(things, "__getitem__"):
        raise TypeError(f"{function}: {things!r:.60} is one thing; give many, in a list, say")
    return list(things)


def named(ga: int, serial: int) -> Any:
    """Return a handle of a part, by its address and serial."""
    handle = _engine.Handle()
    handle._found(ga, serial, b"")
    return handle


def destroy_parts(parts: Iterable[tuple[int, int]], function: str) -> None:
    """Give back containers by their address and serial; address 0 is none."""
    for ga, serial in parts:
        # A rank that began to destroy it may have been killed; parts on a lost rank went with it.
        with suppress(AddressError, PeerLostError):
            if ga:
                _engine.container_destroy(function, named(ga, serial))


def _restored(cls: Any, ga: SupportsIndex, serial: int, note: bytes) -> Any:
    container = cls.__new__(cls)
    container._found(ga, serial, note)
    container._open()
    return container
