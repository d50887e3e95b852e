"""Requests that have failed, and those of both kinds in one list."""

import numpy as np
import pytest

pytestmark = pytest.mark.mpi


def receive_too_little(comm):
    """Return a receive that fails, and its send, which comes first: else Open MPI says nothing."""
    sent = comm.Isend(np.zeros(9), comm.rank, 2)
    comm.Probe(comm.rank, 2)
    return comm.Irecv(np.zeros(1), comm.rank, 2), sent


def until_true(ask, *given):
    while ask(*given) in (False, (False, None)):
        pass


@pytest.mark.parametrize("name", ["Test", "test", "Wait", "wait"])
def test_who_asks_hears_once_that_a_message_is_too_long(MPI, world, name):
    status = MPI.Status()
    request, sent = receive_too_little(world)
    with pytest.raises(MPI.Exception) as caught:
        until_true(getattr(request, name), status)
    assert caught.value.Get_error_class() == MPI.ERR_TRUNCATE
    assert request == MPI.REQUEST_NULL
    assert (status.Get_source(), status.Get_tag()) == (world.rank, 2)
    assert getattr(request, name)() in (True, (True, None), None)
    sent.Wait()


@pytest.mark.parametrize(
    "name",
    [
        *("Waitall", "Waitany", "Waitsome", "Testall", "Testany", "Testsome"),
        *("waitall", "waitany", "waitsome", "testall", "testany", "testsome"),
    ],
)
@pytest.mark.parametrize("of", ["ours", "both"])
def test_one_that_has_failed_hides_no_other(MPI, several, of, name):
    rank, second = several.rank, several if of == "ours" else MPI.COMM_WORLD
    room, found = np.zeros(1), np.zeros(2)
    requests = [several.Irecv(room, rank, 2), second.Irecv(found, rank, 3)]
    sent = [several.Isend(np.zeros(9), rank, 2), second.Isend(np.ones(2), rank, 3)]
    failures = []
    while len(failures) < 3 and requests != [MPI.REQUEST_NULL] * 2:
        try:
            getattr(MPI.Request, name)(requests)
        except MPI.Exception as error:
            failures.append(error.Get_error_class())
    assert failures == [MPI.ERR_TRUNCATE]
    assert found.tolist() == [1, 1]
    MPI.Request.Waitall(sent)


def test_a_failure_of_mpi4py_s_own_hides_no_other(MPI, several):
    rank, found = several.rank, np.zeros(2)
    failing, first = receive_too_little(MPI.COMM_WORLD)
    requests, sent = [failing, several.Irecv(found, rank, 3)], [first]
    sent.append(several.Isend(np.ones(2), rank, 3))
    left, failures = {0, 1}, 0
    while left:
        try:
            left.discard(MPI.Request.Waitany(requests))
        except MPI.Exception:
            failures += 1
            left.discard(0)
    assert failures == 1
    assert requests == [MPI.REQUEST_NULL] * 2
    assert found.tolist() == [1, 1]
    MPI.Request.Waitall(sent)


def test_a_status_says_what_was_wrong(MPI, world):
    request, sent = receive_too_little(world)
    statuses = [MPI.Status()]
    with pytest.raises(MPI.Exception):
        MPI.Request.Waitall([request], statuses)
    assert MPI.Get_error_class(statuses[0].Get_error()) == MPI.ERR_TRUNCATE
    sent.Wait()


def test_a_failure_that_is_looked_at_stays(MPI, several):
    request, sent = receive_too_little(several)
    for _ in range(2):
        with pytest.raises(MPI.Exception):
            until_true(request.Get_status)
    for call in (lambda: MPI.Request.Get_status_all([request]), request.Wait):
        with pytest.raises(MPI.Exception):
            call()
    assert request == MPI.REQUEST_NULL
    sent.Wait()


@pytest.mark.parametrize("name", ["Waitall", "waitall"])
def test_who_waits_for_both_kinds_still_answers(MPI, several, name):
    """The second message is sent when the first has been received, which needs the receiver."""
    first, second = np.zeros(2), np.zeros(2)
    if several.rank == 0:
        for source in range(1, several.size):
            receives = [MPI.COMM_WORLD.Irecv(second, source, 5), several.Irecv(first, source, 6)]
            getattr(MPI.Request, name)(receives)
            assert (first.tolist(), second.tolist()) == ([1, 1], [2, 2])
    else:
        several.Ssend(np.ones(2), 0, 6)
        MPI.COMM_WORLD.Send(np.full(2, 2.0), 0, 5)


def test_statuses_may_be_too_few(MPI, world):
    request = world.Isend(np.zeros(1), MPI.PROC_NULL)
    assert MPI.Request.Waitall([request], ())
    request, statuses = world.Isend(np.zeros(1), MPI.PROC_NULL), []
    MPI.Request.Waitall([request], statuses)
    assert isinstance(statuses[0], MPI.Status)


def calls_that_look(MPI, spelled, of):
    """Return the calls that look for any, some and all requests."""
    if of == "mpi4py" and MPI.Get_version() < (4, 1):
        pytest.skip("this MPI has no Get_status_any, Get_status_some and Get_status_all")
    return [getattr(MPI.Request, f"{spelled}_{what}") for what in ("any", "some", "all")]


@pytest.mark.parametrize("of", ["mpi4py", "ours", "both"])
@pytest.mark.parametrize("spelled", ["Get_status", "get_status"])
def test_who_looks_at_several_leaves_them_as_they_are(MPI, several, of, spelled):
    look_any, look_some, look_all = calls_that_look(MPI, spelled, of)
    world = MPI.COMM_WORLD
    kinds = {"mpi4py": [world] * 3, "ours": [several] * 3, "both": [several, world, several]}[of]
    rank, rooms = several.rank, np.zeros((3, 1))
    requests = [comm.Irecv(rooms[i], rank, i) for i, comm in enumerate(kinds)]
    assert look_any(requests) == (MPI.UNDEFINED, False)
    assert look_some(requests) == []
    assert not look_all(requests)
    kinds[1].Send(np.ones(1), rank, 1)
    status = MPI.Status()
    while (found := look_any(requests, status)) != (1, True):
        assert found == (MPI.UNDEFINED, False)
    assert (status.Get_source(), status.Get_tag()) == (rank, 1)
    assert look_some(requests) == [1]
    assert not look_all(requests)
    for tag in (0, 2):
        kinds[tag].Send(np.ones(1), rank, tag)
    statuses = []
    while not look_all(requests, statuses):
        pass
    assert [status.Get_tag() for status in statuses] == [0, 1, 2]
    assert MPI.REQUEST_NULL not in requests
    MPI.Request.Waitall(requests)
    assert (rooms == 1).all()


@pytest.mark.parametrize("of", ["mpi4py", "ours"])
@pytest.mark.parametrize("spelled", ["Get_status", "get_status"])
def test_who_looks_where_there_is_nothing_to_wait_for_hears_so(MPI, several, of, spelled):
    look_any, look_some, look_all = calls_that_look(MPI, spelled, of)
    comm = several if of == "ours" else MPI.COMM_WORLD
    idle = comm.Recv_init(np.zeros(1), comm.rank)
    for requests in ([idle], [idle, MPI.REQUEST_NULL]):
        assert look_any(requests) == (MPI.UNDEFINED, True)
        assert look_some(requests) is None
        assert look_all(requests)
    idle.Free()


@pytest.mark.parametrize("name", ["Cancel", "cancel"])
def test_a_status_says_that_a_request_was_taken_back(MPI, world, name):
    request, status = world.Irecv(np.zeros(1), world.rank, 9), MPI.Status()
    getattr(request, name)()
    request.Wait(status)
    assert status.cancelled
    request, status = world.Irecv(np.zeros(4), world.rank, 9), MPI.Status()
    world.Send(np.zeros(3), world.rank, 9)
    request.Wait(status)
    assert not status.cancelled
    assert (status.source, status.tag, status.count) == (world.rank, 9, 24)
    assert status.Get_elements(MPI.DOUBLE) == status.Get_count(MPI.DOUBLE) == 3


def test_a_request_without_partitions_refuses_them(MPI, several):
    """MPICH would look where there is no memory."""
    request = several.Send_init(np.zeros(4), several.rank)
    for call, given in (
        (request.Pready, (0,)),
        (request.Pready_range, (0, 1)),
        (request.Pready_list, ([0, 1],)),
        (request.Parrived, (0,)),
    ):
        with pytest.raises(MPI.Exception) as caught:
            call(*given)
        assert caught.value.Get_error_class() == MPI.ERR_REQUEST
        assert "no partitions" in caught.value.__notes__[0]
        assert "Psend_init" in caught.value.__notes__[0]
    request.Free()
