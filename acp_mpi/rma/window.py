"""The MPI window over the window parts of a group's ranks, and whether it is a road.

Made at `init`, locked for its whole life. Put and get between nodes take it if a put is there when
its flush has returned although nobody calls MPI at the target; else they take links.
"""

from __future__ import annotations

from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.util import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, TypeAlias

    # Address, size, place of the test's word, arrays and heap from, to.
    Part: TypeAlias = tuple[int, int, int, int, int, int, int]

_SIZE = 64 << 20
_NOTHING_TO_DO = "nothing to do: ranks of one node share memory and need no window of MPI"
NO_PART = 0, 0, 0, 0, 0, 0, 0
REMEDY = 'set mpi4py.rc.thread_level = "multiple" before the first import of mpi4py.MPI'


class Window:
    """The window of the caller's group; `win` is the mpi4py object, or None; `state` says why."""

    latest: ClassVar[Window | None] = None  # of this process

    def __init__(self, state: str, win: Any = None) -> None:
        self.state = state
        self.win = win
        self._comm: Any = None
        Window.latest = self

    def attach(self, process: Any, slots: range, own: list[int]) -> str:
        """Tell the engine how to call MPI on it; return why that cannot be. Collective.

        `own`: in the own window part the end of starter memory, begin and end of its arrays and of
        its heap.
        """
        from mpi4py import MPI

        self._comm = process.comm.Dup()  # private: nothing is ever sent on it
        starters, arrays, array_ends, heaps, ends = zip(*process.exchange(own), strict=True)
        why_not = ""
        try:
            _engine.window_attach(
                user=MPI.__file__,
                window=MPI._handleof(self.win),
                comm=MPI._handleof(self._comm),
                byte=MPI._handleof(MPI.BYTE),
                word4=MPI._handleof(MPI.UINT32_T),
                word8=MPI._handleof(MPI.UINT64_T),
                any_source=MPI.ANY_SOURCE,
                any_tag=MPI.ANY_TAG,
                first_slot=slots[0],
                count=len(slots),
                starter_end=min(starters),
                arrays_begin=max(arrays),
                arrays_end=min(array_ends),
                heap_begin=max(heaps),
                heap_end=min(ends),
            )
        except LookupError as error:
            why_not = f"the engine cannot use it: {error}"
        return _agreed(process, why_not)

    def close(self, collective: bool) -> None:
        """End the engine's use of it and free it; not `collective` after a loss: MPI keeps it."""
        if self.win is None:
            return
        _engine.window_close(keep=not collective)
        from mpi4py import MPI

        if collective and not MPI.Is_finalized():
            self.win.Unlock_all()
            self.win.Free()
            if self._comm is not None:
                self._comm.Free()
        self.win = None


def need(function: str) -> None:
    """Raise Error if this process is in a job, and its group has no window."""
    latest = Window.latest
    if _engine.is_open() and latest is not None and latest.win is None:
        raise Error(
            f"{function}: window=True, but there is no MPI window ({latest.state}); leave window= "
            "out where arrays may lie elsewhere"
        )


def size_wanted(has_mpi: bool, size: int | float | None, needless: bool) -> tuple[int | float, str]:
    """Return the size of this process's window part, or its share of memory, and if it is 0, why.

    `needless`: the window is not a road here, and a program of mpi4py that was spawned as it is
    does not use it. Making it is a quarter of the time that 32 processes take to join.
    """
    if not has_mpi:
        return 0, "none: this process has no MPI"
    if size is None and needless:
        return 0, "none: Spawn started this group on one node; ACP_WINDOW_SIZE gives it one"
    if size == 0:
        return 0, "none: ACP_WINDOW_SIZE=0"
    level = too_low_a_level()
    if level:
        return 0, (
            f"none: MPI was started with thread level {level}, the window needs MULTIPLE; {REMEDY}"
        )
    return _SIZE if size is None else size, ""


def too_low_a_level() -> str:
    """Return the name of MPI's thread level if it does not let any thread call MPI, else ""."""
    from mpi4py import MPI

    names = {
        MPI.THREAD_SINGLE: "SINGLE",
        MPI.THREAD_FUNNELED: "FUNNELED",
        MPI.THREAD_SERIALIZED: "SERIALIZED",
    }
    return names.get(MPI.Query_thread(), "")


def part() -> tuple[Part, str]:
    """Return where the window part of this process is, or why it has none."""
    try:
        return _engine.window_part(), ""
    except Error as error:
        return NO_PART, f"none: {error}"


def make(
    process: Any,
    nodes: int,
    node: int,
    part: Part,
    refused: str,
    path: str,
    slots: range,
    starter_size: int,
) -> Window:
    """Make the window of the caller's group. Collective over the group.

    `process` speaks for the caller in it, which is on `node`, one of `nodes`; `slots` are those of
    its members in MPI order; `refused` is what `refusal` said. Links do what the window cannot;
    a warning says so where it could have been a road. Where it could not, MPI may have printed
    errors of its own, and a warning says that they do not matter.
    """
    if not process.has_mpi:
        return Window(refused)
    wanted = path == "window" or (path == "" and nodes > 1)
    address, size, probe, *ranges = part
    if refused:
        if wanted and process.rank == 0 and "ACP_WINDOW_SIZE=0" not in refused:
            log.warning("rma.window", "links only between nodes, MPI window %s", refused)
        return Window(refused)
    window, why_not = _create(process, address, size)
    if wanted and not why_not:
        why_not = window.attach(process, slots, [min(size, starter_size), *ranges])
        window.state = why_not or window.state
    if why_not:
        if process.rank == 0:
            lost = "links only between nodes" if wanted else _NOTHING_TO_DO
            log.warning("rma.window", "%s, MPI window %s", lost, why_not)
        return window
    if wanted:
        from acp_mpi.rma import window_test

        places = process.exchange(node)
        failed = window_test.run(process, places, slots, probe) if nodes > 1 else ""
        if failed:
            window.state += f", self-test failed: {failed}"
        if path == "window" or not failed:
            _engine.window_open(reads_back=window_test.EARLY in failed)
            window.state += "; road for put and get"
            window.state += " between all ranks (ACP_PATH)" if path else " between nodes"
        else:
            window.state += "; links only"
    return window


def refusal(process: Any, why_not: str, agreed: tuple[bool, bool]) -> str:
    """Return "" if no process has a reason against the window, else the own, or the first's.

    `agreed`: none has, and all have. Collective if they differ.
    """
    return why_not if any(agreed) else str(next(filter(None, process.exchange(why_not))))


def _agreed(process: Any, why_not: str) -> str:
    """Return "" if no process has a reason, else the own, or that of the first. Collective."""
    refusals = process.total(bool(why_not))
    return refusal(process, why_not, (refusals == 0, refusals == process.size))


def _create(process: Any, address: int, size: int) -> tuple[Window, str]:
    from mpi4py import MPI

    win, why_not = None, ""
    process.assemble()
    try:
        memory = MPI.buffer.fromaddress(address, size)
        if "Open MPI" in MPI.Get_library_version():
            from acp_mpi.rma import openmpi

            win = openmpi.make_window(memory, process.comm)
        else:
            win = MPI.Win.Create(memory, 1, comm=process.comm)
        win.Set_errhandler(MPI.ERRORS_RETURN)
        win.Lock_all()
    except MPI.Exception as error:
        why_not = f"none: MPI could not make it: {error}"
    why_not = _agreed(process, why_not)
    return Window(why_not or f"{size / 2**20:.1f} MiB a rank", win), why_not
