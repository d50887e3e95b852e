"""The module that programs get for `mpi4py.MPI`: all of it, with communicators of ours."""

from __future__ import annotations

import functools
from _thread import allocate_lock
from types import FunctionType, ModuleType

import acp_mpi as acp
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
from acp_mpi.spawn.standin.family import MPI, kinds
from acp_mpi.spawn.standin.p2p.probes import Message
from acp_mpi.spawn.standin.p2p.requests import Prequest, Request
from acp_mpi.spawn.standin.types.groups import Group
from acp_mpi.spawn.standin.types.windows import File, Win

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any


def _refuse(name: str, thing: Any) -> None:
    """Raise NotImplementedError for an object that MPI would take for null."""
    if getattr(thing, "_body", None) is not None or getattr(thing, "_ranks", None) is not None:
        raise NotImplementedError(
            f"{name}: MPI knows nothing of this {type(thing).__name__}, whose ranks are of several "
            "groups, so foreign code cannot use it; docs/spawn.md lists what works"
        )


def _asked(name: str, original: Any) -> Any:
    @functools.wraps(original)
    def ask(thing: Any) -> Any:
        _refuse(name, thing)
        return original(thing)

    return ask


def _dressed(made: Any) -> Any:
    """Return what mpi4py has made of a handle as an object of ours."""
    return kinds.get(type(made).__name__, type(made))(made)


def _making(name: str, original: Any) -> Any:
    @functools.wraps(original)
    def make(cls: Any, *given: Any) -> Any:
        return _dressed(getattr(cls._original, name)(*given))

    return classmethod(make)


def _cover(kind: type, original: type) -> None:
    """Have the methods of a class that give its objects to foreign code refuse those of ours.

    Objects that they make of foreign code's handles are of the class of ours.
    """
    for name in ("f2py", "fromint", "fromhandle"):
        if hasattr(original, name):
            setattr(kind, name, _making(name, getattr(original, name)))
    for name in ("py2f", "toint"):
        if hasattr(original, name):
            setattr(kind, name, _asked(f"{original.__name__}.{name}", getattr(original, name)))
    handle = vars(original)["handle"]

    def read(thing: Any) -> Any:
        _refuse(f"{original.__name__}.handle", thing)
        return handle.__get__(thing)

    setattr(kind, "handle", property(read, doc=handle.__doc__))  # noqa: B010


def _capi() -> dict[str, Any]:
    """Return the functions that mpi4py exports to C code, which make and know objects of ours."""
    from acp_mpi.spawn.standin import _foreign

    return _foreign.replaced(MPI.__pyx_capi__, _dressed, _refuse)


def _functions() -> dict[str, Any]:
    """Return the functions of the module that do the same."""
    names = [name for name in ("_addressof", "_handleof") if hasattr(MPI, name)]
    return {name: _asked(name, getattr(MPI, name)) for name in names}


_NULL: dict[str, Any] = {
    "COMM_NULL": Comm, "GROUP_NULL": Group, "REQUEST_NULL": Request, "MESSAGE_NULL": Message,
    "WIN_NULL": Win, "FILE_NULL": File,
}  # fmt: skip
_PORTS = ("Open_port", "Close_port", "Publish_name", "Unpublish_name", "Lookup_name")
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


def _of_ports(name: str) -> Any:
    """Return a function of ports, which are loaded with the first call: few programs have any."""

    def call(*given: Any, **named: Any) -> Any:
        from acp_mpi.spawn.standin.comm import ports

        return getattr(ports, name.lower())(*given, **named)

    return call


def _explain(thing: Any, original: Any) -> None:
    """Have `help` show the texts of mpi4py, for its users look there."""
    thing = getattr(thing, "__func__", thing)  # of a class method
    if isinstance(thing, FunctionType) and original is not None:  # an older mpi4py has fewer
        thing.__name__, thing.__doc__ = original.__name__, original.__doc__


def _on_demand(name: str) -> Any:
    """Return what only C code asks for."""
    if name != "__pyx_capi__":
        raise AttributeError(f"module {MPI.__name__!r} has no attribute {name!r}")
    return vars(module).setdefault(name, _capi())


def _make() -> ModuleType:
    made = ModuleType(MPI.__name__, MPI.__doc__)
    kinds: tuple[Any, ...] = (
        Comm, Intracomm, Intercomm, Topocomm, Cartcomm, Graphcomm, Distgraphcomm, Group, Request,
        Prequest, Message, Win, File,
    )  # fmt: skip
    for kind in (Group, Request, Message, Win, File):  # a communicator's body says that itself
        _cover(kind, kind._original)
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
        **{name: _of_ports(name) for name in _PORTS},
        "_commctx_intra": _commctx_intra,
        "_commctx_inter": _commctx_inter,
        "_comm_lock": _comm_lock,
        "_comm_lock_table": _comm_lock_table,
        **_functions(),
    }
    for name, thing in replaced.items():
        _explain(thing, getattr(MPI, name, None))
    vars(made).update({**vars(MPI), **replaced})
    del made.__pyx_capi__
    made.__getattr__ = _on_demand  # type: ignore[method-assign]
    return made


module = _make()
_join_the_job()
