"""No method of mpi4py's classes runs on what MPI knows nothing of: ours has it, or refuses it."""

import numpy as np
import pytest

pytestmark = pytest.mark.mpi

REFUSED = {
    "Ack_failed", "Agree", "Cart_map", "Create_cart", "Create_dist_graph",
    "Create_dist_graph_adjacent", "Create_graph", "Get_failed", "Graph_map", "Iagree", "Ishrink",
    "Is_revoked", "Precv_init", "Psend_init", "Revoke", "Shrink", "handle", "py2f", "toint",
}  # fmt: skip
OF_THE_CLASS = {
    "Compute_dims", "Create_errhandler", "Create_from_group", "Create_from_groups", "Create_keyval",
    "Free_keyval", "Get_parent", "Join", "f2py", "fromhandle", "fromint",
}  # fmt: skip


THE_COMMUNICATOR_S = {
    "Accept", "Connect", "Create_intercomm", "Disconnect", "Free", "Spawn", "Spawn_multiple",
    "free",
}  # fmt: skip


def _is_there(body, name):
    try:
        getattr(body, name)
    except NotImplementedError:
        return False
    return True


def _refuses(comm, name):
    """Whether it says so, before it looks at arguments."""
    try:
        getattr(comm, name)()
    except NotImplementedError as error:
        return "several groups" in str(error) and "docs/spawn.md" in str(error)
    return False


def _check(comm):
    names = {name for name in dir(type(comm)) if not name.startswith("_")}
    names -= OF_THE_CLASS | THE_COMMUNICATOR_S
    missing = {name for name in names if not _is_there(comm._body, name)}
    assert missing <= REFUSED, missing - REFUSED
    assert [name for name in missing if not _refuses(comm, name)] == []


def test_each_method_is_there_or_refused(several):
    """What a new mpi4py brings is found here."""
    _check(several)


def test_each_method_of_two_groups_is_there_or_refused(between_several):
    _check(between_several)


def test_foreign_code_gets_nothing_that_it_would_take_for_null(MPI, several):
    request = several.Irecv(np.zeros(1), several.rank, 8)
    several.Send(np.zeros(1), several.rank, 7)
    message = several.Mprobe(several.rank, 7)
    for thing in (several, several.Get_group(), request, message):
        for ask in (
            lambda thing: thing.handle,
            lambda thing: thing.py2f(),
            *([lambda thing: thing.toint()] if hasattr(MPI.Comm, "toint") else []),  # since 4.2
            MPI._addressof,
            MPI._handleof,
        ):
            with pytest.raises(NotImplementedError, match=r"several groups.*docs/spawn.md"):
                ask(thing)
    message.Recv(np.zeros(1))
    request.Cancel()
    request.Wait()
    for thing in (request, message, MPI.COMM_WORLD.Get_group(), MPI.COMM_WORLD):
        assert MPI._addressof(thing)
        assert isinstance(thing.handle, int)


def test_what_is_freed_is_null(MPI, several):
    copy, group, request = several.Dup(), several.Get_group(), several.Ibarrier()
    for thing in (copy, group, request):
        assert thing
        thing.free()
        assert not thing
        thing.free()
    assert several.allreduce(1) == several.size


def test_what_is_made_of_a_handle_is_of_ours(MPI, several):
    made = MPI.Comm.f2py(MPI.COMM_WORLD.py2f())
    assert type(made) is MPI.Intracomm
    assert made == MPI.COMM_WORLD


def test_a_communicator_says_of_what_kind_it_is(MPI, world):
    assert (world.Is_intra(), world.is_intra) == (True, True)
    assert (world.Is_inter(), world.is_inter) == (False, False)
    assert world.Get_topology() == world.topology == MPI.UNDEFINED
    assert not world.is_topo


def test_a_communicator_of_two_groups_says_so(MPI, between):
    assert (between.Is_intra(), between.is_intra) == (False, False)
    assert (between.Is_inter(), between.is_inter) == (True, True)
    assert between.Get_topology() == between.topology == MPI.UNDEFINED
    assert not between.is_topo


def test_hints_are_kept_and_given_to_duplicates(MPI, several):
    """MPI's own keep those that they know."""
    info = MPI.Info.Create({"of the program": "first"})
    several.Set_info(info)
    info["another"] = "second"
    info.Free()
    more = MPI.Info.Create({"another": "third"})
    copy = several.Dup_with_info(more)
    more.Free()
    several.info = MPI.INFO_NULL
    for comm, expected in (
        (several, {"of the program": "first"}),
        (copy, {"of the program": "first", "another": "third"}),
    ):
        for found in (comm.Get_info(), comm.info):
            assert dict(found) == expected
            found.Free()
    copy.Free()


def test_hints_that_are_unknown_do_no_harm(MPI, world):
    info = MPI.Info.Create({"of the program": "value"})
    world.Set_info(info)
    info.Free()
    found = world.Get_info()
    assert isinstance(found, MPI.Info)
    found.Free()
    assert world.allreduce(1) == world.size


def test_groups_of_a_session_are_of_the_module_s_own_class(MPI, several):
    session = MPI.Session.Init()
    group = MPI.Group.Create_from_session_pset(session, "mpi://SELF")
    assert type(group) is MPI.Group
    comm = MPI.Intracomm.Create_from_group(group, "alone")
    assert type(comm) is MPI.Intracomm
    assert comm.allreduce(several.rank) == several.rank
    comm.Free()
    group.Free()
    session.Finalize()
