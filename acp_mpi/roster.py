"""How the rows of a job get to every node: once each, as bytes, on the way to the engine's table."""

from typing import Any

from acp_mpi.engine import _engine
from acp_mpi.spawn.membership import ROW_SIZE

_PIECE = 16384  # rows that travel at a time: all that a process needs besides the table


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

    `most` is how many are on the fullest node, `wide` whether they are on several hosts.
    """

    def __init__(self, comm: Any, node: int, host: int) -> None:
        from mpi4py import MPI

        self._mpi, self._comm = MPI, comm
        # A color has 31 bits, a node's key 64. All but the first split are among few.
        self._here = comm.Split(node & 0x7FFFFFFF)
        for color in (node >> 31 & 0x7FFFFFFF, node >> 62):
            wider, self._here = self._here, self._here.Split(color)
            wider.Free()
        first = self._here.Get_rank() == 0
        self._firsts = comm.Split(0 if first else MPI.UNDEFINED)  # the lowest rank of each node
        self.most = comm.allreduce(self._here.Get_size(), MPI.MAX)
        self.wide = comm.allreduce(host, MPI.MIN) != comm.allreduce(host, MPI.MAX)

    def agree(self, error: Exception | None) -> None:
        """Raise on every process if there is an error on any: its own, or the first."""
        size, rank = self._comm.Get_size(), self._comm.Get_rank()
        first = self._comm.allreduce(size if error is None else rank, self._mpi.MIN)
        if first < size:
            told = self._comm.bcast(error, root=first)
            raise told if error is None else error

    def gather(self, row: bytes) -> bytes:
        """Return the rows of all processes on the first, nothing elsewhere."""
        first = self._comm.Get_rank() == 0
        rows = bytearray(self._comm.Get_size() * ROW_SIZE) if first else None
        self._comm.Gather(row, rows, root=0)
        return bytes(rows or b"")

    def enter(self, rows: bytes, count: int, slot: int) -> None:
        """Let the engine know all `count` members, whose rows the first process brings."""
        failed = None
        try:
            self._share(rows, count)
            _engine.join(count, slot)
        except Exception as error:
            failed = error
        self.agree(failed)

    def _share(self, rows: bytes, count: int) -> None:
        failed = self._spread(rows, count) if self._firsts != self._mpi.COMM_NULL else None
        failed, place = self._here.bcast(
            (failed, None if failed else _engine.table_place())
            if self._here.Get_rank() == 0
            else None
        )
        if failed is not None:
            raise failed
        mapped = self._here.Get_rank() == 0 or _engine.map_table(place)
        if not self._here.allreduce(mapped, self._mpi.LAND):
            self._copy(count, mapped)

    def _spread(self, rows: bytes, count: int) -> Exception | None:
        """Bring the rows to the first process of each node, and into the table that it makes."""
        failed = None
        for at in range(0, count, _PIECE):
            piece = bytearray(rows[at * ROW_SIZE : (at + _PIECE) * ROW_SIZE])
            piece = piece or bytearray(min(_PIECE, count - at) * ROW_SIZE)
            self._firsts.Bcast(piece, root=0)
            failed = failed or _added(at, piece)
        return failed

    def _copy(self, count: int, mapped: bool) -> None:
        """Where the system keeps processes apart: those who could not map it copy the table."""
        failed = None
        for at in range(0, count, _PIECE):
            size = min(_PIECE, count - at)
            piece = _engine.rows(at, size) if mapped else bytearray(size * ROW_SIZE)
            self._here.Bcast(piece, root=0)
            if not mapped:
                failed = failed or _added(at, piece)
        if failed is not None:
            raise failed

    def close(self) -> None:
        """Give the communicators back."""
        self._here.Free()
        if self._firsts != self._mpi.COMM_NULL:
            self._firsts.Free()


def _added(first: int, rows: bytearray) -> Exception | None:
    """Add rows to the table; return what went wrong, for the others wait in the next step."""
    try:
        _engine.add_rows(first, rows)
    except Exception as error:
        return error
    return None
