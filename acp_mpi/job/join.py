"""Groups of processes, and how they become a job."""

from __future__ import annotations

import os
import sys

from acp_mpi.config import APART, LINKS, MOST, PATHS, Settings
from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.job import rendezvous_point
from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.membership import ROW_SIZE, Membership, first_without
from acp_mpi.job.rendezvous.membership import Group as Member
from acp_mpi.job.rendezvous_point import Meeting
from acp_mpi.rma import window
from acp_mpi.util import host, log
from acp_mpi.util.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TypeAlias

    from acp_mpi.job.mpi_group import Company, MpiGroup
    from acp_mpi.job.single import Alone, Lone
    from acp_mpi.rma.window import Window

    Known: TypeAlias = tuple[tuple[Member, ...], int]  # groups, and ranks that the job began with

_FEW_FILES = 32  # open files: fewer leave too little for connections
_HEAD = 2**17  # bytes of a heap's head, with its mailbox, and some more


class Group(Record):
    """The processes of one communicator, or ACP-only processes that started together.

    `ranks` are the job's ranks in the order of the group's MPI ranks: a `range` unless `reset` has
    permuted them. Of the caller's own group, else None: `comm` is the communicator, `window` the
    `mpi4py.MPI.Win` over the window parts of all its ranks, locked for all, unit 1: the
    displacement of an address `ga` of a rank is `ga - acp.query_starter_ga(rank)`. None also where
    there is no window.
    """

    __slots__ = ("name", "ranks", "has_mpi", "comm", "window")  # noqa: RUF023

    def __init__(
        self,
        name: str,
        ranks: Sequence[int],
        has_mpi: bool,
        comm: Any = None,
        window: Any = None,
    ) -> None:
        self.name, self.ranks, self.has_mpi = name, ranks, has_mpi
        self.comm, self.window = comm, window

    def _parts(self) -> tuple[object, ...]:
        return self.name, self.ranks, self.has_mpi

    @property
    def size(self) -> int:
        """The number of processes."""
        return len(self.ranks)


mpi_is_the_parent_s = False  # in a forked child


def mpi_group(comm: Any, settings: Settings) -> Alone | MpiGroup:
    """Return the group of this process: MPI is used if there is a reason to."""
    use = settings.mpi
    if comm is not None:
        if use is False:
            raise Error(
                "init: a communicator was given, but ACP_MPI=0 forbids MPI; macprun sets that for "
                "a group without --mpi: give the group --mpi, or init no communicator"
            )
        use = True
    if use is None:
        mpi = sys.modules.get("mpi4py.MPI")
        begun = mpi is not None and mpi.Is_initialized() and not mpi_is_the_parent_s
        use = begun or host.launched_by_mpi(os.environ)
    process: Alone | MpiGroup
    announced = host.announced(os.environ)
    if use:
        from acp_mpi.job.mpi_group import MpiGroup

        process = MpiGroup(comm)
        host.keep_mpi_to_oneself(os.environ)
    else:
        from acp_mpi.job.single import Alone

        process = Alone(settings)
    if comm is None and settings.mpi is not False:
        _say_who_is_missing(announced, process, settings)
    return process


def _say_who_is_missing(
    announced: dict[str, int], process: Alone | MpiGroup, settings: Settings
) -> None:
    """Warn if a launcher has started more processes than MPI knows of: each is a job of its own."""
    tasks = announced.pop("srun", 1)
    for launcher, count in announced.items():
        if process.has_mpi and count > process.size:
            log.warning(
                "joining",
                "init: the %s has started %d processes, and the MPI of mpi4py, which is another, "
                "knows of %d: they are not one job; start them by its own mpiexec, mostly the one "
                "beside %s",
                launcher, count, process.size, sys.executable,
            )  # fmt: skip
            return
    if tasks > process.size == 1 and settings.rendezvous is None and settings.multirun is None:
        log.warning(
            "joining",
            "init: srun has started %d tasks, and each of them is a job of its own, for MPI was "
            "told nothing: start them by `srun --mpi=pmi2` (MPICH) or `srun --mpi=pmix` "
            "(Open MPI); `srun --mpi=list` shows what there is",
            tasks,
        )


def _say_how_few_files(limit: int) -> None:
    """Warn if this process may have hardly more open files than it needs itself."""
    if limit < _FEW_FILES:
        log.warning(
            "joining",
            "init: this process may have %d open files (ulimit -n), and needs some 15 itself: its "
            "connections to other ranks, one at a time, are closed and opened again; allow it %d "
            "or more, better some for each rank it talks to",
            limit,
            _FEW_FILES,
        )


class Job:
    """The job as this process knows it."""

    def __init__(
        self,
        process: Alone | MpiGroup,
        known: Known,
        place: Meeting,
        window: Window,
        parent: int | None,
        delegate_memory: int | None,
    ) -> None:
        self._process = process
        self._members, self._founders = known
        self._own = place.group
        self._window = window
        self.place = place
        self.parent = parent  # the rank that started this group by Spawn
        self.delegate_memory = delegate_memory
        self.registry = place.address if self._came_later else None
        self.before_mpi_finalize = process.before_finalize
        self.abort_mpi = process.abort

    def _group(self, member: Member) -> Group:
        ranks = _engine.ranks_of(member.slots)
        if member.name != self._own:
            return Group(member.name, ranks, member.has_mpi)
        return Group(member.name, ranks, member.has_mpi, self._process.comm, self._window.win)

    @property
    def _came_later(self) -> bool:
        return self.slots.start >= self._founders

    @property
    def slots(self) -> range:
        """The slots of the caller's group."""
        return next(member.slots for member in self._members if member.name == self._own)

    @property
    def founders(self) -> int:
        """With how many ranks the job began."""
        return self._founders

    def has_group(self, name: str) -> bool:
        """Return whether this process knows a group of that name."""
        return any(member.name == name for member in self._members)

    def table(self) -> Membership:
        """Return the groups and rows of all members that this process knows of."""
        table = Membership()
        for member in self._members:
            rows = b"".join(_engine.row_of(slot) for slot in member.slots)
            table.append(member.name, member.has_mpi, rows)
            if len(table) == self._founders:
                table.found()
        return table

    def learn(self, table: Membership) -> None:
        """Take in the groups that have joined since, and let go of what has ended."""
        _engine.bury()
        if len(table.groups) > len(self._members):
            _engine.learn(table.rows)
            self._members = table.groups

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
        """The MPI window, if there is one, and whether it is a road."""
        return self._window.state

    def free(self, collective: bool) -> None:
        """Give back what MPI lent; not `collective` after a loss in the own group."""
        self._window.close(collective)
        if collective:
            self._process.free()


def _limit(most_here: int, heap_size: int | None, settings: Settings, starter: int) -> int:
    """Return the bytes of global memory that a rank may have when `most_here` share a node."""
    chosen = settings.heap_size if heap_size is None else _bytes_of("heap_size", heap_size)
    if chosen is None:
        chosen = _engine.memory_total() // 2 // most_here
    return chosen + starter + _HEAD


def _bytes_of(name: str, size: Any) -> int:
    """Return a number of bytes that a program has given; TypeError, ValueError."""
    try:
        number = int(size.__index__())
    except AttributeError:
        raise TypeError(f"init: {name}={size!r} is not a number of bytes; give an int") from None
    if not 0 <= number <= MOST:
        what = "negative" if number < 0 else "more bytes than any machine has"
        raise ValueError(f"init: {name}={number} is {what}")
    return number


def join_job(
    process: Alone | MpiGroup,
    settings: Settings,
    heap_size: int | None,
    starter_size: int | None,
) -> Job:
    """Make the engine of this process and tell it the other members."""
    try:
        return _join(process, settings, heap_size, starter_size)
    except BaseException as reason:
        _engine.close()
        if isinstance(reason, Exception):  # what fails on one process of the group fails on all
            process.free()
        raise


def _join(
    process: Alone | MpiGroup,
    settings: Settings,
    heap_size: int | None,
    starter_size: int | None,
) -> Job:
    place: Meeting = process.from_first(lambda: rendezvous_point.find(settings, process.size))
    node = host.node_key(settings.node, settings.path in APART)
    host_key = host.host_key()
    company = process.company(node, host_key, settings.links)
    needless = settings.parent is not None and company.nodes == 1 and settings.path != "window"
    window_size, no_window = window.size_wanted(process.has_mpi, settings.window_size, needless)
    starter, failed, part = settings.starter_size, None, window.NO_PART
    try:
        if settings.links == "encrypt" and not _engine.can_encrypt():
            raise Error(
                "init: ACP_LINKS=encrypt takes OpenSSL, and neither libcrypto.so.3 nor "
                "libcrypto.so.1.1 is there: install the system's OpenSSL (libssl3, openssl-libs) "
                "on each host, or set ACP_LINKS=mac, which protects frames and encrypts nothing"
            )
        if settings.service and process.has_mpi:
            raise Error(
                "init: ACP_SERVICE=1 on a rank of MPI, which the others could not leave out: start "
                "the service without MPI, by macprun or acp.spawn_group(..., mpi=False)"
            )
        if starter_size is not None:
            starter = _bytes_of("starter_size", starter_size)
        limit = _limit(company.most, heap_size, settings, starter)
        if isinstance(window_size, float):
            window_size = int(limit * window_size)
        _engine.create(
            secret=place.secret,
            job=secret.job_id(place.secret),
            node=node,
            memory_limit=limit,
            starter_size=starter,
            host=host_key,
            wide=company.wide or place.wide or bool(settings.interfaces),
            interfaces=host.interfaces_of(settings.interfaces),
            links=LINKS[settings.links],
            links_open=settings.links_open,
            path=PATHS[settings.path],
            ptracer=settings.ptrace,
            service=settings.service,
            peer_timeout=settings.peer_timeout,
            unexpected_max=settings.unexpected_max,
            window_size=window_size,
            window_committed=company.nodes > 1,
        )
        _say_how_few_files(_engine.links()[1])
        if settings.lifeline and (lifeline := host.open_lifeline(*settings.lifeline)) is not None:
            _engine.watch_lifeline(lifeline)
        if not no_window:
            part, no_window = window.part()
    except Exception as error:
        failed = error
    known, agreed = _introduce(process, company, place, failed, not no_window, settings.service)
    # Ranks of other groups share the memory of the node.
    _engine.lower_limit(_limit(_engine.mates(), heap_size, settings, starter))
    slots = next(member.slots for member in known[0] if member.name == place.group)
    refused = window.refusal(process, no_window, agreed)
    made = window.make(process, company.nodes, node, part, refused, settings.path, slots, starter)
    return Job(process, known, place, made, settings.parent, settings.delegate_memory)


def _introduce(
    process: Alone | MpiGroup,
    company: Company | Lone,
    place: Meeting,
    failed: Exception | None,
    willing: bool,
    service: bool,
) -> tuple[Known, tuple[bool, bool]]:
    """Let the engine know the members, and return the groups and how many began the job.

    And whether all processes of the group are willing, and whether none is. `failed`: this one has
    no engine, and no row; then none joins.
    """
    rows = company.gather(bytes(ROW_SIZE) if failed is not None else _engine.row())
    table = Membership()

    def learn() -> Known | int:
        nonlocal table
        without = first_without(rows)
        if without is not None:
            return without
        table = place.join(process.size, process.has_mpi, process.first_rank(), rows)
        return table.groups, table.founders

    learnt: Known | int = process.from_first(learn)
    if isinstance(learnt, int):
        company.fail(failed, learnt)
    members, founders = learnt
    own = next(member for member in members if member.name == place.group)
    count, slot = members[-1].slots.stop, own.slots[process.rank]
    founded = own.offset < founders and not service
    started_together = range(founders) if founded else own.slots
    _engine.set_joined(started_together, founders)  # before a loss can be reported
    return learnt, company.enter(table.rows, count, slot, willing)
