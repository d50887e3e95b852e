"""The module that programs get for `mpi4py.MPI`: all of it, with communicators of ours."""

from __future__ import annotations

from _thread import allocate_lock
from types import FunctionType, ModuleType

import acp_mpi as acp
from acp_mpi.spawn.standin import handles
from acp_mpi.spawn.standin.comm import names, ports
from acp_mpi.spawn.standin.comm.communicators import (
    Cartcomm,
    Comm,
    Distgraphcomm,
    Graphcomm,
    Intercomm,
    Intracomm,
    Topocomm,
    ours,
)
from acp_mpi.spawn.standin.original import MPI
from acp_mpi.spawn.standin.p2p.messages import Message
from acp_mpi.spawn.standin.p2p.prequests import Prequest
from acp_mpi.spawn.standin.p2p.requests import Request
from acp_mpi.spawn.standin.types.groups import Group
from acp_mpi.spawn.standin.types.windows import File, Win

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any

_NULL: dict[str, Any] = {
    "COMM_NULL": Comm, "GROUP_NULL": Group, "REQUEST_NULL": Request, "MESSAGE_NULL": Message,
    "WIN_NULL": Win, "FILE_NULL": File,
}  # fmt: skip
_PKL5 = 0  # the tag that pkl5 uses on a communicator that is for nothing else


def _commctx_intra(comm: Any) -> tuple[Any, ...]:
    """Return what `mpi4py.util.pkl5` asks for: a communicator of its own, and a tag."""
    body = getattr(comm, "_body", None)
    if body is not None:
        return body.inner().shown(), _PKL5
    inner, *rest = MPI._commctx_intra(comm)
    return ours(inner), *rest


def _commctx_inter(comm: Any) -> tuple[Any, ...]:
    """Return a communicator, a tag, one of the local group, and whether that is the low one."""
    body = getattr(comm, "_body", None)
    if body is not None:
        return body.inner().shown(), _PKL5, body.inside().shown(), body.low
    inner, tag, local, low = MPI._commctx_inter(comm)
    return ours(inner), tag, ours(local), low


def _comm_lock_table(comm: Any) -> dict[Hashable, Any]:
    """Return the locks of a communicator."""
    body = getattr(comm, "_body", None)
    table: dict[Hashable, Any] = MPI._comm_lock_table(comm) if body is None else body.locks
    return table


def _comm_lock(comm: Any, key: Hashable | None = None) -> Any:
    """Return a lock of a communicator."""
    if getattr(comm, "_body", None) is None:
        return MPI._comm_lock(comm, key)
    return comm._body.locks.setdefault(key, allocate_lock())


def _join_the_job() -> None:
    """Start acp_mpi: collective over COMM_WORLD, as the start of MPI itself."""
    if MPI.Is_initialized() and not MPI.Is_finalized():
        acp.init()


def _init() -> None:
    """Initialise MPI, and acp_mpi with it."""
    MPI.Init()
    _join_the_job()


def _init_thread(required: int = MPI.THREAD_MULTIPLE) -> int:
    """Initialise MPI, and acp_mpi with it."""
    provided = int(MPI.Init_thread(required))
    _join_the_job()
    return provided


def _explain(thing: Any, original: Any) -> None:
    """Let `help` say what mpi4py says, whose users look there."""
    thing = getattr(thing, "__func__", thing)  # of a class method
    if isinstance(thing, FunctionType) and original is not None:  # an older mpi4py has fewer
        thing.__name__, thing.__doc__ = original.__name__, original.__doc__


def _on_demand(name: str) -> Any:
    """Return what only C code asks for."""
    if name != "__pyx_capi__":
        raise AttributeError(f"module {MPI.__name__!r} has no attribute {name!r}")
    return vars(module).setdefault(name, handles.capi())


def _make() -> ModuleType:
    made = ModuleType(MPI.__name__, MPI.__doc__)
    kinds: tuple[Any, ...] = (
        Comm, Intracomm, Intercomm, Topocomm, Cartcomm, Graphcomm, Distgraphcomm, Group, Request,
        Prequest, Message, Win, File,
    )  # fmt: skip
    for kind in (Group, Request, Message, Win, File):  # a communicator's body says that itself
        handles.cover(kind, kind._original)
    for kind in kinds:
        kind.__doc__ = kind._original.__doc__
        for name, thing in vars(kind).items():
            if not name.startswith("_"):
                _explain(thing, getattr(kind._original, name, None))
    replaced: dict[str, Any] = {
        **{kind.__name__: kind for kind in kinds},
        **{name: Intracomm(getattr(MPI, name)) for name in ("COMM_WORLD", "COMM_SELF")},
        **{name: kind(getattr(MPI, name)) for name, kind in _NULL.items()},
        "Init": _init,
        "Init_thread": _init_thread,
        "Open_port": ports.open_port,
        "Close_port": ports.close_port,
        "Publish_name": names.publish,
        "Unpublish_name": names.unpublish,
        "Lookup_name": names.lookup,
        "_commctx_intra": _commctx_intra,
        "_commctx_inter": _commctx_inter,
        "_comm_lock": _comm_lock,
        "_comm_lock_table": _comm_lock_table,
        **handles.functions(),
    }
    for name, thing in replaced.items():
        _explain(thing, getattr(MPI, name, None))
    vars(made).update({**vars(MPI), **replaced})
    del made.__pyx_capi__
    made.__getattr__ = _on_demand  # type: ignore[method-assign]
    return made


module = _make()
_join_the_job()
