"""Collectives under way: generators of those of `acp_mpi.comm.collectives`, carried out."""

from __future__ import annotations

from acp_mpi.comm.collectives.counted import carried_out
from acp_mpi.comm.collectives.request import CollectiveRequest
from acp_mpi.spawn.standin.p2p.work import Attended, Patience, finish, look_at_mpi

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Any, TypeAlias

    from acp_mpi.engine import _engine

    Flow: TypeAlias = Generator[_engine.Collective, None, Any]


class Running(Attended):
    """One that goes on by itself; what Python must do of it is done when this process waits."""

    def __init__(self, flow: Flow) -> None:
        self._request = CollectiveRequest(flow)
        super().__init__()

    def _advance(self) -> bool:
        try:
            if not self._request.test():
                return False
            self.result = self._request.wait()
        except BaseException as error:  # of Ctrl-C, too: it cannot be taken up again
            self.error = error
            self._end_if(True)
            raise
        return True

    def pending(self) -> Iterator[Any]:
        """Return what it waits for."""
        return iter(() if self._over else (self._request,))


def carry_out(flow: Flow) -> Any:
    """Carry one out in this thread, which is faster; return its result."""
    if Attended.any():  # they are to go on meanwhile
        return finish(Running(flow))
    patience = Patience()

    def run(current: _engine.Collective) -> None:
        while not current.run_for(patience.seconds()):
            for _ in Attended.drive():  # another thread's
                pass
            look_at_mpi()

    return carried_out(flow, run)
