"""Two processes that watch each other: when one is gone, the other ends all that was started."""

import contextlib
import ctypes
import os
import signal
import time
import traceback
from collections.abc import Callable, Container
from pathlib import Path
from types import FrameType
from typing import NoReturn

from acp_mpi import processes

_PASSED_ON = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
_PR_SET_CHILD_SUBREAPER = 36
_GRACE = 1.0  # s for launchers to end what they started elsewhere


def guarded(work: Callable[[int, int], int]) -> int:
    """Run `work` in a child that no terminal and no group of processes reaches; return its status.

    `work(keeper, lifeline)` gets this process and a descriptor at which input ends with it. What
    the child leaves behind when it is killed ends here; when this process is killed, the child is
    to call `kill_family`. Signals are passed on to the child. Both are subreapers: whatever loses
    its parent becomes a child of theirs, so nothing escapes.
    """
    adopt_orphans()
    lifeline, end = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on())
    child = os.fork()
    if not child:
        os.close(end)
        _work(work, lifeline)
    os.close(lifeline)

    def pass_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    catch(pass_on)
    status = _status(child)
    kill_family()
    os.close(end)
    return status


def passed_on() -> list[signal.Signals]:
    """Return the signals that go on to the groups: not those ignored, as SIGHUP under nohup."""
    return [number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]


def catch(handler: Callable[[int, FrameType | None], object]) -> None:
    """Let a handler have the signals that are passed on, and those that waited for it."""
    numbers = passed_on()
    for number in numbers:
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def adopt_orphans() -> None:
    """Become the parent of all descendants that lose theirs."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def kill_family(grace: float = 0.0) -> None:
    """End all descendants of this process: asked politely first if there is a `grace` in s."""
    deadline = time.monotonic() + grace
    if grace:
        signal_family(signal.SIGTERM)
    while _reap():
        if time.monotonic() >= deadline:
            signal_family(signal.SIGKILL)
        time.sleep(0.005)


def end_family() -> None:
    """End all descendants, launchers with time to end theirs on other hosts."""
    kill_family(_GRACE)


def signal_family(number: int) -> None:
    """Send a signal to all descendants of this process."""
    for pid in processes.family(os.getpid()):
        if pid != os.getpid():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def end_orphans(started: Container[int], variable: str) -> None:
    """End what a launcher has left to us when it was killed: its ranks have that variable."""
    for pid in processes.children().get(os.getpid(), ()):
        if pid not in started and variable in _environment(pid):
            for one in list(processes.family(pid)):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(one, signal.SIGKILL)


def exit_status(status: int) -> int:
    """Return what a shell makes of a status of `waitpid`: the exit code, or 128 + the signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _work(work: Callable[[int, int], int], lifeline: int) -> NoReturn:
    status = 1
    try:
        os.setsid()  # Ctrl-C comes through the keeper, and `kill` to its group stops there
        adopt_orphans()
        _rename(b"acp_mpi supervisor of %d" % os.getppid())
        status = work(os.getppid(), lifeline)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _rename(title: bytes) -> None:
    """Show another name than the keeper: who kills by name is to hit only one of the two."""
    Path("/proc/self/comm").write_bytes(title[:15])
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # of the command line in this process's memory
    ctypes.memmove(start, title[: end - start - 1].ljust(end - start, b"\0"), end - start)


def _status(child: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return exit_status(status)


def _environment(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace").split("\0")
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
