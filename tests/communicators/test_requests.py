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
