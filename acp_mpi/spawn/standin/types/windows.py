"""Windows and files, which MPI makes for communicators of its own only."""

from __future__ import annotations

from acp_mpi.spawn.standin.family import MPI, Family, new, reduced
from acp_mpi.spawn.standin.types.groups import Group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Self


def _refuse(name: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    for thing in (*given, *named.values()):
        body = getattr(thing, "_body", None)
        if body is not None and isinstance(thing, MPI.Comm):
            getattr(body, name)  # which says why not, and what to do


class Win(MPI.Win, metaclass=Family):  # type: ignore[misc]
    """mpi4py's window."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Win

    def __new__(cls, win: Any = None) -> Self:
        """Return a copy that names the same window."""
        made: Self = new(cls, win)
        return made

    def __reduce__(self) -> Any:
        return reduced(self, "WIN_NULL") or super().__reduce__()

    def Get_group(self) -> Any:
        """Return the processes of the window."""
        return Group(MPI.Win.Get_group(self))

    group = property(Get_group)


class File(MPI.File, metaclass=Family):  # type: ignore[misc]
    """mpi4py's file."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.File

    def __new__(cls, file: Any = None) -> Self:
        """Return a copy that names the same file."""
        made: Self = new(cls, file)
        return made

    def __reduce__(self) -> Any:
        return reduced(self, "FILE_NULL") or super().__reduce__()

    def Get_group(self) -> Any:
        """Return the processes that have opened the file."""
        return Group(MPI.File.Get_group(self))

    group = property(Get_group)


def _maker(kind: type, original: type, name: str) -> None:
    def make(cls: type, *given: Any, **named: Any) -> Any:
        _refuse(f"{original.__name__}.{name}", given, named)
        return getattr(original, name).__func__(cls, *given, **named)

    make.__doc__ = getattr(original, name).__doc__
    setattr(kind, name, classmethod(make))


for _name in ("Create", "Allocate", "Allocate_shared", "Create_dynamic"):
    _maker(Win, MPI.Win, _name)
_maker(File, MPI.File, "Open")
