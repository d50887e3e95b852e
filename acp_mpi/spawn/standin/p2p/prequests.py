"""Requests that start again: mpi4py's, and those of communicators of several groups."""

from __future__ import annotations

import functools

from acp_mpi.spawn.standin.original import MPI
from acp_mpi.spawn.standin.p2p.requests import Request
from acp_mpi.spawn.standin.p2p.several import any_ours, body_of
from acp_mpi.spawn.standin.p2p.work import Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, Self


class Prequest(Request, MPI.Prequest):  # type: ignore[misc]
    """mpi4py's persistent request, or one of a communicator of several groups."""

    __module__ = MPI.__name__
    _original: ClassVar[Any] = MPI.Prequest

    @classmethod
    def _of(cls, again: Callable[[], Work]) -> Self:  # type: ignore[override]
        return super()._of(None, again)

    def Start(self) -> None:
        """Start the operation once more."""
        body = body_of(self)
        if body is None:
            MPI.Prequest.Start(self)
            return
        if body.work is not None:
            raise MPI.Exception(MPI.ERR_REQUEST)
        body.work = body.again()

    @classmethod
    def Startall(cls, requests: list[Any]) -> None:
        """Start all of them."""
        if not any_ours(requests):
            MPI.Prequest.Startall(requests)
            return
        for request in requests:
            Prequest.Start(request)


def _of_parts(name: str) -> Any:
    """Return a method for a request whose buffer has partitions, which none of ours has."""
    original = getattr(MPI.Prequest, name)

    @functools.wraps(original)
    def method(self: Any, *given: Any, **named: Any) -> Any:
        if body_of(self) is None:
            return original(self, *given, **named)
        error = MPI.Exception(MPI.ERR_REQUEST)
        error.add_note(
            f"{name}: the request has no partitions, as none on a communicator of several groups; "
            "start it, or make one by Psend_init or Precv_init on a communicator of one group"
        )
        raise error

    return method


for _name in ("Pready", "Pready_range", "Pready_list", "Parrived"):
    setattr(Prequest, _name, _of_parts(_name))
