"""Collectives, among the ranks of one communicator and between two groups."""

import numpy as np
import pytest

pytestmark = pytest.mark.mpi


def test_objects(MPI, world):
    rank, size = world.rank, world.size
    for root in range(size):
        assert world.bcast({"root": root} if rank == root else None, root) == {"root": root}
        assert world.gather(rank, root) == (list(range(size)) if rank == root else None)
        assert world.scatter([i * i for i in range(size)], root) == rank * rank
        found = world.reduce([rank], root=root)
        assert found == (list(range(size)) if rank == root else None)  # in the order of ranks
    assert world.allgather(rank) == list(range(size))
    assert world.alltoall([(rank, i) for i in range(size)]) == [(i, rank) for i in range(size)]
    assert world.allreduce(rank + 1, MPI.PROD) == np.prod(range(1, size + 1))
    assert world.scan(1) == rank + 1
    assert world.exscan(1) == (rank or None)


def test_buffers(MPI, world):
    rank, size = world.rank, world.size
    everything = np.zeros((size, 3))
    world.Allgather(np.full(3, rank + 1.0), everything)
    assert (everything == np.arange(1, size + 1)[:, None]).all()
    ragged = np.full(size * (size + 1) // 2, -1)
    world.Allgatherv(np.full(rank + 1, rank), [ragged, list(range(1, size + 1))])
    assert (ragged == np.repeat(np.arange(size), np.arange(1, size + 1))).all()
    empty = [int(each == rank) for each in range(size)]  # nothing for the others, and nowhere
    places = [0 if each == rank else 10**6 for each in range(size)]
    own = np.zeros(1, int)
    world.Alltoallv([np.array([5]), (empty, places)], [own, (empty, places)])
    assert own[0] == 5
    turned = np.zeros((size, 2), int)
    world.Alltoall(np.arange(2 * size).reshape(size, 2) + 100 * rank, turned)
    assert (turned[:, 0] == 2 * rank + 100 * np.arange(size)).all()
    total = np.zeros(2)
    world.Allreduce(np.array([1.0, rank]), total, MPI.MAX)
    assert list(total) == [1, size - 1]
    part = np.zeros(1)
    world.Reduce_scatter_block(np.arange(size, dtype=float), part)
    assert part[0] == rank * size
    world.Scan(MPI.IN_PLACE, part, MPI.SUM)
    assert part[0] == size * rank * (rank + 1) / 2


def test_an_operation_of_the_program_that_does_not_commute(MPI, world):
    def join(a, b, datatype):
        first, second = np.frombuffer(a, "i8"), np.frombuffer(b, "i8")
        second[:] = int(f"{first[0]}{second[0]}")

    op = MPI.Op.Create(join, commute=False)
    found = np.zeros(1, int)
    world.Allreduce(np.array([world.rank + 1]), found, op)
    op.Free()
    assert str(found[0]) == "".join(str(i + 1) for i in range(world.size))


def test_several_at_once_and_again(MPI, world):
    data, found = np.ones(2), np.zeros(2)
    again = world.Allreduce_init(data, found)
    for turn in range(3):
        data[:] = turn
        meeting = world.Ibarrier()
        again.Start()
        MPI.Request.Waitall([again, meeting])
        assert (found == turn * world.size).all()
    again.Free()


def test_a_rank_that_is_not_there(MPI, world):
    with pytest.raises(MPI.Exception) as caught:
        world.Bcast(np.zeros(1), root=world.size)
    assert caught.value.Get_error_class() == MPI.ERR_ROOT


def test_splitting_and_duplicating(MPI, world):
    from_the_end = world.Split(0, -world.rank)
    assert from_the_end.rank == world.size - 1 - world.rank
    copy = from_the_end.Dup()
    assert copy.allgather(world.rank) == list(range(world.size))[::-1]
    assert copy != from_the_end
    assert MPI.Comm.Compare(copy, from_the_end) == MPI.CONGRUENT
    assert MPI.COMM_WORLD.Compare(copy) in (MPI.SIMILAR, MPI.CONGRUENT, MPI.UNEQUAL)
    assert world.Split(MPI.UNDEFINED) == MPI.COMM_NULL
    for comm in (copy, from_the_end):
        comm.Free()
        assert comm == MPI.COMM_NULL


def test_attributes_are_copied_and_dropped(MPI, world):
    seen = []
    keyval = MPI.Comm.Create_keyval(
        lambda comm, key, value: [*value, "copied"], lambda comm, key, value: seen.append(value)
    )
    world.Set_attr(keyval, ["made"])
    copy = world.Dup()
    assert copy.Get_attr(keyval) == ["made", "copied"]
    copy.Free()
    world.Delete_attr(keyval)
    assert seen == [["made", "copied"], ["made"]]
    assert world.Get_attr(keyval) is None
    MPI.Comm.Free_keyval(keyval)


def test_two_groups_exchange_what_they_have(between):
    here = [between.rank, between.size]
    assert between.allgather(here) == [
        [rank, between.remote_size] for rank in range(between.remote_size)
    ]
    total = np.zeros(1)
    between.Allreduce(np.array([between.rank + 1.0]), total)
    assert total[0] == between.remote_size * (between.remote_size + 1) / 2
    found = between.alltoall([between.rank * 10 + i for i in range(between.remote_size)])
    assert found == [i * 10 + between.rank for i in range(between.remote_size)]


def test_one_of_a_group_gives_to_the_other(MPI, between):
    first = between.rank == 0
    even = MPI.COMM_WORLD.rank % 2 == 0
    root = 0 if not even else MPI.ROOT if first else MPI.PROC_NULL
    data = np.full(2, 5.0 if even else 0.0)
    between.Bcast(data, root)
    assert (data == 5).all()
    found = between.gather("part", root)
    assert found == (["part"] * between.remote_size if root == MPI.ROOT else None)
    between.barrier()


@pytest.mark.parametrize("high", [False, True])
def test_two_groups_merge(MPI, between, high):
    even = MPI.COMM_WORLD.rank % 2 == 0
    merged = between.Merge(high if even else not high)
    assert merged.size == between.size + between.remote_size
    assert merged.rank == between.rank + (between.remote_size if even == high else 0)
    assert sum(merged.allgather(1)) == merged.size
    merged.Free()
