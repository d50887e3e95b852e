"""The module that programs get for `mpi4py.MPI`: all of it, with communicators of ours."""

from types import ModuleType
from typing import Any

from acp_mpi.spawn.mpi.communicators import Comm, Intercomm, Intracomm, ours
from acp_mpi.spawn.mpi.original import MPI


def _commctx_intra(comm: Any) -> tuple[Any, ...]:
    """Return what `mpi4py.util.pkl5` asks for: a communicator of its own, and a tag."""
    inner, *rest = MPI._commctx_intra(comm)
    return ours(inner), *rest


def _commctx_inter(comm: Any) -> tuple[Any, ...]:
    """Return a communicator, a tag, one of the local group, and whether that is the low one."""
    inner, tag, local, low = MPI._commctx_inter(comm)
    return ours(inner), tag, ours(local), low


def _make() -> ModuleType:
    made = ModuleType(MPI.__name__, MPI.__doc__)
    names: dict[str, Any] = {
        "Comm": Comm,
        "Intracomm": Intracomm,
        "Intercomm": Intercomm,
        "COMM_WORLD": Intracomm(MPI.COMM_WORLD),
        "COMM_SELF": Intracomm(MPI.COMM_SELF),
        "_commctx_intra": _commctx_intra,
        "_commctx_inter": _commctx_inter,
    }
    vars(made).update({**vars(MPI), **names})
    return made


module = _make()
