"""The MPI window over the window parts of a group's ranks, and whether it is a road.

Made at `init`, locked for its whole life. Put and get between nodes take it if a put is there when
its flush has returned although nobody calls MPI at the target; else they take links.
"""

import contextlib
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from acp_mpi.engine import _engine
from acp_mpi.errors import Error

_log = logging.getLogger("acp_mpi.rma.window")

_FLUSH = 0.1  # seconds that a flush may take if the target need not help
_EARLY = "a put was not there when its flush had returned"
_ARRIVAL = 10.0  # seconds for a put to arrive when the target drives MPI


class Window:
    """The window of the caller's group; `win` is the mpi4py object, or None; `state` says why."""

    def __init__(self, state: str, win: Any = None, comm: Any = None) -> None:
        self.state = state
        self.win = win
        self._comm = comm

    def close(self, collective: bool) -> None:
        """End the engine's use of it and free it; not `collective` after a loss: MPI keeps it."""
        if self.win is None:
            return
        _engine.window_close(keep=not collective)
        from mpi4py import MPI

        if collective and not MPI.Is_finalized():
            self.win.Unlock_all()
            self.win.Free()
            self._comm.Free()
        self.win = None


def size_wanted(has_mpi: bool, size: int) -> tuple[int, str]:
    """Return the size of this process's window part, and if it is 0, why."""
    if not has_mpi:
        return 0, "none: this process has no MPI"
    if size == 0:
        return 0, "none: ACP_WINDOW_SIZE=0"
    from mpi4py import MPI

    level = MPI.Query_thread()
    if level < MPI.THREAD_MULTIPLE:
        name = {
            MPI.THREAD_SINGLE: "SINGLE",
            MPI.THREAD_FUNNELED: "FUNNELED",
            MPI.THREAD_SERIALIZED: "SERIALIZED",
        }[level]
        return 0, (
            f"none: MPI was started with thread level {name}, the window needs MULTIPLE; set "
            'mpi4py.rc.thread_level = "multiple" before the first import of mpi4py.MPI'
        )
    return size, ""


def make(
    process: Any,
    nodes: int,
    node: int,
    why_not: str,
    path: str,
    slots: range,
    starter_size: int,
) -> Window:
    """Make the window of the caller's group. Collective over the group.

    `process` speaks for the caller in it, which is on `node`, one of `nodes`; `slots` are those of
    its members in MPI order; `why_not` is what `size_wanted` said. Links do what the window cannot;
    a warning says so where it could have been a road.
    """
    if not process.has_mpi:
        return Window(why_not)
    wanted = path == "window" or (path == "" and nodes > 1)
    try:
        address, size, probe, *heap = (0, 0, 0, 0, 0) if why_not else _engine.window_part()
    except Error as error:
        address, size, probe, heap, why_not = 0, 0, 0, [0, 0], f"none: {error}"
    refused = _first(process.exchange(why_not))
    if refused:
        if wanted and process.rank == 0 and "ACP_WINDOW_SIZE=0" not in refused:
            _log.warning("links only between nodes, MPI window %s", refused)
        return Window(refused)
    window, why_not = _create(process, address, size, slots, [min(size, starter_size), *heap])
    if why_not:
        if process.rank == 0:
            _log.warning("links only between nodes, MPI window %s", why_not)
        return window
    if wanted:
        failed = _test(process, process.exchange(node), slots, probe) if nodes > 1 else ""
        if failed:
            window.state += f", self-test failed: {failed}"
        if path == "window" or not failed:
            _engine.window_open(reads_back=_EARLY in failed)
            window.state += "; road for put and get"
            window.state += " between all ranks (ACP_PATH)" if path else " between nodes"
        else:
            window.state += "; links only"
    return window


def _first(reasons: Sequence[str]) -> str:
    return next(filter(None, reasons), "")


@contextlib.contextmanager
def _without_false_alarm() -> Iterator[None]:
    """Keep one line off stderr: Open MPI calls it an error that its own UCX finds no network.

    The variable that would silence it (`OMPI_MCA_osc=^ucx`) comes too late once MPI is initialised,
    and would switch the road off where there is a network. All other output follows at the end.
    """
    sys.stderr.flush()
    before, kept = os.dup(2), os.memfd_create("stderr")
    os.dup2(kept, 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        text = os.pread(kept, os.fstat(kept).st_size, 0)
        os.close(before)
        os.close(kept)
        os.write(2, re.sub(rb"[^\n]*osc_ucx_component\.c:[^\n]*query failed *\n *\n?", b"", text))


def _create(
    process: Any, address: int, size: int, slots: range, own: list[int]
) -> tuple[Window, str]:
    """Make the window; `own` are the ends of the own starter memory, begin and end of the heap."""
    from mpi4py import MPI

    comm = process.comm.Dup()  # private: nothing is ever sent on it
    win, why_not = None, ""
    try:
        alarms = "Open MPI" in MPI.Get_library_version()
        with _without_false_alarm() if alarms else contextlib.nullcontext():
            win = MPI.Win.Create(MPI.buffer.fromaddress(address, size), 1, comm=comm)
        win.Set_errhandler(MPI.ERRORS_RETURN)
        win.Lock_all()
    except MPI.Exception as error:
        why_not = f"none: MPI could not make it: {error}"
    said = process.exchange((why_not, own))
    why_not = _first([reason for reason, _ in said])
    starters, begins, ends = zip(*(part for _, part in said), strict=True)
    if not why_not and win is not None:
        try:
            _engine.window_attach(
                user=MPI.__file__,
                window=MPI._handleof(win),
                comm=MPI._handleof(comm),
                byte=MPI._handleof(MPI.BYTE),
                word4=MPI._handleof(MPI.UINT32_T),
                word8=MPI._handleof(MPI.UINT64_T),
                any_source=MPI.ANY_SOURCE,
                any_tag=MPI.ANY_TAG,
                first_slot=slots[0],
                count=len(slots),
                starter_end=min(starters),
                heap_begin=max(begins),
                heap_end=min(ends),
            )
        except LookupError as error:
            why_not = f"the engine cannot use it: {error}"
    why_not = why_not or _first(process.exchange(why_not))
    state = why_not or f"{size / 2**20:.1f} MiB a rank"
    return Window(state, win, comm), why_not


def _test(process: Any, nodes: Sequence[int], slots: range, probe: int) -> str:
    """Return "" if puts between nodes need nobody at the target, else which one did.

    The first rank of each node puts a word to the first of the next one, in rounds: whoever puts
    calls MPI, so it is no target at that time. All others wait without MPI.
    """
    firsts = [nodes.index(node) for node in dict.fromkeys(nodes)]
    ranks = list(slots)  # no reset has permuted them yet
    probes = process.exchange(probe)
    if not all(probes):
        return "the window part is smaller than starter memory and a page"
    count = len(firsts)
    for turn in range(2 + count % 2):
        failed = ""
        _engine.barrier(ranks)
        for place, first in enumerate(firsts):
            alone = count % 2 == 1 and place == count - 1  # its next is the first: a third round
            if first == process.rank and turn == (2 if alone else place % 2):
                target = firsts[(place + 1) % count]
                failed = _try(ranks[target], probes[target])
                if failed:
                    failed += f", rank {ranks[first]} to rank {ranks[target]}"
        _engine.barrier(ranks)
        failed = _first(process.exchange(failed))
        if failed:
            return failed
    return ""


def _try(target: int, place: int) -> str:
    """Put a fresh word to `target` and look for it by link; leave the word zero again."""
    ga = _engine.query_starter_ga(target) + place
    value = int.from_bytes(os.urandom(8), "little") | 1
    errors: list[Exception] = []

    def put() -> None:
        try:
            _engine.window_put(target, place, value)
        except Error as error:
            errors.append(error)

    def there() -> bool:
        word = bytearray(8)
        _engine.get(ga, word)
        return int.from_bytes(word, "little") == value

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    thread.join(_FLUSH)
    reason = ""
    if errors:
        return str(errors[0])
    if thread.is_alive():
        reason = "a flush waited for MPI calls at its target"
    elif not there():
        reason = _EARLY
    if reason:  # what is still on its way must not arrive later
        _engine.window_visit(target, True)
        _until(lambda: not thread.is_alive() and there())
        _engine.window_visit(target, False)
    _engine.put(ga, bytes(8))
    return reason


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _ARRIVAL
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
