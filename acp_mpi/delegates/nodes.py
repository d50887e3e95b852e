"""Collectives of ranks on several nodes: the delegate of the lowest rank's node folds for all.

Calls of ranks of other nodes come through their own delegates, in their order. Two delegates meet
when either has such a call: the one that was started later finds the other.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import acp_mpi as acp
from acp_mpi.delegates.frames import COMMAND, DONE, FAILED, TAG
from acp_mpi.delegates.meetings import first_dead, lost
from acp_mpi.delegates.start import living_delegate, node_of
from acp_mpi.engine import _engine
from acp_mpi.job import membership

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from acp_mpi.delegates.ends import Ends
    from acp_mpi.delegates.job import Job
    from acp_mpi.delegates.meetings import Call


class Errand(NamedTuple):
    """What the thread for other nodes is to do, when all before is over; in order else."""

    do: Callable[[], None]
    job: Job | None = None  # which its error is of
    before: Sequence[Job] = ()


class _Away(NamedTuple):
    """A call that another delegate is to have, or has."""

    job: Job
    call: Call
    node: int
    held: bool  # until something before it is over


class Nodes:
    """The delegates of other nodes, and the calls that they have. `end` tells a rank of the end."""

    def __init__(self, end: Callable[[Job, int, Any], None]) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)  # 0 is of what has no answer
        self._met: dict[int, Ends] = {}  # by the node
        self._ended: dict[int, int] = {}  # the rank of one that has ended, by the node
        self._greeted: set[int] = set()
        self._watched: set[int] = set()
        self._waiting: list[_Away] = []  # for a delegate to be met
        self._sent: dict[tuple[Ends, int], _Away] = {}

    def send(self, job: Job, call: Call) -> bool:
        """Have the delegate that folds get a call; return whether that is this one."""
        self.watch(call.ranks)
        dead = first_dead(call.ranks)
        if dead is not None:
            raise lost(call.kind, f"rank {dead}", "has died")
        own, first = node_of(_engine.rank()), node_of(min(call.ranks))
        if first == own:
            for node in {node_of(rank) for rank in call.ranks} - {own}:
                self._look_for(node)
            self.check(call)
            return True
        away = _Away(job, call, first, bool(job.before))
        with self._lock:
            folder = self._met.get(first)
            if folder is None:
                self._waiting.append(away)
            else:
                self._bring(folder, away)
        if folder is None:
            self._look_for(first)
        return False

    def ask(self, job: Job, asked: Job) -> bool:
        """Have the delegate that folds say what a call waits for; False: this one does."""
        with self._lock:
            for (folder, number), away in self._sent.items():
                if away.job is asked:
                    self._say(folder, away._replace(job=job), "about", number)
                    return True
            waiting = next((away for away in self._waiting if away.job is asked), None)
        if waiting is not None:
            first = min(waiting.call.ranks)
            self._end(job, DONE, f"for the node of rank {first} has no delegate yet")
        return waiting is not None

    def check(self, call: Call) -> None:
        """Raise PeerLostError for a call that was on its way when a delegate of a member ended."""
        nodes = {node_of(rank) for rank in call.ranks} if self._ended else set()
        for node, rank in [*self._ended.items()]:
            if node not in nodes:
                continue
            membership.learn_of_newcomers()
            if living_delegate(node) in (None, rank):
                raise lost(call.kind, f"the delegate of a node, rank {rank}", "has ended")
            self._ended.pop(node, None)

    def release(self, job: Job) -> None:
        """Say that all is over that a call was held for."""
        with self._lock:
            for i, away in enumerate(self._waiting):
                if away.job is job:
                    self._waiting[i] = away._replace(held=False)
            for (folder, number), away in self._sent.items():
                if away.job is job:
                    _tell(folder, "release", number)

    def _bring(self, folder: Ends, away: _Away) -> None:
        self._say(folder, away, "brought", away.held, *away.call)

    def _say(self, folder: Ends, away: _Away, name: str, *arguments: Any) -> None:
        number = 2 * next(self._numbers) + (_engine.rank() > folder.rank)  # it has the other ones
        self._sent[folder, number] = away
        folder.say(number, COMMAND, (name, None, arguments))

    def watch(self, ranks: Iterable[int]) -> None:
        """Have this process notice the death of ranks that it has nothing else to do with."""
        for rank in set(ranks) - self._watched:
            self._watched.add(rank)
            _engine.doing(rank)

    def _look_for(self, node: int) -> None:
        """Have the delegate of a node and this one meet, if it is there."""
        if node in self._met:
            return
        membership.learn_of_newcomers()
        rank, here = living_delegate(node), _engine.rank()
        if rank is not None and rank not in self._greeted:
            self._greeted.add(rank)
            acp.send((here, []), dest=rank, tag=TAG)
            acp.send((rank, []), dest=here, tag=TAG)

    def meet(self, other: Ends) -> None:
        """Take in a delegate, and send it what waits for it."""
        node = node_of(other.rank)
        with self._lock:
            self._met[node] = other
            self._ended.pop(node, None)
            for away in [away for away in self._waiting if away.node == node]:
                self._waiting.remove(away)
                self._bring(other, away)

    def answer(self, other: Ends, number: int, kind: int, x: Any) -> bool:
        """Take in the end of a call that another delegate has; False: that has none such."""
        with self._lock:
            away = self._sent.pop((other, number), None)
        if away is not None:
            self._end(away.job, kind, x)
        return away is not None

    def part(self, other: Ends) -> int | None:
        """Give up what a delegate has that has ended; return its node if no other is there."""
        node = node_of(other.rank)
        with self._lock:
            last = self._met.get(node) is other
            if last:
                del self._met[node]
                self._ended[node] = other.rank
            over = [self._sent.pop(at) for at in [*self._sent] if at[0] is other]
        for away in over:
            self._give_up(away, f"the delegate of its node, rank {other.rank}")
        return node if last else None

    def lose(self, rank: int, why: str) -> None:
        """Give up what waits for a rank, or a delegate, and tell other delegates."""
        node = node_of(rank)
        with self._lock:
            unmet = rank in self._greeted and node not in self._met
            over = [a for a in self._waiting if rank in a.call.ranks or (unmet and a.node == node)]
            self._waiting = [away for away in self._waiting if away not in over]
            told = [*self._met.values()] if node == node_of(_engine.rank()) else []
            for other in told:
                _tell(other, "gone", rank, why)
        for away in over:
            self._give_up(away, f"rank {rank}", why)

    def _give_up(self, away: _Away, who: str, why: str = "has ended") -> None:
        if not away.job.over:
            self._end(away.job, FAILED, lost(away.call.kind, who, why))


def is_of_other_node(rank: int) -> bool:
    """Return whether a rank that has come is the delegate of another node: others do not come."""
    return node_of(rank) != node_of(_engine.rank())


def _tell(other: Ends, name: str, *arguments: Any) -> None:
    with contextlib.suppress(acp.Error):  # its end is told by its channel
        other.say(0, COMMAND, (name, None, arguments))
