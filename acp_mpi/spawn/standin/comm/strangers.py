"""Messages between ranks that have no communicator yet: from parents, and of ports."""

from __future__ import annotations

from _thread import allocate_lock

from acp_mpi.engine import _engine
from acp_mpi.job import membership
from acp_mpi.spawn.standin.family import MPI
from acp_mpi.spawn.standin.p2p import transport
from acp_mpi.spawn.standin.p2p.transport import derived
from acp_mpi.spawn.standin.p2p.work import Patience, Receiving, outcome, pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PARENT = "ACP_PARENT"
NEWS = derived(0, "spawn")  # the context in which children get their parents' names
_NOBODY = _engine.Sources(())  # no death ends a receive from any source: others may come
_asking = allocate_lock()  # the parents: they say it once
_heard: list[tuple[Any, ...] | None] = []  # from them, once asked


class _Stranger:
    """A sender before there is a communicator."""

    def rank_of(self, rank: int) -> int:
        """Return the rank in the job."""
        return rank

    def acknowledge(self, arrived: Any) -> None:
        """Do nothing: no rank waits for that."""


def hear(
    context: int, source: int, tag: int, vain: Callable[[], bool] = lambda: False
) -> tuple[Any, int]:
    """Return an object from a rank of the job without a communicator yet, and that rank.

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
    """Return an object that has not been received yet, and its sender; None: there is none."""
    posted = transport.receive(context, _engine.ANY_SOURCE, tag, among=_NOBODY)
    if not posted.done() and posted.cancel():
        return None
    arrived = posted.take()
    return MPI.pickle.loads(arrived.data), int(arrived.source)


def tell(context: int, dest: int, tag: int, thing: Any) -> None:
    """Send an object to a rank of the job."""
    transport.send(context, dest, tag, MPI.pickle.dumps(thing))


def from_parents() -> tuple[Any, ...] | None:
    """Return what the parents say: a context, their ranks, the children's, and the program.

    The program is its number in `Spawn_multiple`, 0 of `Spawn`. None: not a spawned process.
    """
    with _asking:
        if not _heard:
            rank = membership.job().parent if membership.in_a_job() else None
            _heard.append(None if rank is None else hear(NEWS, rank, 0)[0])
    return _heard[0]


def program() -> int | None:
    """Return which program of `Spawn_multiple` this process runs, 0 of `Spawn`; None: neither."""
    news = from_parents()
    return None if news is None else news[3]
