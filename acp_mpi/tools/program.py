"""A Python program that is named on a command line: whether it is there, and its run."""

import os
import runpy
import signal
import sys
from collections.abc import Sequence

from acp_mpi.util import _system, processes

_HYDRA = "PMI_FD"  # in the environment of its ranks


def refusal(path: str) -> str:
    """Return why nothing can be run at a path, and what to give; "" if something can."""
    if not os.path.exists(path):
        return f"there is no program {path!r} here; give the path of one"
    if os.path.isdir(path) and not os.path.exists(os.path.join(path, "__main__.py")):
        return f"{path!r} is a folder without a __main__.py; give the path of a program"
    if not os.access(path, os.R_OK):
        return f"the program {path!r} cannot be read; give one that you may read"
    return ""


def run(path: str, arguments: Sequence[str]) -> None:
    """Run a program as `__main__`, as Python itself does."""
    sys.argv = [path, *arguments]
    if not sys.flags.safe_path:  # as Python does for `python app.py`
        sys.path[0] = os.path.dirname(os.path.abspath(path))
    runpy.run_path(path, run_name="__main__")


def shelter() -> None:
    """Go on in a child if Hydra has started this process, which ends with the child's exit code.

    MPICH's launcher kills a whole group of which it sees a rank killed by a signal, also where
    `-disable-auto-cleanup` says that the others may go on. An exit code is not a signal.
    """
    if _HYDRA not in os.environ:
        return
    parent = os.getpid()
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the child's
        status = os.waitpid(child, 0)[1]
        os._exit(processes.outcome(os.waitstatus_to_exitcode(status))[0])
    _system.end_with(parent)
    _system.survive(signal.SIGUSR1)  # how Hydra tells of a loss, maybe before MPI expects it
