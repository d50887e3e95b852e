"""How the rows of a job get to every node: once each, as bytes, on the way to the engine's table."""

import struct
from typing import Any

from acp_mpi.engine import _engine
from acp_mpi.spawn.membership import ROW_SIZE

_PIECE = 16384  # rows that travel at a time: all that a process needs besides the table
_WHERE = struct.Struct("<QI")  # node, host
_SEAT = struct.Struct("<III?")  # first rank of the node, how many others, most on a node, wide
_ASK, _MAPPED, _ROWS = range(3)  # tags


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

    def close(self) -> None:
        """Nothing to give back."""


class Company:
    """The processes of a communicator, and how they are spread over nodes. Calls are collective.

    `most` is how many are on the fullest node, `wide` whether they are on several hosts. The first
    process of the communicator looks at all of them; no other process does.
    """

    def __init__(self, comm: Any, node: int, host: int) -> None:
        from mpi4py import MPI

        self._mpi, self._comm = MPI, comm
        size, self._rank = comm.Get_size(), comm.Get_rank()
        everyone = bytearray(size * _WHERE.size) if self._rank == 0 else None
        comm.Gather(_WHERE.pack(node, host), everyone, root=0)
        own = bytearray(_SEAT.size)
        comm.Scatter(None if everyone is None else _seats(everyone), own, root=0)
        self._first, self._mates, self.most, self.wide = _SEAT.unpack(own)
        # One communicator more, not one a node: MPICH keeps room for a few.
        color = 0 if self._first == self._rank else MPI.UNDEFINED
        self._firsts = comm.Split(color)  # the lowest rank of each node

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
        failed = None
        try:
            if self._first == self._rank:
                self._share(self._spread(rows, count), count)
            else:
                self._receive(count)
            _engine.join(count, slot)
        except Exception as error:
            failed = error
        self.agree(failed)

    def _spread(self, rows: bytes, count: int) -> Exception | None:
        """Bring the rows to the first process of each node, and into the table that it makes."""
        failed = None
        for at in range(0, count, _PIECE):
            piece = bytearray(rows[at * ROW_SIZE : (at + _PIECE) * ROW_SIZE])
            piece = piece or bytearray(min(_PIECE, count - at) * ROW_SIZE)
            self._firsts.Bcast(piece, root=0)
            failed = failed or _added(at, piece)
        return failed

    def _share(self, failed: Exception | None, count: int) -> None:
        """Tell the others of the node where the table is, or what went wrong."""
        told = (failed, None if failed else _engine.table_place())
        status, mates = self._mpi.Status(), []
        for _ in range(self._mates):
            self._comm.recv(source=self._mpi.ANY_SOURCE, tag=_ASK, status=status)
            mates.append(status.Get_source())
            self._comm.send(told, mates[-1], _ASK)
        if failed is not None:
            raise failed
        for mate in mates:
            if not self._comm.recv(source=mate, tag=_MAPPED):
                for at in range(0, count, _PIECE):
                    piece = _engine.rows(at, min(_PIECE, count - at))
                    self._comm.Send(piece, mate, _ROWS)

    def _receive(self, count: int) -> None:
        """Map the table of the node; where the system keeps processes apart, copy it."""
        self._comm.send(None, self._first, _ASK)
        failed, place = self._comm.recv(source=self._first, tag=_ASK)
        if failed is not None:
            raise failed
        mapped = _engine.map_table(place)
        self._comm.send(mapped, self._first, _MAPPED)
        if mapped:
            return
        for at in range(0, count, _PIECE):
            piece = bytearray(min(_PIECE, count - at) * ROW_SIZE)
            self._comm.Recv(piece, self._first, _ROWS)
            failed = failed or _added(at, piece)
        if failed is not None:
            raise failed

    def close(self) -> None:
        """Give the communicator of the nodes' first processes back."""
        if self._firsts != self._mpi.COMM_NULL:
            self._firsts.Free()


def _seats(everyone: bytearray) -> bytes:
    """Return what each process is told of its node, and of the fullest."""
    nodes, hosts = [], set()
    members: dict[int, tuple[int, int]] = {}  # of a node: its first rank, how many
    for rank, (node, host) in enumerate(_WHERE.iter_unpack(everyone)):
        first, count = members.get(node, (rank, 0))
        members[node] = first, count + 1
        nodes.append(node)
        hosts.add(host)
    most = max(count for _, count in members.values())
    return b"".join(
        _SEAT.pack(members[node][0], members[node][1] - 1, most, len(hosts) > 1) for node in nodes
    )


def _added(first: int, rows: bytearray) -> Exception | None:
    """Add rows to the table; return what went wrong, for the others wait in the next step."""
    try:
        _engine.add_rows(first, rows)
    except Exception as error:
        return error
    return None
