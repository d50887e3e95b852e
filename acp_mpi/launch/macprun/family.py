"""A process and its descendants: named, adopted when they lose their parent, signalled, ended."""

from __future__ import annotations

import os
import time

from acp_mpi.launch.macprun.leavings import Leavings
from acp_mpi.util import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Container
else:
    import _signal as signal  # what signal makes of it takes time to load
_GRACE = 1.0  # s for launchers to end what they started elsewhere


def rename(title: bytes) -> None:
    """Show this process under another name, also to commands that kill by name."""
    with open("/proc/self/comm", "wb") as name:
        name.write(title[:15])
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # of the command line in this process's memory
    memory = os.open("/proc/self/mem", os.O_WRONLY)
    os.pwrite(memory, title[: end - start - 1].ljust(end - start, b"\0"), start)
    os.close(memory)


def kill_family(grace: float = 0.0) -> None:
    """End all descendants of this process: asked politely first if there is a `grace` in s."""
    deadline = time.monotonic() + grace
    if grace:
        signal_family(signal.SIGTERM)
    while _reap():
        if time.monotonic() >= deadline:
            signal_family(signal.SIGKILL)
        time.sleep(0.005)


def clear_away(patient: bool = False) -> None:
    """End all descendants, and what MPI has left of them; `patient`: launchers end theirs first."""
    leavings = Leavings(os.environ)
    if _reap():
        leavings.look(processes.family(os.getpid()))
        kill_family(_GRACE if patient else 0.0)
    leavings.look_at_notes()
    leavings.remove()


def signal_family(number: int) -> None:
    """Send a signal to all descendants of this process."""
    for pid in processes.family(os.getpid()):
        if pid != os.getpid():
            _signal(pid, number)


def end_orphans(started: Container[int], variable: str) -> None:
    """End what a launcher has left to us when it was killed: its ranks have that variable."""
    for pid in processes.children().get(os.getpid(), ()):
        if pid not in started and variable in _environment(pid):
            for one in list(processes.family(pid)):
                _signal(one, signal.SIGKILL)


def signal_orphans(started: Container[int], number: int) -> None:
    """Send a signal to processes without their parent: their launcher may have lost its helper."""
    for pid in processes.children().get(os.getpid(), ()):
        if pid not in started:
            for one in list(processes.family(pid)):
                _signal(one, number)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # it has ended, or is another user's
        pass


def _environment(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/environ", errors="replace") as file:
            return file.read().split("\0")
    except OSError:
        return []


def _reap() -> bool:
    """Collect the dead; return whether there are living descendants."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
