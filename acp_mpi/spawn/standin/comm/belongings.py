"""What hangs on a communicator of several groups: attributes, a name, hints, an error handler."""

from __future__ import annotations

from abc import ABC, abstractmethod

from acp_mpi.spawn.standin.comm.attributes import Attributes
from acp_mpi.spawn.standin.original import MPI
from acp_mpi.spawn.standin.p2p.requests import Request
from acp_mpi.spawn.standin.p2p.work import Done
from acp_mpi.spawn.standin.types.errhandlers import Errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn


class Belongings(ABC):
    """What a program gives to a communicator; messages and collectives do not look at it."""

    def __init__(self) -> None:
        self.name = ""
        self.attributes = Attributes(self.shown)
        self.errors = Errors(self.shown, self.Abort)
        self.locks: dict[Any, Any] = {}
        self._hints: dict[str, str] = {}
        self._buffer: Any = None

    @abstractmethod
    def shown(self) -> Any:
        """Return a communicator that this is behind."""

    @abstractmethod
    def Abort(self, errorcode: int = 0) -> NoReturn: ...

    def give_to(self, other: Belongings) -> None:
        """Give a duplicate what it is to have, too."""
        self.attributes.copy_to(other.attributes)
        other._hints = dict(self._hints)

    def Get_attr(self, keyval: int) -> Any:
        return self.attributes.get(keyval)

    def Set_attr(self, keyval: int, attrval: Any) -> None:
        self.attributes.set(keyval, attrval)

    def Delete_attr(self, keyval: int) -> None:
        self.attributes.delete(keyval)

    def Get_name(self) -> str:
        return self.name

    def Set_name(self, name: Any) -> None:
        if isinstance(name, bytes):
            name = name.decode()
        if not isinstance(name, str):
            raise TypeError(f"Set_name: {name!r} is no string")
        self.name = name

    def Get_errhandler(self) -> Any:
        return self.errors.get()

    def Set_errhandler(self, errhandler: Any) -> None:
        self.errors.set(errhandler)

    def Call_errhandler(self, errorcode: int) -> None:
        self.errors.call(errorcode)

    def Get_info(self) -> Any:
        return MPI.Info.Create(self._hints)

    def Set_info(self, info: Any) -> None:
        if info != MPI.INFO_NULL:
            self._hints.update(info.items())

    info = property(Get_info, lambda self, info: self.Set_info(info))

    # Messages do not need the buffers that MPI wants for Bsend.

    def Attach_buffer(self, buf: Any) -> None:
        self._buffer = buf

    def Detach_buffer(self) -> Any:
        buffer, self._buffer = self._buffer, None
        return buffer

    def Flush_buffer(self) -> None:  # noqa: B027
        pass

    def Iflush_buffer(self) -> Any:
        return Request._of(Done())
