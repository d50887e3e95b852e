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
    lots = [np.arange(4.0 * size), (2, 1)]  # the count is that of a part, as mpi4py has it
    pair = np.zeros(2)
    world.Reduce_scatter_block(lots, pair)
    assert list(pair) == [(2 * rank + 1) * size, (2 * rank + 2) * size]
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


def test_who_shares_memory_with_whom(MPI, world):
    last = world.rank == world.size - 1  # it wants to be in none of these
    made = world.Split_type(MPI.UNDEFINED if last else MPI.COMM_TYPE_SHARED)
    assert (made == MPI.COMM_NULL) == last
    if made:
        assert made.allreduce(1) == made.size <= world.size - 1
        made.Free()
    assert world.allreduce(1) == world.size


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
    part = np.zeros(between.remote_size)  # together as many for both groups
    between.Reduce_scatter_block([np.ones(part.size * between.size), part.size], part)
    assert (part == between.remote_size).all()
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


@pytest.mark.parametrize("kind", [np.int64, np.int8, bool])
def test_integers_of_any_kind_say_the_same(world, kind):
    """Each rank finds alone where the new communicator's messages go."""
    zero, one = (kind(number) if world.rank % 2 else number for number in (0, 1))
    group = world.Get_group()
    for made in (
        world.Split(one, zero),
        world.Split(color=zero, key=one),
        world.Create_group(group, one),
    ):
        assert made.allreduce(1) == world.size
        made.Free()
    group.Free()


def test_integers_of_any_kind_say_the_same_to_two_groups(MPI, between):
    odd = MPI.COMM_WORLD.rank % 2
    made = between.Split(np.int16(3) if odd else 3, np.int64(0))
    assert made.allreduce(1) == between.remote_size
    made.Free()


def test_counts_may_be_an_array(world):
    counts = np.arange(1, world.size + 1)
    given, found = np.ones(counts.sum()), np.zeros(world.rank + 1)
    world.Reduce_scatter(given, found, counts)
    assert (found == world.size).all()
    world.Ireduce_scatter(given, found, recvcounts=counts.astype(np.int8)).Wait()
    assert (found == world.size).all()


def test_what_starts_again_takes_hints_and_nothing_more(MPI, world):
    n = world.size
    x, out, counts = np.ones(n), np.zeros(n), [1] * n
    own, place = np.ones(1), np.zeros(1)
    kinds, offsets = [MPI.DOUBLE] * n, [8 * i for i in range(n)]
    for name, given in {
        "Barrier": (),
        "Bcast": (x, 0),
        "Gather": (own, out, 0),
        "Gatherv": (own, [out, counts], 0),
        "Scatter": (x, place, 0),
        "Scatterv": ([x, counts], place, 0),
        "Allgather": (own, out),
        "Allgatherv": (own, [out, counts]),
        "Alltoall": (x, out),
        "Alltoallv": ([x, counts], [out, counts]),
        "Alltoallw": ([x, (counts, offsets), kinds], [out, (counts, offsets), kinds]),
        "Reduce": (x, out, MPI.SUM, 0),
        "Allreduce": (x, out, MPI.SUM),
        "Reduce_scatter_block": (x, place, MPI.SUM),
        "Reduce_scatter": (x, place, counts, MPI.SUM),
        "Scan": (x, out, MPI.SUM),
        "Exscan": (x, out, MPI.SUM),
    }.items():
        make = getattr(world, f"{name}_init")
        for again in (make(*given, MPI.INFO_NULL), make(*given, info=MPI.INFO_NULL)):
            again.Start()
            again.Wait()
            again.Free()
        for wrong, named in (((MPI.INFO_NULL, 5), {}), ((), {"other": 5})):
            with pytest.raises(TypeError):
                make(*given, *wrong, **named)


def test_a_key_that_is_freed_is_another_one_s_number(MPI, several):
    dropped = []
    old = MPI.Comm.Create_keyval(delete_fn=lambda comm, key, value: dropped.append(value))
    copy = several.Dup()
    copy.Set_attr(old, "old")
    MPI.Comm.Free_keyval(old)
    for call in (copy.Get_attr, lambda key: copy.Set_attr(key, 1), copy.Delete_attr):
        with pytest.raises(MPI.Exception) as caught:
            call(old)
        assert caught.value.Get_error_class() == MPI.ERR_KEYVAL
    new = MPI.Comm.Create_keyval(delete_fn=lambda comm, key, value: dropped.append(("new", value)))
    assert copy.Get_attr(new) is None
    copy.Set_attr(new, 1)
    copy.Free()
    assert sorted(dropped, key=str) == [("new", 1), "old"]
    MPI.Comm.Free_keyval(new)


def test_a_clone_has_attributes_as_a_duplicate_has(MPI, world):
    keyval = MPI.Comm.Create_keyval(copy_fn=True)
    world.Set_attr(keyval, "kept")
    copy = world.Clone()
    assert copy.Get_attr(keyval) == "kept"
    copy.Free()
    world.Delete_attr(keyval)
    MPI.Comm.Free_keyval(keyval)


def test_names_are_text(world):
    world.Set_name(b"of bytes")
    assert world.Get_name() == "of bytes"
    with pytest.raises(TypeError):
        world.Set_name(5)


def test_a_buffer_is_given_back(several):
    buffer = bytearray(100)
    several.Attach_buffer(buffer)
    several.bsend("kept", several.rank)
    several.Flush_buffer()
    several.Iflush_buffer().Wait()
    assert several.Detach_buffer() is buffer
    assert several.recv(source=several.rank) == "kept"
