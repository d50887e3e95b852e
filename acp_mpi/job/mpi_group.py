"""The processes of a communicator."""

from __future__ import annotations

# what `signal` adds takes a tenth of the time that this package takes to load
import _signal  # type: ignore[import-not-found]
import struct

from acp_mpi.errors import Error
from acp_mpi.job.mpi_wait import Patience
from acp_mpi.job.rank_table import Company
from acp_mpi.util import _system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


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
                f"init: {comm!r} is no communicator of one group; give an MPI.Intracomm, such as "
                "MPI.COMM_WORLD or what Merge of an intercommunicator returns"
            )
        self._mpi = MPI
        self.comm = Patience(MPI.COMM_WORLD if comm is None else comm).duplicate()
        self._calls = Patience(self.comm)
        self.size = self.comm.Get_size()
        self.rank = self.comm.Get_rank()
        # Hydra sends it when a rank ends early, also if told to leave the others alone. MPICH has a
        # handler in C; one of Python would be undone at exit, and to ignore it is inherited.
        _system.survive(_signal.SIGUSR1)

    def company(self, node: int, host: int) -> Company:
        """Return those with whom this process learns who there is."""
        return Company(self.comm, self._calls, node, host)

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
        """Return what the process with MPI rank 0 makes; its error is everybody's."""
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
            # over TCP the end of it may stay with an Open MPI that nobody calls again
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
