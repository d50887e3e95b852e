"""What ranks say to each other before there is a communicator; the one with the parents."""

from __future__ import annotations

import _thread

from acp_mpi.engine import _engine
from acp_mpi.job import membership
from acp_mpi.spawn.standin.comm.intercommunicators import connected
from acp_mpi.spawn.standin.comm.ranks import derived
from acp_mpi.spawn.standin.original import MPI
from acp_mpi.spawn.standin.p2p import transport
from acp_mpi.spawn.standin.p2p.work import Patience, Receiving, outcome, pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PARENT = "ACP_PARENT"
NEWS = derived(0, "spawn")  # the context in which children hear who their parents are
_NOBODY = _engine.Sources(())  # whose death would end a receive from anybody: others may come
_asking = _thread.allocate_lock()  # who my parents are: they say it once
_parent: Any = None
_program: int | None = None


class _Stranger:
    """Whoever sends before there is a communicator."""

    def rank_of(self, rank: int) -> int:
        """Return the rank in the job."""
        return rank

    def acknowledge(self, arrived: Any) -> None:
        """Do nothing: nobody waits for that."""


def hear(
    context: int, source: int, tag: int, vain: Callable[[], bool] = lambda: False
) -> tuple[Any, int]:
    """Return an object from a rank of the job with which there is no communicator yet, and who.

    `vain` is asked now and then: if nothing will come any more, the object is None.
    """
    posted = transport.receive(context, source, tag, among=_NOBODY)
    work, patience = Receiving(_Stranger(), posted, MPI.pickle.loads), Patience()
    try:
        while not work.step():
            if vain():
                work.give_up()
                return None, source
            pause(work.pending(), patience)
    except BaseException:
        work.give_up()
        raise
    return outcome(work), work.source


def heard(context: int, tag: int) -> tuple[Any, int] | None:
    """Return an object that nobody has heard yet, and who has said it; None: there is none."""
    posted = transport.receive(context, _engine.ANY_SOURCE, tag, among=_NOBODY)
    if not posted.done() and posted.cancel():
        return None
    arrived = posted.take()
    return MPI.pickle.loads(arrived.data), int(arrived.source)


def tell(context: int, dest: int, tag: int, thing: Any) -> None:
    """Send an object to a rank of the job."""
    transport.send(context, dest, tag, MPI.pickle.dumps(thing))


def _ask() -> None:
    global _parent, _program
    if _parent is not None:  # another thread has asked meanwhile
        return
    rank = membership.job().parent if membership.in_a_job() else None
    if rank is None:
        _parent = MPI.Comm.Get_parent()
    else:
        (context, parents, children, _program), _ = hear(NEWS, rank, 0)
        _parent = connected(context, tuple(children), tuple(parents))


def parent() -> Any:
    """Return the communicator with those that spawned this process, or COMM_NULL."""
    if _parent is None:
        with _asking:
            _ask()
    body = getattr(_parent, "_body", None)
    if body is not None and body.closed:  # a copy of it was disconnected
        _parent._body = None
    return _parent


def program() -> int | None:
    """Return which program of `Spawn_multiple` this process runs, 0 of `Spawn`; None: neither."""
    parent()
    return _program
