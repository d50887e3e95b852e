"""What foreign code asks of mpi4py's objects: of ours, of which MPI knows nothing, it gets none."""

from __future__ import annotations

import functools

from acp_mpi.spawn.standin.family import kinds
from acp_mpi.spawn.standin.original import MPI

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def refuse(name: str, thing: Any) -> None:
    """Raise NotImplementedError for an object that MPI would take for null."""
    if getattr(thing, "_body", None) is not None or getattr(thing, "_ranks", None) is not None:
        raise NotImplementedError(
            f"{name}: MPI knows nothing of this {type(thing).__name__}, whose ranks are of several "
            "groups, so foreign code cannot use it; docs/spawn.md lists what works"
        )


def _asked(name: str, original: Any) -> Any:
    @functools.wraps(original)
    def ask(thing: Any) -> Any:
        refuse(name, thing)
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


def cover(kind: type, original: type) -> None:
    """Have the methods of a class that give its objects to foreign code refuse those of ours.

    What they make of foreign code's handles is of the class of ours.
    """
    for name in ("f2py", "fromint", "fromhandle"):
        if hasattr(original, name):
            setattr(kind, name, _making(name, getattr(original, name)))
    for name in ("py2f", "toint"):
        if hasattr(original, name):
            setattr(kind, name, _asked(f"{original.__name__}.{name}", getattr(original, name)))
    handle = vars(original)["handle"]

    def read(thing: Any) -> Any:
        refuse(f"{original.__name__}.handle", thing)
        return handle.__get__(thing)

    setattr(kind, "handle", property(read, doc=handle.__doc__))  # noqa: B010


def capi() -> dict[str, Any]:
    """Return the functions that mpi4py exports to C code, which make and know objects of ours."""
    from acp_mpi.spawn.standin import _foreign

    return _foreign.replaced(MPI.__pyx_capi__, _dressed, refuse)


def functions() -> dict[str, Any]:
    """Return the functions of the module that do the same."""
    names = [name for name in ("_addressof", "_handleof") if hasattr(MPI, name)]
    return {name: _asked(name, getattr(MPI, name)) for name in names}
