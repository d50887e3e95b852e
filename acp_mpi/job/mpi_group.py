"""The processes of a communicator: their calls, and how the rows of a job get to every node."""

from __future__ import annotations

# what `signal` adds takes a tenth of the time that this package takes to load
import _signal  # type: ignore[import-not-found]
import struct
import time

from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.announcement import own
from acp_mpi.job.rendezvous.membership import ROW_SIZE
from acp_mpi.util import _system, log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn


_PIECE = 16384  # rows that travel at a time: all that a process needs besides the table
_WHERE = struct.Struct("<QIQ")  # node, host, number of what it runs
_NOBODY = -1
# whether it is the first of its node, its parent and two children in the tree; most, nodes, wide,
# the first that runs another acp_mpi, or has another ACP_LINKS
_SEAT = struct.Struct("<?3iII?i")


class Company:
    """The processes of a communicator, and how they are spread over nodes. Calls are collective.

    `most` is how many are on the fullest of `nodes`, `wide` whether they are on several hosts. The
    first process of the communicator looks at all of them; the first of each node knows its
    neighbours in a tree of the nodes. No communicators are made for that, and nothing is sent
    within a node: MPICH takes 2 MB for more than a few of the former, 256 KiB for a message that
    surprises it.
    """

    def __init__(self, comm: Any, calls: Patience, node: int, host: int, links: str) -> None:
        from mpi4py import MPI

        self._mpi, self._comm, self._calls = MPI, comm, calls
        size, self._rank = comm.Get_size(), comm.Get_rank()
        everyone = bytearray(size * _WHERE.size) if self._rank == 0 else None
        runs = int.from_bytes(_engine.sha256(own(links).pack())[:8], "little")
        comm.Gather(_WHERE.pack(node, host, runs), everyone, root=0)
        seats: bytes | None = None
        if everyone is not None:  # of each process, the first of its node
            self._firsts, seats = _seats(everyone)
        seat = bytearray(_SEAT.size)
        comm.Scatter(seats, seat, root=0)
        self._is_first, *neighbours, self.most, self.nodes, self.wide, other = _SEAT.unpack(seat)
        if other != _NOBODY:
            said = comm.allgather(own(links))
            one = f"init: rank {other} of this group"
            raise Error(said[other].refusal(one, said[0], "rank 0") or "init: another acp_mpi")
        self._parent, *self._children = (
            MPI.PROC_NULL if rank == _NOBODY else rank for rank in neighbours
        )

    def fail(self, error: Exception | None, first: int) -> NoReturn:
        """Raise the own error, or that of the first process that has one."""
        told = self._comm.bcast(error, root=first)
        raise told if error is None else error

    def _agreed(self, error: Exception | None, *good: bool) -> list[bool]:
        """Raise on every process if there is an error on any, else return what is good for all."""
        size = self._comm.Get_size()
        # mpi4py duplicates the communicator to reduce objects, and that many cost 2 MB in MPICH
        least = memoryview(bytearray(4 + 4 * len(good))).cast("i")
        for at, number in enumerate((size if error is None else self._rank, *good)):
            least[at] = number
        self._calls.reduce(least, self._mpi.MIN)
        first, *all_good = least
        if first < size:
            self.fail(error, first)
        return [bool(each) for each in all_good]

    def gather(self, row: bytes) -> bytes:
        """Return the rows of all processes on the first, nothing elsewhere."""
        rows = bytearray(self._comm.Get_size() * ROW_SIZE) if self._rank == 0 else None
        self._comm.Gather(row, rows, root=0)
        return bytes(rows or b"")

    def enter(self, rows: memoryview, count: int, slot: int, willing: bool) -> tuple[bool, bool]:
        """Let the engine know all `count` members; the first process brings their rows.

        Return whether all processes are willing, and whether none is.
        """
        failed = self._spread(rows, count) if self._is_first else None
        made = self._is_first and failed is None
        place = self._place(_engine.table_place() if made else b"")
        needy = not self._is_first and any(place) and not _engine.map_table(place)
        if failed is None and any(place) and not needy:
            failed = _failure(_engine.join, count, slot)
        complete, all_are, none_is = self._agreed(failed, not needy, willing, not willing)
        if not complete:
            failed = self._copy(rows, count, needy)
            if needy and failed is None:
                failed = _failure(_engine.join, count, slot)
            self._agreed(failed)
        return all_are, none_is

    def _spread(self, rows: memoryview, count: int) -> Exception | None:
        """Bring the rows to the first process of each node, and into the table that it makes."""
        failed = None
        for at, piece in _pieces(rows, count):
            self._comm.Recv(piece, self._parent)
            for child in self._children:
                self._comm.Send(piece, child)
            failed = failed or _failure(_engine.add_rows, at, piece)
        return failed

    def _place(self, own: bytes) -> bytes:
        """Return where the table of this node is, as its first process says; zeros: nowhere."""
        if self.nodes == 1:
            only = bytearray(own.ljust(ROW_SIZE, b"\0"))
            self._calls.broadcast(only)
            return bytes(only)
        places = bytearray(self._comm.Get_size() * ROW_SIZE) if self._rank == 0 else None
        self._comm.Gather(own.ljust(ROW_SIZE, b"\0"), places, root=0)
        told = None
        if places is not None:
            told = b"".join(
                places[rank * ROW_SIZE : (rank + 1) * ROW_SIZE] for rank in self._firsts
            )
        place = bytearray(ROW_SIZE)
        self._comm.Scatter(told, place, root=0)
        return bytes(place)

    def _copy(self, rows: memoryview, count: int, needy: bool) -> Exception | None:
        """Copy the rows where the system keeps processes apart and the table cannot be mapped."""
        failed = None
        for at, piece in _pieces(rows, count):
            self._comm.Bcast(piece, root=0)
            if needy:
                failed = failed or _failure(_engine.add_rows, at, piece)
        return failed


def _pieces(rows: memoryview, count: int) -> Iterator[tuple[int, memoryview]]:
    """Yield pieces of the rows, or room for them where there are none, with their first slots."""
    for at in range(0, count, _PIECE):
        room = min(_PIECE, count - at) * ROW_SIZE
        piece = rows[at * ROW_SIZE : at * ROW_SIZE + room]
        yield at, piece if rows else memoryview(bytearray(room))


def _seats(everyone: bytearray) -> tuple[list[int], bytes]:
    """Return the first process of each one's node, and the contents of the answer to each."""
    members: dict[int, list[int]] = {}  # of a node: its first rank, how many
    firsts, hosts = [], set()
    runs, other = _WHERE.unpack_from(everyone)[2], _NOBODY
    for rank, (node, host, theirs) in enumerate(_WHERE.iter_unpack(everyone)):
        member = members.setdefault(node, [rank, 0])
        member[1] += 1
        firsts.append(member[0])
        hosts.add(host)
        if theirs != runs and other == _NOBODY:
            other = rank
    nodes = [first for first, _ in members.values()]
    everybody = max(count for _, count in members.values()), len(nodes), len(hosts) > 1, other
    seats = bytearray(_SEAT.pack(False, _NOBODY, _NOBODY, _NOBODY, *everybody) * len(firsts))
    for index, first in enumerate(nodes):
        left, right, *_ = [*nodes[2 * index + 1 : 2 * index + 3], _NOBODY, _NOBODY]
        parent = nodes[(index - 1) // 2] if index else _NOBODY
        _SEAT.pack_into(seats, first * _SEAT.size, True, parent, left, right, *everybody)
    return firsts, bytes(seats)


def _failure(step: Callable[..., None], *given: Any) -> Exception | None:
    """Do a step; return what went wrong, for the others wait in the next one."""
    try:
        step(*given)
    except Exception as error:
        return error
    return None


_SHORTEST, _LONGEST = 2e-5, 1e-3  # seconds between two looks
_LATE = 60.0  # seconds after which a wait is spoken of


class Patience:
    """The calls of a communicator, with pauses between looks.

    MPI's own look all the time. Where a node has more processes than processors, those that wait so
    take the time of those that they wait for: 32 processes of MPICH on 2 processors knew each other
    after 310 ms with them and after 180 with these.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm

    def duplicate(self) -> Any:
        """Return a duplicate of the communicator."""
        comm, request = self._comm.Idup()
        self._finish(request, comm)
        return comm

    def assemble(self) -> None:
        """Wait until all processes have called this."""
        self._finish(self._comm.Ibarrier())

    def broadcast(self, data: bytearray) -> None:
        """Fill `data` with what the first process has in it."""
        self._finish(self._comm.Ibcast(data, root=0))

    def reduce(self, data: memoryview, op: Any) -> None:
        """Replace the numbers `data` of each process by what `op` makes of all."""
        from mpi4py import MPI

        self._finish(self._comm.Iallreduce(MPI.IN_PLACE, data, op))

    def _finish(self, request: Any, made: Any = None) -> None:
        pause, late = _SHORTEST, time.monotonic() + _LATE
        try:
            while not request.Test():
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST)
                if time.monotonic() > late:
                    late = float("inf")
                    self._say_that_some_are_missing()
        except BaseException:
            _unfinished.append((request, made))
            raise

    def _say_that_some_are_missing(self) -> None:
        """Log the wait; MPI does not tell which processes are late."""
        rank, size = self._comm.Get_rank(), self._comm.Get_size()
        log.warning(
            "runtime",
            "MPI process %d of %d has waited for %g s for the others of its communicator; "
            "acp.init() returns when all of them call it",
            *(rank, size, _LATE),
        )


_unfinished: list[Any] = []  # after Ctrl-C: MPI may still write into what they hold


_SHORT = 1024  # bytes that travel with their size
_SIZE = struct.Struct("<I")


class MpiGroup:
    """The processes of a communicator, which mpi4py lets speak to each other."""

    has_mpi = True

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        if MPI.Is_finalized():
            raise Error("init: MPI is finalized already; call acp.init() before MPI.Finalize()")
        if comm is not None and (not isinstance(comm, MPI.Intracomm) or comm == MPI.COMM_NULL):
            raise TypeError(
                f"init: {comm!r} is not a communicator of one group; give an MPI.Intracomm, such "
                "as MPI.COMM_WORLD or what Merge of an intercommunicator returns"
            )
        self._mpi = MPI
        self.comm = Patience(MPI.COMM_WORLD if comm is None else comm).duplicate()
        self._calls = Patience(self.comm)
        self.size = self.comm.Get_size()
        self.rank = self.comm.Get_rank()
        # Hydra sends it when a rank ends early, even with the option to leave the others alone.
        # MPICH has a handler in C; one of Python would be undone at exit, and to ignore it is
        # inherited.
        _system.survive(_signal.SIGUSR1)

    def company(self, node: int, host: int, links: str) -> Company:
        """Return the communicator in which this process learns of the members."""
        return Company(self.comm, self._calls, node, host, links)

    def assemble(self) -> None:
        """Wait until all processes of the group are here."""
        self._calls.assemble()

    def total(self, number: int) -> int:
        """Return the sum of the numbers that the processes of the group bring."""
        numbers = memoryview(bytearray(4)).cast("i")
        numbers[0] = number
        self._calls.reduce(numbers, self._mpi.SUM)
        return numbers[0]

    def exchange(self, x: Any) -> list[Any]:
        """Return what every process of the group says, in MPI order."""
        return list(self.comm.allgather(x))

    def from_first(self, make: Callable[[], Any]) -> Any:
        """Return what the process with MPI rank 0 makes; its error is raised on all."""
        result, failed = None, None
        if self.rank == 0:
            try:
                result = make()
            except Exception as error:
                failed = error
        result, failed = self._told((result, failed))
        if failed is not None:
            raise failed
        return result

    def _told(self, what: Any) -> Any:
        """Return what the first process says: of mpi4py's two broadcasts one, if that is short."""
        said = bytearray(_SHORT)
        data = self._mpi.pickle.dumps(what) if self.rank == 0 else b""
        said[: _SIZE.size] = _SIZE.pack(len(data))
        begin = said[_SIZE.size :] = data[: _SHORT - _SIZE.size].ljust(_SHORT - _SIZE.size)
        self._calls.broadcast(said)
        (size,) = _SIZE.unpack_from(said)
        rest = bytearray(data[len(begin) :] or max(size - len(begin), 0))
        if rest:
            self._calls.broadcast(rest)
            # over TCP the end of it may stay with an Open MPI that is not called again
            self._calls.assemble()
        return self._mpi.pickle.loads((said[_SIZE.size :] + rest)[:size])

    def first_rank(self) -> int:
        """Return the group rank of the first process spoken for: all of them are."""
        return 0

    def before_finalize(self, action: Callable[[], None]) -> None:
        """Call `action` when the program finalizes MPI first."""
        key = self._mpi.Comm.Create_keyval(delete_fn=lambda *ignored: action())
        self._mpi.COMM_SELF.Set_attr(key, None)

    def abort(self, code: int) -> None:
        """End the processes of this MPI; of another communicator MPICH's launcher may return 9."""
        if not self._mpi.Is_finalized():
            self._mpi.COMM_WORLD.Abort(code)

    def free(self) -> None:
        """Give the duplicate back; collective over the group."""
        if not self._mpi.Is_finalized():
            self.comm.Free()
