"""The processes of this host: when one began, its descendants, how one ended.

Its entry in /proc is read as bytes: a name need not be text, and is cut after 15 of them.
"""

from __future__ import annotations

import _thread  # what threading makes of it takes time to load
import errno
import os
import select

from acp_mpi.util import _system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


_LOOK_MS = 500


def end_of(pid: int) -> int:
    """Return a descriptor that is readable once a process has ended, waited for or not.

    Before Linux 5.3 a thread looks twice a second. ProcessLookupError: the process does not exist.
    """
    try:
        return _system.pidfd_open(pid)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    try:
        began = start_time(pid)
    except FileNotFoundError:
        raise ProcessLookupError(errno.ESRCH, "there is no such process", pid) from None
    shown, held = os.pipe()
    _thread.start_new_thread(_look, (held, pid, began))
    return shown


def _look(held: int, pid: int, began: int) -> None:
    """Write to the descriptor when the process has ended; stop when its reader has gone.

    To close it would not do: a process that was forked meanwhile may hold it, too. Nothing is
    imported here: that process would find the lock of a module taken.
    """
    reader = select.poll()
    reader.register(held, 0)
    while _runs(pid, began):
        if reader.poll(_LOOK_MS):
            break
    else:
        os.write(held, b"!")
    os.close(held)


def _runs(pid: int, began: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, *_, start = file.read().rpartition(b")")[2].split()[:20]
    except OSError:
        return False
    return state not in b"ZX" and int(start) == began


def start_time(pid: int) -> int:
    """Return when a process began, in clock ticks after the boot."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[19])


def children() -> dict[int, list[int]]:
    """Return the children of all processes that have any."""
    found: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:  # it has ended
            continue
        found.setdefault(parent, []).append(int(name))
    return found


def family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, the nearest first."""
    generation, parents = [pid], children()
    while generation:
        yield from generation
        generation = [child for one in generation for child in parents.get(one, [])]


def outcome(code: int) -> tuple[int, str]:
    """Return the exit code as a shell has it, and in words, of what Popen calls it."""
    if code >= 0:
        return code, f"exit code {code}"
    import signal  # takes time to load

    try:
        name = signal.Signals(-code).name
    except ValueError:  # a real-time signal
        name = f"signal {-code}"
    return 128 - code, f"killed by {name}"
