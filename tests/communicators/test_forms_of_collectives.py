"""Each collective of buffers in its three forms: it waits, is started, and is started again."""

import numpy as np
import pytest
from support import case

pytestmark = pytest.mark.mpi


class Call:
    """What one rank gives to a collective, and where what comes is expected."""

    def __init__(self, given, found=None, expected=None):
        self.given, self.found, self.expected = given, found, expected
        self.before = None if found is None else found.copy()

    def begin_again(self):
        if self.found is not None:
            self.found[:] = self.before

    def check(self):
        if self.found is not None:
            assert self.found.tolist() == list(self.expected)


def carry_out(comm, name, form, call):
    """Carry a collective out, twice if it can be started again, and look at what came."""
    if form == "waits":
        getattr(comm, name)(*call.given)
        call.check()
    elif form == "started":
        getattr(comm, f"I{name.lower()}")(*call.given).Wait()
        call.check()
    else:
        request = getattr(comm, f"{name}_init")(*call.given)
        for _ in range(2):
            call.begin_again()
            request.Start()
            request.Wait()
            call.check()
        request.Free()


FORMS = ["waits", "started", "started again"]


def part(rank, count=2):
    """Return what a rank has, or has for each of those that it gives something."""
    return np.arange(float(count)) + 10 * rank


def whole(ranks, count=2):
    return np.concatenate([part(rank, count) for rank in range(ranks)])


def ragged(ranks):
    """Return parts of which each rank has one more than that before it, and how many these are."""
    return np.concatenate([part(rank, rank) for rank in range(ranks)]), list(range(ranks))


def places(sizes):
    return [8 * sum(sizes[:i]) for i in range(len(sizes))]


def typed(MPI, data, sizes):
    return [data, (sizes, places(sizes)), [MPI.DOUBLE] * len(sizes)]


# Among the ranks of one communicator --------------------------------------------------------------


def rooted(MPI, comm, root):
    rank, n = comm.rank, comm.size
    here, room = rank == root, np.zeros(2)
    all_, sizes = ragged(n)
    gathered, ragged_ = np.zeros(2 * n), np.zeros(len(all_))
    total = part(0) * n + 10 * sum(range(n))
    data = part(root) if here else room
    yield "Barrier", Call(())
    yield "Bcast", Call((data, root), data, part(root))
    into = (gathered, whole(n)) if here else ()
    yield "Gather", Call((part(rank), gathered if here else None, root), *into)
    into = (ragged_, all_) if here else ()
    place = [ragged_, sizes] if here else None
    yield "Gatherv", Call((part(rank, rank), place, root), *into)
    room = np.zeros(2)
    yield "Scatter", Call((whole(n) if here else None, room, root), room, part(rank))
    room = np.zeros(rank)
    given = [all_, sizes] if here else None
    yield "Scatterv", Call((given, room, root), room, part(rank, rank))
    room = np.zeros(2)
    into = (room, total) if here else ()
    yield "Reduce", Call((part(rank), room if here else None, MPI.SUM, root), *into)


def unrooted(MPI, comm):
    rank, n = comm.rank, comm.size
    all_, sizes = ragged(n)
    total = part(0) * n + 10 * sum(range(n))
    room = np.zeros(2 * n)
    yield "Allgather", Call((part(rank), room), room, whole(n))
    room = np.zeros(len(all_))
    yield "Allgatherv", Call((part(rank, rank), [room, sizes]), room, all_)
    # Rank i gives rank j the part of i + j.
    given = np.concatenate([part(rank + to) for to in range(n)])
    room = np.zeros(2 * n)
    yield "Alltoall", Call((given, room), room, given)
    given = np.concatenate([part(rank + to, to) for to in range(n)])
    taken = np.concatenate([part(rank + by, rank) for by in range(n)])
    room = np.zeros(len(taken))
    yield "Alltoallv", Call(([given, sizes], [room, [rank] * n]), room, taken)
    room = np.zeros(len(taken))
    both = typed(MPI, given, sizes), typed(MPI, room, [rank] * n)
    yield "Alltoallw", Call(both, room, taken)
    room = np.zeros(2)
    yield "Allreduce", Call((part(rank), room, MPI.SUM), room, total)
    room = np.zeros(2)
    yield "Reduce_scatter_block", Call((whole(n), room, MPI.SUM), room, part(rank) * n)
    room = np.zeros(rank)
    yield "Reduce_scatter", Call((all_, room, sizes, MPI.SUM), room, part(rank, rank) * n)
    room = np.zeros(2)
    upto = part(0) * (rank + 1) + 10 * sum(range(rank + 1))
    yield "Scan", Call((part(rank), room, MPI.SUM), room, upto)
    room = np.zeros(2)
    into = (room, upto - part(rank)) if rank else ()
    yield "Exscan", Call((part(rank), room, MPI.SUM), *into)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_does_the_same(MPI, world, form):
    calls = [call for root in {0, world.size - 1} for call in rooted(MPI, world, root)]
    for name, call in [*calls, *unrooted(MPI, world)]:
        with case(name):
            carry_out(world, name, form, call)


# Between two groups -------------------------------------------------------------------------------


class Sides:
    """Two groups: the local one with `n` ranks, the other with `m`; the first one has the root."""

    def __init__(self, MPI, comm):
        self.n, self.m, self.rank = comm.size, comm.remote_size, comm.rank
        self.side = MPI.COMM_WORLD.rank % 2
        self.last = (self.m if self.side else self.n) - 1
        self.is_root = not self.side and self.rank == self.last
        self.gives = bool(self.side)
        self.root = self.last if self.side else MPI.ROOT if self.is_root else MPI.PROC_NULL

    def own(self, count=2, more=0):
        """Return what this rank has, or has for the other group's rank `more`."""
        return part(self.rank + 5 * self.side + more, count)

    def its(self, rank, count=2, more=0):
        """Return what a rank of the other group has, or has for rank `more` of this one."""
        return part(rank + 5 * (1 - self.side) + more, count)

    def all_its(self, count=None):
        """Return what all ranks of the other group have, `count` elements or as many as ranks."""
        return np.concatenate([self.its(i, i if count is None else count) for i in range(self.m)])

    def total(self):
        """Return the sum of what the ranks of the other group have."""
        return sum(self.its(rank) for rank in range(self.m))


def rooted_between(MPI, comm):
    s = Sides(MPI, comm)
    many = s.m if s.is_root else 0
    sizes = list(range(many))
    data = s.own() if s.is_root else np.zeros(2)
    yield "Barrier", Call(())
    yield "Bcast", Call((data, s.root), *((data, s.its(s.last)) if s.gives else ()))
    room = np.zeros(2 * many)
    into = (room, s.all_its(2)) if s.is_root else ()
    mine = s.own() if s.gives else None
    yield "Gather", Call((mine, room if s.is_root else None, s.root), *into)
    into = (np.zeros(sum(sizes)), s.all_its()) if s.is_root else ()
    mine = s.own(s.rank) if s.gives else None
    yield "Gatherv", Call((mine, [into[0], sizes] if s.is_root else None, s.root), *into)
    given = np.concatenate([s.own(2, to) for to in range(many)]) if s.is_root else None
    into = (np.zeros(2), s.its(s.last, 2, s.rank)) if s.gives else ()
    yield "Scatter", Call((given, into[0] if s.gives else None, s.root), *into)
    given = np.concatenate([s.own(to, to) for to in range(many)]) if s.is_root else None
    into = (np.zeros(s.rank), s.its(s.last, s.rank, s.rank)) if s.gives else ()
    given = [given, sizes] if s.is_root else None
    yield "Scatterv", Call((given, into[0] if s.gives else None, s.root), *into)
    into = (np.zeros(2), s.total()) if s.is_root else ()
    mine = s.own() if s.gives else None
    yield "Reduce", Call((mine, into[0] if s.is_root else None, MPI.SUM, s.root), *into)


def unrooted_between(MPI, comm):
    s = Sides(MPI, comm)
    sizes = list(range(s.m))
    room = np.zeros(2 * s.m)
    yield "Allgather", Call((s.own(), room), room, s.all_its(2))
    room = np.zeros(sum(sizes))
    yield "Allgatherv", Call((s.own(s.rank), [room, sizes]), room, s.all_its())
    given = np.concatenate([s.own(2, to) for to in range(s.m)])
    taken = np.concatenate([s.its(by, 2, s.rank) for by in range(s.m)])
    room = np.zeros(2 * s.m)
    yield "Alltoall", Call((given, room), room, taken)
    given = np.concatenate([s.own(to, to) for to in range(s.m)])
    taken = np.concatenate([s.its(by, s.rank, s.rank) for by in range(s.m)])
    room = np.zeros(len(taken))
    yield "Alltoallv", Call(([given, sizes], [room, [s.rank] * s.m]), room, taken)
    room = np.zeros(len(taken))
    both = typed(MPI, given, sizes), typed(MPI, room, [s.rank] * s.m)
    yield "Alltoallw", Call(both, room, taken)
    room = np.zeros(2)
    yield "Allreduce", Call((s.own(), room, MPI.SUM), room, s.total())
    # Both groups give as many elements, and each rank gets as many as the other group has ranks.
    given, room = np.arange(float(s.n * s.m)) + s.rank, np.zeros(s.m)
    taken = s.m * (np.arange(float(s.m)) + s.rank * s.m) + sum(range(s.m))
    yield "Reduce_scatter_block", Call(([given, s.m], room, MPI.SUM), room, taken)
    room = np.zeros(s.m)
    yield "Reduce_scatter", Call((given, room, [s.m] * s.n, MPI.SUM), room, taken)


def carry_out_all(MPI, comm, form):
    for name, call in [*rooted_between(MPI, comm), *unrooted_between(MPI, comm)]:
        with case(name):
            carry_out(comm, name, form, call)


def test_two_groups_have_each_collective(MPI, between):
    carry_out_all(MPI, between, "waits")


@pytest.mark.parametrize("form", FORMS[1:])
def test_each_form_does_the_same_between_two_groups(MPI, between_several, form):
    """MPI's own cannot: both hang here, and MPICH's Ibcast brings nothing from the second rank."""
    carry_out_all(MPI, between_several, form)
