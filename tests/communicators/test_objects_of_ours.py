"""Objects of ours are compared, copied, derived from and made as mpi4py's are."""

import copy
import pickle

import numpy as np
import pytest

pytestmark = pytest.mark.mpi


@pytest.fixture
def things(MPI, world):
    """One of each kind, of mpi4py's or of ours."""
    request = world.Irecv(np.zeros(1), world.rank, 8)
    sent = world.isend(None, world.rank, 7)
    message = world.mprobe(world.rank, 7)
    group = world.Get_group()
    yield [world, group, request, message]
    message.recv()
    sent.wait()
    request.Cancel()
    request.Wait()
    group.Free()


def test_what_is_no_communicator_equals_none(MPI, things):
    for thing in (MPI.COMM_WORLD, MPI.REQUEST_NULL, *things):
        for other in (None, 5, "name"):
            assert (thing == other, thing != other) == (False, True)
            assert thing not in [other]
        assert type(thing)(thing) == thing
        assert thing in [None, thing]


def test_a_class_makes_objects_of_its_own_kind_only(MPI, world, between):
    request = world.Irecv(bytearray(1), MPI.PROC_NULL)
    for kind, other in (
        (MPI.Intercomm, world), (MPI.Intracomm, between), (MPI.Prequest, request),
        (MPI.Request, world), (MPI.Message, request), (MPI.Comm, MPI.COMM_WORLD.Get_group()),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            kind(other)
    assert MPI.Comm(between) == between
    request.Wait()


def test_what_is_predefined_is_not_given_back(MPI, world):
    for comm in MPI.COMM_WORLD, MPI.COMM_SELF:
        comm.free()
        assert comm.Get_size() in (1, world.size)
    copy = world.Dup()
    copy.free()
    copy.free()
    assert copy == MPI.COMM_NULL


def test_what_is_made_of_a_handle_is_of_the_module_s_own_class(MPI):
    persistent = MPI.Prequest(MPI.COMM_SELF.Send_init(b"", MPI.PROC_NULL))
    group = MPI.COMM_SELF.Get_group()
    for thing in group, persistent, MPI.Request(MPI.REQUEST_NULL), MPI.Message(MPI.MESSAGE_NULL):
        kind = type(thing)
        copies = [kind.f2py(thing.py2f())] if thing.py2f() != -1 else []
        if hasattr(kind, "fromhandle"):  # before 4.1 mpi4py had none
            copies.append(kind.fromhandle(thing.handle))
        for copy_of_it in copies:
            assert type(copy_of_it) is kind is getattr(MPI, kind.__name__)
            assert copy_of_it == thing
    persistent.Free()
    group.Free()


def test_groups_are_of_the_module_s_own_class(MPI, world, between):
    window = MPI.Win.Create(None, comm=MPI.COMM_SELF)
    groups = [world.group, world.Get_group(), between.remote_group, between.Get_remote_group()]
    for group in (*groups, window.group):
        assert type(group) is MPI.Group
        group.Free()
        assert group == MPI.GROUP_NULL
    window.Free()


def test_who_knows_what_it_is_compared_with_is_asked(things):
    class Anything:
        def __eq__(self, other):
            return True

        __hash__ = None

    world, *_ = things
    assert Anything() == world


def test_no_copy_is_taken_for_null(MPI, things):
    for thing in things:
        for attempt in (pickle.dumps, copy.copy, lambda it: copy.deepcopy({"it": it})):
            with pytest.raises(ValueError, match=r"serialize|pickle"):
                attempt(thing)
    for kind, constant in (
        (MPI.Request, MPI.REQUEST_NULL),
        (MPI.Group, MPI.GROUP_EMPTY),
        (MPI.Message, MPI.MESSAGE_NO_PROC),
    ):
        for thing in (constant, kind(constant)):
            assert pickle.loads(pickle.dumps(thing)) == constant


def test_arguments_of_constructors_have_names(MPI, things):
    world, group, request, message = things
    assert MPI.Intracomm(comm=world) == world
    assert MPI.Group(group=group) == group
    assert MPI.Request(request=request) == request
    assert MPI.Message(message=message) == message
    with pytest.raises(TypeError):
        MPI.Intracomm(other=world)


def test_copies_are_of_the_program_s_own_class(MPI, world):
    class Own(MPI.Intracomm):
        pass

    mine = Own(world)
    copies = [mine.Dup(), mine.Clone(), mine.Dup_with_info(MPI.INFO_NULL)]
    for made, request in (mine.Idup(), mine.Idup_with_info(MPI.INFO_NULL)):
        request.Wait()
        copies.append(made)
    for made in copies:
        assert type(made) is Own
        assert made.allreduce(1) == world.size
        made.Free()
    part = mine.Split()
    assert type(part) is MPI.Intracomm
    part.Free()


def test_copies_between_two_groups_are_of_the_program_s_own_class(MPI, between):
    class Own(MPI.Intercomm):
        pass

    made = Own(between).Dup()
    assert type(made) is Own
    made.barrier()
    made.Free()


def test_there_is_a_kind_of_no_communicator(MPI, world):
    group = world.Get_group()
    nobody = group.Incl([])
    for made in (world.Split(MPI.UNDEFINED), world.Create(nobody)):
        assert type(made) in (MPI.Intracomm, MPI.Intracomm._original)
        assert made == MPI.COMM_NULL
    group.Free()


def test_ours_and_mpi4py_s_of_the_same_ranks_are_congruent(MPI, several):
    world = MPI.COMM_WORLD
    turned = several.Split(0, -several.rank)
    same = MPI.CONGRUENT if several.size == 1 else MPI.SIMILAR
    for one, other, found in (
        (several, world, MPI.CONGRUENT),
        (several, several, MPI.IDENT),
        (turned, world, same),
        (several, MPI.COMM_SELF, MPI.CONGRUENT if several.size == 1 else MPI.UNEQUAL),
    ):
        assert one.Compare(other) == other.Compare(one) == found
    turned.Free()
    with pytest.raises(TypeError):
        several.Compare(None)


def test_groups_of_two_sides_are_compared_side_by_side(MPI, world, between_several):
    half = world.Split(between_several.Get_group().Get_size() and MPI.COMM_WORLD.rank % 2)
    other = half.Create_intercomm(0, world, 1 - MPI.COMM_WORLD.rank % 2, 9)
    assert between_several.Compare(other) == other.Compare(between_several) == MPI.CONGRUENT
    assert between_several.Compare(half) == half.Compare(between_several) == MPI.UNEQUAL
    other.Free()
    half.Free()


def test_methods_of_the_classes_take_mpi4py_s_own_objects(MPI):
    """As other packages call them: `MPI.Request.Free(request)`."""
    world = MPI.COMM_WORLD
    for free in (MPI.Request.Free, MPI.Request.free):
        request = world.isend("own", world.rank, 3)
        assert world.recv(source=world.rank, tag=3) == "own"
        free(request)
        assert request == MPI.REQUEST_NULL
    for free in (MPI.Comm.Free, MPI.Comm.free, MPI.Comm.Disconnect):
        grid = world.Create_cart([world.size])
        assert MPI.Comm.Get_attr(grid, MPI.TAG_UB) == grid.Get_attr(MPI.TAG_UB)
        free(grid)
        assert grid == MPI.COMM_NULL
    group = world.Get_group()
    other = MPI.Group.Dup(group)
    for each in (group, other):
        assert MPI.Group.Get_size(each) == world.size
        MPI.Group.Free(each)
        assert each == MPI.GROUP_NULL
