"""Groups: what mpi4py's do, ours do."""

import numpy as np
import pytest

pytestmark = pytest.mark.mpi


@pytest.fixture
def group(world):
    found = world.Get_group()
    yield found
    found.Free()


def refused(MPI, call, code):
    with pytest.raises(MPI.Exception) as caught:
        call()
    assert caught.value.Get_error_class() == code


def test_members_are_chosen(MPI, group):
    size, whole = group.size, MPI.COMM_WORLD.Get_group()
    for made, expected in (
        (group.Incl(np.arange(size)[::-1]), range(size)[::-1]),
        (group.Excl([0]), range(1, size)),
        (group.Range_incl([(0, size - 1, 2)]), range(0, size, 2)),
        (group.Range_incl([(size - 1, 0, -1)]), range(size)[::-1]),
        (group.Range_excl([(0, size - 1, 2)]), range(1, size, 2)),
    ):
        assert made.Translate_ranks(None, whole) == list(expected)
        if made.size:  # Open MPI's group of nobody says UNDEFINED
            assert made.Translate_ranks([MPI.PROC_NULL], group) == [MPI.PROC_NULL]
        made.Free()
    whole.Free()


def test_places_that_there_are_not(MPI, several):  # Open MPI looks where there is no memory
    group = several.Get_group()
    size = group.size
    for place in (-3, -1, size, size + 9):
        for call in (group.Translate_ranks, group.Incl, group.Excl):
            if place != MPI.PROC_NULL or call != group.Translate_ranks:
                refused(MPI, lambda call=call, place=place: call([place]), MPI.ERR_RANK)
    for places in ((0, size - 1, 0), (1, 0, 1), (0, 1, -1), (0, size, 1), (-1, 0, 1)):
        for call in (group.Range_incl, group.Range_excl):
            refused(MPI, lambda call=call, places=places: call([places]), MPI.ERR_ARG)


def test_a_group_of_nobody_is_the_empty_one(MPI, group):
    for made in (
        group.Incl([]),
        group.Excl(range(group.size)),
        MPI.Group.Difference(group, group),
        MPI.Group.Intersection(group, MPI.GROUP_EMPTY),
        MPI.Group.Intersect(MPI.GROUP_EMPTY, group),
    ):
        assert made == MPI.GROUP_EMPTY
        assert made.Compare(MPI.GROUP_EMPTY) == MPI.IDENT
        assert (made.size, made.rank) == (0, MPI.UNDEFINED)
        assert MPI.Group.Union(made, group).size == group.size


def test_a_communicator_of_one_group_is_made_of_a_group_of_ours(MPI, world, group):
    for part in (group, group.Incl([world.size - 1])):
        for made in (
            MPI.COMM_WORLD.Create(part),
            MPI.COMM_WORLD.Create(group=part),
            MPI.COMM_WORLD.Create_group(part, 3) if part.rank >= 0 else MPI.COMM_NULL,
        ):
            assert (made != MPI.COMM_NULL) == (part.rank != MPI.UNDEFINED)
            if made:
                assert made.allreduce(1) == part.size
                made.Free()


def test_a_group_with_others_is_refused_where_they_are_not(MPI, several):
    stranger = type(several.Get_group())._of([0, 10**6])
    with pytest.raises(MPI.Exception) as caught:
        MPI.COMM_WORLD.Create(stranger)
    assert caught.value.Get_error_class() == MPI.ERR_GROUP
    assert "another COMM_WORLD" in caught.value.__notes__[0]


def test_no_communicator_has_members_of_whom_its_parent_knows_nothing(MPI, several):
    everybody = several.Get_group()
    own = several.Split(several.rank)
    for call in (own.Create, own.Create_group):
        if several.size > 1:
            refused(MPI, lambda call=call: call(everybody), MPI.ERR_GROUP)
    assert own.Dup().allreduce(1) == 1
