"""Collectives among the ranks of one circle, as generators over messages.

Each moves bytes, yields what it waits for, and returns what its rank is to have.
"""

from __future__ import annotations

from acp_mpi.spawn.mpi import transport
from acp_mpi.spawn.mpi.ranks import Circle
from acp_mpi.spawn.mpi.work import Done, Receiving, Sending, Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeAlias

    from acp_mpi.spawn.mpi.work import Steps

    Combine: TypeAlias = Callable[[Any, Any], Any]


class Round:
    """One collective: its messages have a tag of their own."""

    def __init__(self, context: int, tag: int, members: Circle, peers: Circle) -> None:
        self.context, self.tag = context, tag
        self.members, self.peers = members, peers
        self.rank, self.size = members.rank, len(members)

    def rank_of(self, rank: int) -> int:
        """Return any rank: a collective knows whom it hears."""
        return 0

    def acknowledge(self, arrived: transport.Arrived) -> None:
        """Do nothing: no message of a collective asks for that."""

    def inside(self) -> Round:
        """Return the same among the local group alone."""
        return Round(self.context + 2, self.tag, self.members, self.members)

    def send(self, data: Any, to: int) -> Work:
        """Start sending to one of the peers."""
        posted = transport.send(self.context, self.peers.ranks[to], self.tag, data)
        return Done() if posted is None else Sending(posted, keep=data)

    def receive(self, source: int) -> Work:
        """Start receiving from one of the peers."""
        posted = transport.receive(self.context, self.peers.ranks[source], self.tag)
        return Receiving(self, posted, lambda data: data)


def barrier(r: Round) -> Steps:
    """Return when all have come (dissemination)."""
    distance = 1
    while distance < r.size:
        sent = r.send(b"", (r.rank + distance) % r.size)
        yield sent, r.receive((r.rank - distance) % r.size)
        distance *= 2


def bcast(r: Round, data: Any, root: int) -> Steps:
    """Return what `root` gives (binomial tree)."""
    place = (r.rank - root) % r.size
    mask = 1
    while mask < r.size:
        if place & mask:
            arriving = r.receive((place - mask + root) % r.size)
            yield (arriving,)
            data = arriving.result
            break
        mask *= 2
    below = []
    while mask > 1:
        mask //= 2
        if place + mask < r.size:
            below.append(r.send(data, (place + mask + root) % r.size))
    yield below
    return data


def gather(r: Round, data: Any, root: int) -> Steps:
    """Return what each gives, at `root`."""
    if r.rank != root:
        yield (r.send(data, root),)
        return None
    arriving = {rank: r.receive(rank) for rank in range(r.size) if rank != root}
    yield arriving.values()
    return [data if rank == root else arriving[rank].result for rank in range(r.size)]


def scatter(r: Round, parts: Sequence[Any] | None, root: int) -> Steps:
    """Return the part for this rank of what `root` gives."""
    if r.rank != root:
        arriving = r.receive(root)
        yield (arriving,)
        return arriving.result
    assert parts is not None
    yield [r.send(part, rank) for rank, part in enumerate(parts) if rank != root]
    return parts[root]


def allgather(r: Round, data: Any) -> Steps:
    """Return what each gives (ring)."""
    found: list[Any] = [None] * r.size
    found[r.rank] = data
    for step in range(1, r.size):
        passed = r.send(found[(r.rank - step + 1) % r.size], (r.rank + 1) % r.size)
        arriving = r.receive((r.rank - 1) % r.size)
        yield passed, arriving
        found[(r.rank - step) % r.size] = arriving.result
    return found


def alltoall(r: Round, parts: Sequence[Any]) -> Steps:
    """Return what each of the peers gives for this rank."""
    count = len(r.peers)
    arriving = [r.receive(rank) for rank in range(count)]
    sent = [r.send(part, rank) for rank, part in enumerate(parts)]
    yield [*arriving, *sent]
    return [each.result for each in arriving]


def reduce(r: Round, data: Any, combine: Combine, root: int) -> Steps:
    """Return what all give, combined in the order of ranks, at `root` (binomial tree)."""
    mask = 1
    while mask < r.size:
        if r.rank & mask:
            yield (r.send(data, r.rank - mask),)
            break
        if r.rank + mask < r.size:
            arriving = r.receive(r.rank + mask)
            yield (arriving,)
            data = combine(data, arriving.result)
        mask *= 2
    if root == 0:
        return data if r.rank == 0 else None
    if r.rank == 0:
        yield (r.send(data, root),)
    elif r.rank == root:
        arriving = r.receive(0)
        yield (arriving,)
        return arriving.result
    return None


def allreduce(r: Round, data: Any, combine: Combine) -> Steps:
    """Return what all give, combined in the order of ranks."""
    found = yield from reduce(r, data, combine, 0)
    return (yield from bcast(r, found, 0))


def scan(r: Round, data: Any, combine: Combine) -> Steps:
    """Return what the ranks before this one give, combined, and that with what it gives."""
    before = None
    if r.rank > 0:
        arriving = r.receive(r.rank - 1)
        yield (arriving,)
        before = arriving.result
    here = data if before is None else combine(before, data)
    if r.rank + 1 < r.size:
        yield (r.send(here, r.rank + 1),)
    return before, here
