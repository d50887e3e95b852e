"""Programs without acp_mpi, which cannot join: MPI itself spawns them."""

from __future__ import annotations

import os
import sys

from acp_mpi.errors import Error
from acp_mpi.launch.macprun import hints
from acp_mpi.spawn.standin.family import MPI
from acp_mpi.util import host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEY = "acp_mpi"  # of Info: "on" or "off"
_ELF = b"\x7fELF"
# Signs of a program that is linked with the library of Python, or is an interpreter itself.
_PYTHON = (b"libpython", b"Py_BytesMain", b"Py_RunMain", b"libpypy")
_MPI = (b"MPI_Init", b"mpi_init", b"libmpi")


def only_knows_mpi(word: str, path: str | None, folder: str) -> bool:
    """Return whether a command is a compiled program that calls MPI and is not a Python.

    Others, such as `sh` or `numactl`, may become a Python.
    """
    if os.path.basename(word).startswith("python"):
        return False
    import mmap  # these take time to load
    import shutil

    found = os.path.join(folder, word) if "/" in word else shutil.which(word, path=path)
    try:
        with open(found or "", "rb") as file:
            if file.read(len(_ELF)) != _ELF:
                return False
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                knows = [any(data.find(sign) >= 0 for sign in signs) for signs in (_PYTHON, _MPI)]
    except (OSError, ValueError):  # not there, or none that can be read: its start says so
        return False
    return knows == [False, True]


def check(comm: Any) -> None:
    """Raise Error if MPI cannot spawn on a communicator, or could not reach what it has spawned."""
    if getattr(comm, "_body", None) is not None:
        raise Error(
            "Spawn: MPI knows nothing of this communicator, whose ranks are of several groups; a "
            "child of such ranks must be a Python with acp_mpi: spawn a compiled program on a "
            "communicator of one group, as COMM_WORLD or COMM_SELF"
        )
    if "Open MPI" in MPI.Get_library_version() and hints.is_hint("OMPI_MCA_btl", os.environ):
        raise Error(
            "Spawn: Open MPI reaches what it spawns by TCP only, and what has started this group "
            "has switched that off; a child must be a Python with acp_mpi, or start this job with "
            "OMPI_MCA_btl=self,sm,tcp in its environment"
        )
    import shutil

    if not _has_launcher() and shutil.which("mpiexec", path=_path()) is None:
        raise Error(
            "Spawn: MPI starts an mpiexec for what it spawns, and there is none in PATH; a child "
            "must be a Python with acp_mpi, or name the folder of mpiexec in PATH"
        )


def spawn(
    comm: Any, several: bool, command: Any, args: Any, maxprocs: Any, info: Any, *more: Any
) -> Any:
    """Have MPI spawn programs; return the communicator with them, which is MPI's. Collective."""
    if several and command is not None and not hasattr(maxprocs, "__len__"):  # mpi4py wants a list
        maxprocs = [1 if maxprocs is None else maxprocs] * len(command)
    by_mpi = MPI.Intracomm.Spawn_multiple if several else MPI.Intracomm.Spawn
    path, lent = os.environ.get("PATH"), host.taken_from_environment()
    if not _has_launcher():
        os.environ["PATH"] = _path()
    os.environ.update(lent)
    try:
        return by_mpi(comm, command, args, maxprocs, info, *more)
    except MPI.Exception as error:
        error.add_note(
            "Spawn: this is MPI's own, for a child that is not a Python with acp_mpi; some MPIs "
            "can do it only in a program that was started by mpiexec"
        )
        raise
    finally:
        for name in lent:
            os.environ.pop(name, None)
        if path is not None:
            os.environ["PATH"] = path


def _has_launcher() -> bool:
    """Return whether this process was started by an MPI launcher, which MPI asks to spawn."""
    return host.launched_by_mpi(os.environ)


def _path() -> str:
    """Return where to look for a launcher: beside this Python first, as for children that join."""
    return f"{os.path.dirname(sys.executable)}:{os.environ.get('PATH', os.defpath)}"
