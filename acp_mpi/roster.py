"""How the rows of a job get into the table of every node: as bytes, and once to each."""

import struct
from collections.abc import Iterator
from typing import Any

from acp_mpi.engine import _engine
from acp_mpi.spawn.membership import ROW_SIZE

_PIECE = 16384  # rows that travel at a time: all that a process needs besides the table
_WHERE = struct.Struct("<QI")  # node, host
_NOBODY = -1
# parent and two children of the node in the tree; who is before and after on the node; most, wide
_SEAT = struct.Struct("<5iI?")


class Lone:
    """A process that speaks for itself, and keeps a table of its own."""

    wide = False

    def __init__(self, size: int) -> None:
        self.most = size  # it takes its whole group to be on this node

    def agree(self, error: Exception | None) -> None:
        """Raise `error`, if there is one."""
        if error is not None:
            raise error

    def gather(self, row: bytes) -> bytes:
        """Return the rows of those that this process speaks for."""
        return row

    def enter(self, rows: bytes, count: int, slot: int) -> None:
        """Let the engine know all `count` members."""
        _engine.add_rows(0, rows)
        _engine.join(count, slot)


class Company:
    """The processes of a communicator, and how they are spread over nodes. Calls are collective.

    `most` is how many are on the fullest node, `wide` whether they are on several hosts. The first
    process of the communicator looks at all of them; every other one knows its neighbours in a
    tree of the nodes and in a chain along its own. No communicators are made for that: MPICH takes
    2 MB when it has more than a few.
    """

    def __init__(self, comm: Any, node: int, host: int) -> None:
        from mpi4py import MPI

        self._mpi, self._comm = MPI, comm
        size, self._rank = comm.Get_size(), comm.Get_rank()
        everyone = bytearray(size * _WHERE.size) if self._rank == 0 else None
        comm.Gather(_WHERE.pack(node, host), everyone, root=0)
        seat = bytearray(_SEAT.size)
        comm.Scatter(None if everyone is None else _seats(everyone), seat, root=0)
        *neighbours, self.most, self.wide = _SEAT.unpack(seat)
        places = (MPI.PROC_NULL if rank == _NOBODY else rank for rank in neighbours)
        self._parent, self._left, self._right, self._previous, self._next = places

    def agree(self, error: Exception | None) -> None:
        """Raise on every process if there is an error on any: its own, or the first."""
        size = self._comm.Get_size()
        first = self._comm.allreduce(size if error is None else self._rank, self._mpi.MIN)
        if first < size:
            told = self._comm.bcast(error, root=first)
            raise told if error is None else error

    def gather(self, row: bytes) -> bytes:
        """Return the rows of all processes on the first, nothing elsewhere."""
        rows = bytearray(self._comm.Get_size() * ROW_SIZE) if self._rank == 0 else None
        self._comm.Gather(row, rows, root=0)
        return bytes(rows or b"")

    def enter(self, rows: bytes, count: int, slot: int) -> None:
        """Let the engine know all `count` members, whose rows the first process brings."""
        is_first = self._previous == self._mpi.PROC_NULL
        failed = None
        try:
            if is_first:
                failed = self._spread(rows, count)
                told = failed, b"" if failed else _engine.table_place()
            else:
                told = self._comm.recv(source=self._previous)
            self._comm.send(told, self._next)
            failed, place = told
            if failed is None:
                failed = None if is_first else self._map(place, count)
                self._help_next(count, failed)
            if failed is None:
                _engine.join(count, slot)
        except Exception as error:
            failed = error
        self.agree(failed)

    def _spread(self, rows: bytes, count: int) -> Exception | None:
        """Bring the rows to the first process of each node, and into the table that it makes."""
        failed = None
        for at, size in _pieces(count):
            piece = bytearray(rows[at * ROW_SIZE : (at + _PIECE) * ROW_SIZE] or size * ROW_SIZE)
            self._comm.Recv(piece, self._parent)
            self._comm.Send(piece, self._left)
            self._comm.Send(piece, self._right)
            failed = failed or _added(at, piece)
        return failed

    def _map(self, place: bytes, count: int) -> Exception | None:
        """Map the table of the node; where the system keeps processes apart, copy it."""
        mapped = _engine.map_table(place)
        self._comm.send(mapped, self._previous)
        failed = None
        for at, size in _pieces(0 if mapped else count):
            piece = bytearray(size * ROW_SIZE)
            self._comm.Recv(piece, self._previous)
            failed = failed or _added(at, piece)
        return failed

    def _help_next(self, count: int, failed: Exception | None) -> None:
        """Send the rows to the next process of the node if it could not map them."""
        if self._next == self._mpi.PROC_NULL or self._comm.recv(source=self._next):
            return
        for at, size in _pieces(count):
            piece = bytearray(size * ROW_SIZE) if failed else _engine.rows(at, size)
            self._comm.Send(piece, self._next)


def _pieces(count: int) -> Iterator[tuple[int, int]]:
    return ((at, min(_PIECE, count - at)) for at in range(0, count, _PIECE))


def _seats(everyone: bytearray) -> bytes:
    """Return what each process is told: its neighbours, `most` and `wide`."""
    chains: dict[int, list[int]] = {}
    hosts = set()
    for rank, (node, host) in enumerate(_WHERE.iter_unpack(everyone)):
        chains.setdefault(node, []).append(rank)
        hosts.add(host)
    firsts = [chain[0] for chain in chains.values()]
    most, wide = max(map(len, chains.values())), len(hosts) > 1
    seats = bytearray(len(everyone) // _WHERE.size * _SEAT.size)
    for index, chain in enumerate(chains.values()):
        left, right, *_ = [*firsts[2 * index + 1 : 2 * index + 3], _NOBODY, _NOBODY]
        tree = firsts[(index - 1) // 2] if index else _NOBODY, left, right
        line = zip([_NOBODY, *chain[:-1]], chain, [*chain[1:], _NOBODY], strict=True)
        for before, rank, after in line:
            _SEAT.pack_into(seats, rank * _SEAT.size, *tree, before, after, most, wide)
            tree = _NOBODY, _NOBODY, _NOBODY
    return bytes(seats)


def _added(first: int, rows: bytearray) -> Exception | None:
    """Add rows to the table; return what went wrong, for the others wait in the next step."""
    try:
        _engine.add_rows(first, rows)
    except Exception as error:
        return error
    return None
