"""Planned folds of short arrays, as most of those are: calls as before, perhaps with other bytes.

A fold that waits for ranks is kept as its bytes only, as long as all calls are of one kind; any
other call makes meetings of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from acp_mpi.comm.collectives.operations import operation_of
from acp_mpi.delegates.frames import FAILED, FOLDED, portable
from acp_mpi.delegates.meetings import Call, Meetings, planned

if TYPE_CHECKING:
    from acp_mpi.delegates.job import Client

_PLANS = 1024


class Given(NamedTuple):
    """What a rank brings."""

    client: Client
    number: int
    plan: bytes
    data: bytes


class _Kind:
    """What the plans of all ranks say."""

    def __init__(self, call: Call) -> None:
        import numpy

        self.ranks = call.ranks
        operation = operation_of(call.op, call.kind)
        folder = operation.folder(call.kind, numpy.dtype(call.dtype), call.shape or (-1,))
        self._memory = memoryview(bytearray(len(call.ranks) * call.nbytes))
        self._first, *self._others = (
            folder.array(self._memory[at : at + call.nbytes])
            for at in range(0, len(self._memory), call.nbytes)
        )
        self._fold, self._nbytes = folder.fold, call.nbytes

    def fold(self, come: list[Given]) -> bytes:
        """Return the result, folded in the order of the ranks."""
        self._memory[:] = b"".join([one.data for one in come])
        for other in self._others:
            self._fold(self._first, self._first, other)
        return bytes(self._memory[: self._nbytes])


class ShortFolds:
    """Short folds of one kind that wait for ranks; the caller holds the lock of the server."""

    def __init__(self, meetings: Meetings) -> None:
        self._meetings = meetings
        self._kinds: dict[Call, _Kind] = {}
        self._plans: dict[bytes, tuple[_Kind, int]] = {}
        self._come: list[deque[Given]] = []  # by the place of the rank, which may be ahead
        self._kind: _Kind | None = None  # of these

    def take(self, one: Given) -> bool:
        """Take a rank in; return whether it comes to a fold of this kind."""
        kind, me = self._plans.get(one.plan) or self._learn(one.plan)
        if any(self._come):
            if kind is not self._kind:
                return False
        elif self._meetings.begun(kind.ranks) or self._meetings.absent(kind.ranks):
            return False
        elif kind is not self._kind:
            self._kind, self._come = kind, [deque() for _ in kind.ranks]
        self._come[me].append(one)
        return True

    def _learn(self, plan: bytes) -> tuple[_Kind, int]:
        if len(self._plans) >= _PLANS:
            self._plans.clear()
            self._kinds.clear()
        call = planned(plan)
        same = call._replace(me=0)
        kind = self._kinds.get(same)
        if kind is None:
            kind = self._kinds[same] = _Kind(call)
        known = self._plans[plan] = kind, call.me
        return known

    def finish(self, last: Given) -> int:
        """Fold, and answer, if all have come, the last, which is awake, first; return how many."""
        if self._kind is None or not all(self._come):
            return 0
        come = [ahead.popleft() for ahead in self._come]
        answer: object
        try:
            kind, answer = FOLDED, self._kind.fold(come)
        except BaseException as error:
            kind, answer = FAILED, portable(error)
        last.client.answer(last.number, kind, answer)
        for one in come:
            if one is not last:
                one.client.answer(one.number, kind, answer)
        return len(come)

    def leave(self) -> list[Given]:
        """Return what has come, of each rank in the order of coming, and forget it."""
        come = [one for ahead in self._come for one in ahead]
        self._come, self._kind = [], None
        return come
