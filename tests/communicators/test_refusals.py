"""A collective that one rank refuses: all that depend on it hear of it, the next goes as ever."""

import numpy as np
import pytest

import acp_mpi as acp

pytestmark = pytest.mark.mpi

# `x` has four elements for each of the `n` others; `out` is where they come, or no place at all.
CALLS = {
    "Allgather": lambda c, n, x, out: c.Allgather(x[:4], out),
    "Allgatherv": lambda c, n, x, out: c.Allgatherv(x[:4], [out, [4] * n]),
    "Alltoall": lambda c, n, x, out: c.Alltoall(x, out),
    "Alltoallv": lambda c, n, x, out: c.Alltoallv([x, [4] * n], [out, [4] * n]),
    "Allreduce": lambda c, n, x, out: c.Allreduce(x, out),
    "Iallreduce": lambda c, n, x, out: c.Iallreduce(x, out).Wait(),
}
OF_ONE_GROUP = CALLS | {
    "Bcast": lambda c, n, x, out: c.Bcast(out),
    "Scan": lambda c, n, x, out: c.Scan(x, out),
    "Gather": lambda c, n, x, out: c.Gather(out[:4], np.zeros_like(x) if c.rank == 0 else None),
    "Scatter": lambda c, n, x, out: c.Scatter(x if c.rank == 0 else None, out[:4]),
    "Reduce": lambda c, n, x, out: c.Reduce(out, np.zeros_like(x) if c.rank == 0 else None),
    "Reduce_scatter": lambda c, n, x, out: c.Reduce_scatter(x, out[:4]),
    "Reduce_scatter_block": lambda c, n, x, out: c.Reduce_scatter_block(x, out[:4]),
}


def heard(comm, n, guilty, call):
    """Call what is refused on the guilty rank; then what goes as ever."""
    told = ""
    try:
        call()
    except (BufferError, TypeError, ValueError, RuntimeError, acp.Error) as error:
        told = str(error)
    assert told if guilty else not told or "has left" in told
    assert len(comm.allgather(told)) == n
    total = np.zeros(1)
    comm.Allreduce(np.ones(1), total)
    assert total[0] == n


@pytest.mark.parametrize("name", OF_ONE_GROUP)
def test_a_place_that_one_rank_has_not(several, name):
    n = several.size
    for who in (0, n - 1):
        guilty = several.rank == who
        x, out = np.ones(4 * n), np.zeros(8 * n)[::2] if guilty else np.zeros(4 * n)
        heard(several, n, guilty, lambda x=x, out=out: OF_ONE_GROUP[name](several, n, x, out))


@pytest.mark.parametrize("name", CALLS)
def test_a_place_that_one_rank_of_two_groups_has_not(MPI, between_several, name):
    comm, n = between_several, between_several.remote_size
    for who in (0, MPI.COMM_WORLD.size - 1):
        guilty = who == MPI.COMM_WORLD.rank
        x, out = np.ones(4 * n), np.zeros(8 * n)[::2] if guilty else np.zeros(4 * n)
        heard(comm, n, guilty, lambda x=x, out=out: CALLS[name](comm, n, x, out))


def test_counts_that_one_rank_has_not(several):
    n = several.size
    guilty = several.rank == n - 1
    x, out = np.ones(4 * n - guilty), np.zeros(4)
    heard(several, n, guilty, lambda: several.Reduce_scatter(x, out))


def test_an_operation_or_a_root_that_one_rank_has_not(MPI, several):
    n = several.size
    guilty = several.rank == n - 1
    op, root = (None, n) if guilty else (MPI.SUM, 0)
    x, out = np.ones(2), np.zeros(2)
    for call in (
        lambda: several.allreduce(1, op),
        lambda: several.scan(1, op),
        lambda: several.Allreduce(x, out, op),
    ):
        heard(several, n, guilty, call)
    for call in (lambda: several.bcast(1, root), lambda: several.Bcast(x, root)):
        heard(several, n, guilty, call)


def test_an_operation_that_the_elements_have_not(MPI, several):
    """Each rank hears of MPI itself what it did wrong, not of another that it has left."""
    for op, kind in ((MPI.MAX, complex), (MPI.BAND, float), (MPI.SUM, bool)):
        x = np.ones(2, kind)
        for call in (several.Allreduce, several.Reduce_scatter_block, several.Reduce):
            with pytest.raises(MPI.Exception) as caught:
                call(np.resize(x, 2 * several.size) if "block" in call.__name__ else x, x, op)
            assert caught.value.Get_error_class() == MPI.ERR_OP
    assert several.allreduce(1) == several.size


def test_a_color_that_is_none_on_one_rank(several):
    n = several.size
    for who in (0, n - 1):
        guilty = several.rank == who
        heard(several, n, guilty, lambda guilty=guilty: several.Split(None if guilty else 0))
    made = several.Split(0)
    assert made.allreduce(1) == n
    made.Free()


def test_a_type_that_one_rank_has_not(MPI, several):
    n = several.size
    for who in (0, n - 1):
        guilty = several.rank == who
        kind = 77 if guilty else MPI.COMM_TYPE_SHARED
        heard(several, n, guilty, lambda kind=kind: several.Split_type(kind))
    made = several.Split_type(MPI.COMM_TYPE_SHARED)
    assert made
    made.Free()


def test_a_color_a_type_or_a_group_that_one_rank_of_two_groups_has_not(MPI, between_several):
    comm, n = between_several, between_several.remote_size
    group = comm.Get_group()
    for who in (0, MPI.COMM_WORLD.size - 1):
        guilty = who == MPI.COMM_WORLD.rank
        for call in (
            lambda guilty=guilty: comm.Split(None if guilty else 0),
            lambda guilty=guilty: comm.Split_type(77 if guilty else MPI.COMM_TYPE_SHARED),
            lambda guilty=guilty: comm.Create(None if guilty else group),
        ):
            heard(comm, n, guilty, call)
    made = comm.Create(group)
    assert len(made.allgather(1)) == n
    made.Free()


def test_a_group_that_one_rank_has_not(MPI, several):
    n = several.size
    group, first = several.Get_group(), several.rank == 0
    if first:
        with pytest.raises((TypeError, MPI.Exception)):
            several.Create(None)
    else:
        several.Create(group)
    made = several.Dup()  # all have counted alike
    assert made.allreduce(1) == n
    made.Free()


def test_a_leader_that_is_not_there(MPI, several):
    half = several.rank % 2
    local = several.Split(half)
    with pytest.raises(MPI.Exception) as caught:
        local.Create_intercomm(0, several, several.size, 7)
    if local.rank:
        assert caught.value.Get_error_class() == MPI.ERR_COMM
        assert "the leader, rank 0" in caught.value.__notes__[0]
    else:
        assert caught.value.Get_error_class() == MPI.ERR_RANK
    local.Free()


def test_places_before_a_buffer(several):
    n = several.size
    x, out = np.ones(4 * n), np.zeros(4 * n)
    with pytest.raises(ValueError, match="4 elements of 8 bytes from byte -8"):
        several.Allgatherv(x[:4], [out, ([4] * n, [-1] * n)])
    assert not out.any()
    assert several.allreduce(1) == n
