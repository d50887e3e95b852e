"""Bytes of one numbering, spread over the ranks."""

import struct
from dataclasses import dataclass
from operator import index
from typing import Any, SupportsIndex

from acp_mpi.datastructs.container import Container, destroy_parts, make_on_living, on
from acp_mpi.engine import _engine
from acp_mpi.errors import AddressError

_HEAD = struct.Struct("<QQ")
_PART = struct.Struct("<QQ")
_GRAIN = 64


@dataclass(frozen=True)
class WorkspaceStatistics:
    """The result of `Workspace.statistics`; `bytes` on each of `ranks`."""

    ranks: tuple[int, ...]
    bytes: tuple[int, ...]
    size: int
    default_size: int


class Workspace(_engine.WorkspaceHandle, Container):
    """`size` bytes, zero at first, spread over the living ranks from `start_rank` on.

    The first `default_size` bytes are on the first of them, the next ones on the next, and so on,
    around the end. None: `size` in even shares, multiples of 64. At most 4,000 ranks hold bytes,
    evenly strided. The control block is on the calling rank. Local to the caller. HeapFullError if
    a rank has no room; then nothing is made.
    """

    _KIND = 8

    def __init__(
        self,
        size: SupportsIndex,
        *,
        start_rank: SupportsIndex = 0,
        default_size: SupportsIndex | None = None,
    ) -> None:
        name = "Workspace"
        start = _engine.existing_rank(start_rank, name)
        size = _bytes_of("size", size)
        given = None if default_size is None else _bytes_of("default_size", default_size)
        if given == 0:
            raise ValueError(
                f"{name}: there are no blocks of 0 bytes; use a default_size from 1 on"
            )
        make_on_living(name, lambda ranks: self._make(size, given, ranks), start)

    def _make(self, size: int, default_size: int | None, ranks: list[int]) -> None:
        """Make the parts on `ranks`, as far as there are bytes for them."""
        name = "Workspace"
        block = default_size or max(-(-size // len(ranks) // _GRAIN), 1) * _GRAIN
        sizes = _shares(size, block, len(ranks))
        made: list[tuple[int, int]] = []
        try:
            for rank, part in zip(ranks, sizes, strict=False):
                made.append(_engine.container_create(name, rank, self._KIND, (part,), b""))
            parts = b"".join(_PART.pack(*one) for one in made)
            self._create(None, (0,), _HEAD.pack(size, block) + parts)
        except BaseException:
            destroy_parts(made, name)
            raise
        try:
            self._zero(name, sizes)
        except BaseException:
            self.destroy()
            raise

    def _open(self) -> None:
        if len(self._note) < _HEAD.size:
            raise AddressError(
                f"Workspace: at {self.ga:#x} is a part of a Workspace, not the Workspace; attach "
                "to the address that its .ga names"
            )
        size, block = _HEAD.unpack_from(self._note)
        self._of(list(_PART.iter_unpack(self._note[_HEAD.size :])), block, size)

    def destroy(self) -> None:
        """Give back its memory; later uses, on any rank, raise AddressError.

        Again on the same handle: nothing. Local to the caller.
        """
        if not self._destroyed:
            destroy_parts(self._parts, "Workspace.destroy")
            super().destroy()

    def size(self) -> int:
        """Return how many bytes it has."""
        self._touch("Workspace.size")
        return self._total

    __len__ = size

    def _described(self) -> str:
        ranks = {_engine.query_rank(ga) for ga, _ in self._parts}
        return f"<acp_mpi.Workspace of {self._total} bytes {on(ranks)}>"

    @property
    def default_size(self) -> int:
        """How many bytes are on one rank before those on the next."""
        return self._block

    def read_ga(self, ga: SupportsIndex, offset: SupportsIndex, size: SupportsIndex) -> None:
        """Copy `size` bytes from `offset` on to address `ga`, from rank to rank.

        IndexError if they do not lie within the workspace; nothing is moved then. Not atomic,
        and not beside `destroy`.
        """
        name = "Workspace.read_ga"
        pieces = self._pieces(name, ga, offset, size)
        _engine.copy_all(name, [(index(ga) + at, piece, n) for at, piece, n in pieces])

    def write_ga(self, ga: SupportsIndex, offset: SupportsIndex, size: SupportsIndex) -> None:
        """Copy `size` bytes at address `ga` to the bytes from `offset` on, from rank to rank.

        IndexError if they do not lie within the workspace; nothing is moved then. Not atomic, and
        not beside `destroy` or calls on the same bytes.
        """
        name = "Workspace.write_ga"
        pieces = self._pieces(name, ga, offset, size)
        _engine.copy_all(name, [(piece, index(ga) + at, n) for at, piece, n in pieces])

    def _pieces(
        self, name: str, ga: SupportsIndex, offset: SupportsIndex, size: SupportsIndex
    ) -> list[tuple[int, int, int]]:
        _engine.owner(ga, name)
        pieces, at = [], 0
        for place, n in self._places(name, offset, size):
            pieces.append((at, place, n))
            at += n
        return pieces

    def statistics(self) -> WorkspaceStatistics:
        """Return where its bytes are."""
        bytes_on = tuple(n for n, _ in self._look("Workspace.statistics"))
        ranks = tuple(_engine.query_rank(ga) for ga, _ in self._parts)
        return WorkspaceStatistics(ranks, bytes_on, self._total, self._block)


def _bytes_of(what: str, given: Any) -> int:
    try:
        number = index(given)
    except TypeError:
        raise TypeError(
            f"Workspace: {what} {given!r:.60} is not a number of bytes; use an int"
        ) from None
    if not 0 <= number < 2**63:
        raise ValueError(f"Workspace: {what} is {number} bytes; use 0 to 2**63 - 1")
    return number


def _shares(size: int, block: int, ranks: int) -> list[int]:
    """Return the bytes of each part, of which there is one at least."""
    blocks = max(-(-size // block), 1)
    count = min(blocks, ranks)
    shares = [-(-(blocks - i) // count) * block for i in range(count)]
    shares[(blocks - 1) % count] -= blocks * block - size
    return shares
