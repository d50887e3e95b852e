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
