"""Two processes that watch each other: when one is gone, the other ends all that was started."""

import contextlib
import os
import signal
import traceback
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from acp_mpi.launch.macprun import family, leavings
from acp_mpi.util import _system

_PASSED_ON = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip


def guarded(work: Callable[[int, int], int]) -> int:
    """Run `work` in a child that no terminal and no group of processes reaches; return its status.

    `work(keeper, lifeline)` gets this process and a descriptor at which input ends with it. What
    the child leaves behind when it is killed ends here; when this process is killed, the child is
    to call `family.clear_away`. Signals are passed on to the child. Both are subreapers: whatever
    loses its parent becomes a child of theirs, so nothing escapes. When both are gone the ranks on
    this host end by themselves: ACP_LIFELINE is a pipe to which nobody else can write.
    """
    _system.adopt_orphans()
    _hear_of_the_dead()
    leavings.note_for_another()
    lifeline, end = os.pipe()
    of_ranks, _ = os.pipe()  # both ends are open as long as one of the two lives
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on())
    child = os.fork()
    if not child:
        os.close(end)
        os.environ["ACP_LIFELINE"] = f"{os.getpid()}:{of_ranks}:{os.fstat(of_ranks).st_ino}"
        _work(work, lifeline)
    os.close(lifeline)

    def pass_on(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)

    catch(pass_on)
    status = _status(child)
    family.clear_away()
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


def _hear_of_the_dead() -> None:
    """Undo settings that the parent may have left: the dead are not to vanish unseen."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])


def exit_status(status: int) -> int:
    """Return what a shell makes of a status of `waitpid`: the exit code, or 128 + the signal."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _work(work: Callable[[int, int], int], lifeline: int) -> NoReturn:
    status = 1
    try:
        os.setsid()  # Ctrl-C comes through the keeper, and `kill` to its group stops there
        _system.adopt_orphans()
        family.rename(b"acp_mpi supervisor of %d" % os.getppid())
        status = work(os.getppid(), lifeline)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _status(child: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return exit_status(status)
