"""Schedules of collectives on paper: all members', without memory that is shared and without MPI.

A message waits until it is received, as if nothing were ever kept for a receiver that is late: what
ends here cannot deadlock. Elements are tuples of whose they are; a fold joins them.
"""

import collections
import itertools
from collections.abc import Sequence
from typing import Any

from acp_mpi.comm.collectives.schedule import COPY, FOLD, IN, OUT, RECEIVE, SEND

Memory = dict[int, list[list[Any]]]  # buffer -> pieces -> elements


class Member:
    """One member: its schedule, its memory, and how far it is."""

    rounds: Any

    def __init__(self, paper: Any, given: list[Any] | None, in_place: bool = False) -> None:
        self.rounds, sizes = paper
        self.at = 0
        self.memory: Memory = {b: [[None] * s for s in sizes[b]] for b in sizes}
        if given is not None:
            self.fill(IN, given)
        if in_place:
            assert [*map(len, self.memory[IN])] == [*map(len, self.memory[OUT])]
            self.memory[OUT] = self.memory[IN]

    def fill(self, buffer: int, elements: list[Any]) -> None:
        rest = iter(elements)
        self.memory[buffer] = [[next(rest) for _ in piece] for piece in self.memory.get(buffer, [])]

    def load(self, where: Any) -> list[Any]:
        buffer, first, count = where
        pieces = self.memory[buffer]
        assert first + count <= len(pieces), "beyond the buffer"
        return list(itertools.chain.from_iterable(pieces[first : first + count]))

    def store(self, where: Any, elements: list[Any]) -> None:
        buffer, first, count = where
        pieces = self.memory[buffer]
        assert len(elements) == sum(map(len, pieces[first : first + count])), "another length"
        rest = iter(elements)
        for i in range(first, first + count):
            pieces[i][:] = [next(rest) for _ in pieces[i]]

    def compute(self) -> None:
        for kind, _, where, left, right in self.rounds[self.at]:
            if kind == COPY:
                self.store(where, self.load(left))
            elif kind == FOLD:
                pairs = zip(self.load(left), self.load(right), strict=True)
                self.store(where, [a + b for a, b in pairs])


def touched(where: Any) -> set[tuple[int, int]]:
    buffer, first, count = where
    return {(buffer, i) for i in range(first, first + count)}


def check_round(steps: list[Any], n: int, r: int) -> None:
    """What is under way together neither overlaps nor comes after what is computed."""
    into: set[tuple[int, int]] = set()
    out: set[tuple[int, int]] = set()
    local = False
    for kind, peer, where, what, _ in steps:
        assert kind in (SEND, RECEIVE, COPY, FOLD)
        if kind in (SEND, RECEIVE):
            assert peer in set(range(n)) - {r}, "with whom"
        if kind == RECEIVE:
            assert not local, "a message after a computation"
            assert not touched(where) & into, "two messages into one place"
            assert where[0] != IN, "what the caller gives is changed"
            into |= touched(where)
        elif kind == SEND:
            assert not local, "a message after a computation"
            out |= touched(what)
        else:
            local = True
            assert where[0] != IN, "what the caller gives is changed"
    assert not into & out, "sent while it is received"


def run(members: Sequence[Member]) -> None:
    """Carry out all schedules, every message when both of its ends are there."""
    n = len(members)
    for r, m in enumerate(members):
        for steps in m.rounds:
            check_round(steps, n, r)
    open_sends: dict[tuple[int, int], collections.deque[list[Any]]]
    open_sends = collections.defaultdict(collections.deque)
    open_receives: dict[tuple[int, int], collections.deque[Any]]
    open_receives = collections.defaultdict(collections.deque)
    pending = [0] * n

    def begin(r: int) -> None:
        m = members[r]
        while m.at < len(m.rounds):
            for kind, peer, where, what, _ in m.rounds[m.at]:
                if kind == SEND:
                    open_sends[r, peer].append(m.load(what))
                elif kind == RECEIVE:
                    open_receives[peer, r].append(where)
                else:
                    continue
                pending[r] += 1
            if pending[r]:
                return
            m.compute()
            m.at += 1

    for r in range(n):
        begin(r)
    moved = True
    while moved:
        moved = False
        for pair in [p for p in open_receives if open_receives[p] and open_sends[p]]:
            source, target = pair
            members[target].store(open_receives[pair].popleft(), open_sends[pair].popleft())
            moved = True
            for r in (source, target):
                pending[r] -= 1
                if not pending[r]:
                    members[r].compute()
                    members[r].at += 1
                    begin(r)
    assert all(m.at == len(m.rounds) for m in members), "deadlock"
    assert not any(open_sends.values()), "a message that nobody receives"


def elements(r: int, count: int) -> list[Any]:
    return [((r, i),) for i in range(count)]


def summed(n: int, i: int) -> tuple[Any, ...]:
    return tuple((r, i) for r in range(n))


def result(member: Member) -> list[Any]:
    pieces = member.memory[OUT]
    return list(itertools.chain.from_iterable(pieces))


def ragged(n: int, seed: int = 0) -> list[int]:
    return [(i * 7 + seed * 3) % 4 for i in range(n)]


def same(found: list[Any], expected: list[Any], ordered: bool) -> None:
    if not ordered:
        found = [tuple(sorted(each)) for each in found]
    assert found == expected
