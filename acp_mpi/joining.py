"""Groups of processes: how one is made of a communicator, and how groups become a job."""

import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from acp_mpi import host, meeting
from acp_mpi.config import PATHS, Settings
from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.meeting import Meeting
from acp_mpi.rma import window
from acp_mpi.rma.window import Window
from acp_mpi.roster import Company, Lone
from acp_mpi.spawn import handshake
from acp_mpi.spawn.membership import Group as Member
from acp_mpi.spawn.membership import Membership


@dataclasses.dataclass(frozen=True)
class Group:
    """The processes of one communicator, or ACP-only processes that started together.

    `ranks` are the job's ranks in the order of the group's MPI ranks: a `range` unless `reset` has
    permuted them. Of the caller's own group, else None: `comm` is the communicator, `window` the
    `mpi4py.MPI.Win` over the window parts of all its ranks, locked for all, unit 1: the
    displacement of an address `ga` of a rank is `ga - acp.query_starter_ga(rank)`. None also where
    there is no window.
    """

    name: str
    ranks: Sequence[int]
    has_mpi: bool
    comm: Any = dataclasses.field(default=None, repr=False, compare=False)
    window: Any = dataclasses.field(default=None, repr=False, compare=False)

    @property
    def size(self) -> int:
        """The number of processes."""
        return len(self.ranks)


class Alone:
    """A process without MPI: it speaks for itself."""

    has_mpi = False
    comm = None

    def __init__(self, settings: Settings) -> None:
        self.size = settings.group_size
        self.rank = settings.group_rank
        if not 0 <= self.rank < self.size:
            raise Error(
                f"init: ACP_GROUP_RANK={self.rank} is not in 0 to {self.size - 1} "
                f"(ACP_GROUP_SIZE={self.size})"
            )
        if self.size > 1 and settings.rendezvous is None:
            raise Error(
                f"init: ACP_GROUP_SIZE={self.size} processes without MPI meet at a rendezvous; "
                "set ACP_RENDEZVOUS and ACP_SECRET_FILE"
            )

    def company(self, node: int, host: int) -> Lone:
        """Return those with whom this process learns who there is: nobody."""
        return Lone(self.size)

    def from_first(self, make: Callable[[], Any]) -> Any:
        """Return what the first of these processes makes."""
        return make()

    def first_rank(self) -> int:
        """Return the group rank of the first process spoken for."""
        return self.rank

    def before_finalize(self, action: Callable[[], None]) -> None:
        """Without MPI nothing ends it but the program."""

    def abort(self, code: int) -> None:
        """Leave the rest of the group alone: nothing connects it but acp_mpi."""

    def free(self) -> None:
        """Nothing to give back."""


def _outlive_the_launcher_s_warning() -> None:
    """Ignore SIGUSR1 unless the program handles it.

    MPICH's launcher sends it to the survivors when a rank has died, even if told to leave them
    alone (`-disable-auto-cleanup`); its default action would end them too.
    """
    main = threading.current_thread() is threading.main_thread()
    if main and signal.getsignal(signal.SIGUSR1) == signal.SIG_DFL:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)


class MpiGroup:
    """The processes of a communicator, which mpi4py lets speak to each other."""

    has_mpi = True

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        if MPI.Is_finalized():
            raise Error("init: MPI is finalized already; call acp.init() before MPI.Finalize()")
        self._mpi = MPI
        self.comm = (MPI.COMM_WORLD if comm is None else comm).Dup()
        self.size = self.comm.Get_size()
        self.rank = self.comm.Get_rank()
        _outlive_the_launcher_s_warning()

    def company(self, node: int, host: int) -> Company:
        """Return those with whom this process learns who there is."""
        return Company(self.comm, node, host)

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
        result, failed = self.comm.bcast((result, failed), root=0)
        if failed is not None:
            raise failed
        return result

    def first_rank(self) -> int:
        """Return the group rank of the first process spoken for: all of them are."""
        return 0

    def before_finalize(self, action: Callable[[], None]) -> None:
        """Call `action` when the program finalizes MPI first."""
        key = self._mpi.Comm.Create_keyval(delete_fn=lambda *ignored: action())
        self._mpi.COMM_SELF.Set_attr(key, None)

    def abort(self, code: int) -> None:
        """End the processes of the communicator."""
        if not self._mpi.Is_finalized():
            self.comm.Abort(code)

    def free(self) -> None:
        """Give the duplicate back; collective over the group."""
        if not self._mpi.Is_finalized():
            self.comm.Free()


def mpi_group(comm: Any, settings: Settings) -> "Alone | MpiGroup":
    """Return the group of this process: MPI is used if there is a reason to."""
    use = settings.mpi
    if comm is not None:
        if use is False:
            raise Error("init: a communicator was given, but ACP_MPI=0 forbids MPI")
        use = True
    if use is None:
        mpi = sys.modules.get("mpi4py.MPI")
        use = (mpi is not None and mpi.Is_initialized()) or host.launched_by_mpi(os.environ)
    return MpiGroup(comm) if use else Alone(settings)


class Job:
    """What this process knows of its job."""

    def __init__(
        self,
        process: Alone | MpiGroup,
        members: tuple[Member, ...],
        own: str,
        window: Window,
    ) -> None:
        self._process = process
        self._members = members
        self._own = own
        self._window = window
        self.before_mpi_finalize = process.before_finalize
        self.abort_mpi = process.abort

    def _group(self, member: Member) -> Group:
        ranks = _engine.ranks_of(member.slots)
        if member.name != self._own:
            return Group(member.name, ranks, member.has_mpi)
        return Group(member.name, ranks, member.has_mpi, self._process.comm, self._window.win)

    def groups(self) -> list[Group]:
        """Return the groups in the order of their slots."""
        return [self._group(member) for member in self._members]

    def group(self, name: str | None = None) -> Group:
        """Return the group called `name`, or the caller's own."""
        wanted = self._own if name is None else name
        for member in self._members:
            if member.name == wanted:
                return self._group(member)
        names = ", ".join(member.name for member in self._members)
        raise Error(f"group: there is no group {name!r} in this job; there are {names}")

    @property
    def own(self) -> Group:
        """The caller's group."""
        return self.group()

    @property
    def window_state(self) -> str:
        """What there is of an MPI window, and whether it is a road."""
        return self._window.state

    def free(self, collective: bool) -> None:
        """Give back what MPI lent; not `collective` after a loss in the own group."""
        self._window.close(collective)
        if collective:
            self._process.free()


def _limit(most_here: int, heap_size: int | None, settings: Settings) -> int:
    """Return the bytes of global memory that a rank may have where so many share a node."""
    chosen = settings.heap_size if heap_size is None else heap_size
    if chosen is not None:
        if chosen < 0:
            raise ValueError(f"init: heap_size={chosen} is negative")
        return chosen
    return host.memory_total() // 2 // most_here


def join_job(
    process: Alone | MpiGroup,
    settings: Settings,
    heap_size: int | None,
    starter_size: int | None,
) -> Job:
    """Make the engine of this process and tell it who else there is."""
    place: Meeting = process.from_first(lambda: meeting.find(settings, process.size))
    starter = settings.starter_size if starter_size is None else starter_size
    node = host.node_key(settings.node)
    host_key = host.host_key()
    company = process.company(node, host_key)
    window_size, no_window = window.size_wanted(process.has_mpi, settings.window_size)
    failed = None
    try:
        limit = _limit(company.most, heap_size, settings) + starter + 2**16
        _engine.create(
            secret=place.secret,
            job=handshake.job_id(place.secret),
            node=node,
            memory_limit=limit,
            starter_size=starter,
            host=host_key,
            wide=company.wide or place.wide,
            interfaces=host.interfaces_of(settings.interfaces),
            path=PATHS[settings.path],
            ptracer=settings.ptrace,
            peer_timeout=settings.peer_timeout,
            window_size=window_size,
            window_committed=company.nodes > 1,
        )
    except Exception as error:
        failed = error
    try:
        company.agree(failed)
        members = _introduce(process, company, place)
    except Exception:
        _engine.close()
        raise
    slots = next(member.slots for member in members if member.name == place.group)
    made = window.make(process, company.nodes, node, no_window, settings.path, slots, starter)
    return Job(process, members, place.group, made)


def _introduce(
    process: Alone | MpiGroup, company: Company | Lone, place: Meeting
) -> tuple[Member, ...]:
    """Let the engine know who there is, and return the groups."""
    rows = company.gather(_engine.row())
    table = Membership()

    def learn() -> tuple[Member, ...]:
        nonlocal table
        table = place.join(process.size, process.has_mpi, process.first_rank(), rows)
        return table.groups

    members: tuple[Member, ...] = process.from_first(learn)
    own = next(member for member in members if member.name == place.group)
    company.enter(table.rows, members[-1].slots.stop, own.slots[process.rank])
    return members
