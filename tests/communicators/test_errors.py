"""What errors call: handlers, and what the functions of attributes raise."""

import contextlib

import numpy as np
import pytest

pytestmark = pytest.mark.mpi


@contextlib.contextmanager
def handled(MPI, comm, heard):
    """Have the errors of a communicator append what their handler is told."""
    handler = MPI.Comm.Create_errhandler(
        lambda comm_, code: heard.append((comm_ == comm, MPI.Get_error_class(code)))
    )
    before = comm.Get_errhandler()
    comm.Set_errhandler(handler)
    try:
        yield handler
    finally:
        comm.Set_errhandler(before)
        handler.Free()
        before.Free()


def test_a_handler_hears_of_an_error_before_it_is_raised(MPI, world):
    heard = []
    with handled(MPI, world, heard):
        with contextlib.suppress(MPI.Exception):  # under MPICH the call has done nothing, and ends
            world.send(None, world.size)
            assert world._body is None
            assert "MPICH" in MPI.Get_library_version()
        assert heard == [(True, MPI.ERR_RANK)]
        world.Call_errhandler(MPI.SUCCESS)
        world.Call_errhandler(MPI.ERR_OTHER)
        assert heard == [(True, code) for code in (MPI.ERR_RANK, MPI.SUCCESS, MPI.ERR_OTHER)]
    with pytest.raises(MPI.Exception):
        world.send(None, world.size)
    assert len(heard) == 3


def test_a_handler_hears_of_what_a_request_raises(MPI, several):  # MPIs call others there
    heard = []
    with handled(MPI, several, heard):
        request = several.Irecv(np.zeros(1), several.rank)
        several.Send(np.zeros(2), several.rank)
        with pytest.raises(MPI.Exception):
            request.Wait()
        again = several.Recv_init(np.zeros(1), several.rank)
        again.Start()
        several.Send(np.zeros(2), several.rank)
        with pytest.raises(MPI.Exception):
            MPI.Request.Waitall([again])
    again.Free()
    assert heard == [(True, MPI.ERR_TRUNCATE)] * 2


def test_a_handler_is_given_back_by_each_who_got_it(MPI, world):
    with handled(MPI, world, []) as handler:
        got = [world.Get_errhandler() for _ in range(40)]
        assert [each for each in got if each != handler] == []
        for each in got:
            each.Free()
            assert each == MPI.ERRHANDLER_NULL
        again = world.Get_errhandler()
        assert again == handler
        again.Free()
    first = world.Get_errhandler()
    assert first == MPI.ERRORS_RETURN
    first.Free()


@pytest.mark.parametrize("make", ["Dup", "Split", "Create"])
def test_a_new_communicator_raises_whatever_its_parent_does(MPI, world, make):
    heard = []
    with handled(MPI, world, heard):
        made = world.Create(world.group) if make == "Create" else getattr(world, make)()
        with pytest.raises(MPI.Exception):
            made.send(None, made.size)
        made.Free()
    assert heard == []


def test_a_handler_that_is_freed_works_where_it_is_set(MPI, world):
    heard = []
    handler = MPI.Comm.Create_errhandler(lambda comm, code: heard.append(code))
    world.Set_errhandler(handler)
    handler.Free()
    world.Call_errhandler(MPI.ERR_OTHER)
    assert list(map(MPI.Get_error_class, heard)) == [MPI.ERR_OTHER]
    world.Set_errhandler(MPI.ERRORS_RETURN)


@pytest.mark.parametrize("wrong", [None, 7, "fatal"])
def test_what_is_no_handler_is_refused(MPI, world, wrong):
    with pytest.raises(TypeError):
        world.Set_errhandler(wrong)
    with pytest.raises(MPI.Exception):
        world.Set_errhandler(MPI.ERRHANDLER_NULL)


def test_what_a_function_of_an_attribute_raises_is_printed(MPI, world, capfd):
    def refuse(*_):
        raise ValueError("this one is kept")

    keyval = MPI.Comm.Create_keyval(refuse, refuse)
    world.Set_attr(keyval, "value")
    with pytest.raises(MPI.Exception) as raised:
        world.Dup()
    assert raised.value.Get_error_class() == MPI.ERR_OTHER
    with pytest.raises(MPI.Exception) as raised:
        world.Delete_attr(keyval)
    assert raised.value.Get_error_class() == MPI.ERR_OTHER
    assert world.Get_attr(keyval) is None
    assert capfd.readouterr().err.count("ValueError: this one is kept") == 2
    world.Set_attr(keyval, "once more")
    world.Free()
    MPI.Comm.Free_keyval(keyval)
    assert "this one is kept" in capfd.readouterr().err


def test_a_node_is_split_by_its_memory_only(MPI, world):
    shared = MPI.Info.Create({"mpi_hw_resource_type": "mpi_shared_memory"})
    together = world.Split_type(MPI.COMM_TYPE_HW_GUIDED, info=shared)
    alike = world.Split_type(MPI.COMM_TYPE_SHARED)
    assert together.allgather(world.rank) == alike.allgather(world.rank)
    together.Free()
    alike.Free()
    unknown = MPI.Info.Create({"mpi_hw_resource_type": "no such thing"})
    for info in (MPI.INFO_NULL, unknown):
        assert world.Split_type(MPI.COMM_TYPE_HW_GUIDED, info=info) == MPI.COMM_NULL
    shared.Free()
    unknown.Free()


class Unpackable:
    """An object that cannot be unpacked again."""

    def __reduce__(self):
        return (int, ("no number",))


def test_a_handler_hears_of_mpi_s_errors_only(MPI, several):
    heard = []
    with handled(MPI, several, heard):
        several.send(Unpackable(), several.rank)
        with pytest.raises(ValueError, match="no number"):
            several.recv(source=several.rank)
        several.send(Unpackable(), several.rank)
        with pytest.raises(ValueError, match="no number"):
            several.irecv(source=several.rank).wait()
        with pytest.raises(TypeError):
            several.send(None, "nobody")
        with pytest.raises(NotImplementedError):
            several.Create_cart([1])
    assert heard == []
