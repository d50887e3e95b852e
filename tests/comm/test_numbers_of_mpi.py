"""What an MPI calls any rank, any tag and nobody means that here, once it is loaded."""

import sys

import numpy as np
import pytest
from support import alone, refused, right

import acp_mpi as acp

pytestmark = pytest.mark.mpi

MPI = pytest.importorskip("mpi4py.MPI")


def left():
    return (acp.rank() - 1) % acp.procs()


def test_our_numbers_are_far_from_those_of_any_mpi():
    assert (acp.ANY_SOURCE, acp.ANY_TAG) == (-1001, -1002)
    status = acp.Status()
    assert (status.source, status.tag) == (acp.ANY_SOURCE, acp.ANY_TAG)


@pytest.mark.parametrize("source", [acp.ANY_SOURCE, MPI.ANY_SOURCE])
@pytest.mark.parametrize("tag", [acp.ANY_TAG, MPI.ANY_TAG])
def test_anything_is_received_by_the_numbers_of_both(source, tag):
    def arrived(status):
        return status.source, status.tag

    for _ in range(4):
        acp.send("x", right(), 3)
    status = acp.Status()
    assert acp.recv(None, source, tag, status) == "x"
    assert arrived(status) == (left(), 3)
    assert acp.irecv(None, source, tag).wait() == "x"
    assert arrived(acp.probe(source, tag)) == arrived(acp.iprobe(source, tag)) == (left(), 3)
    assert acp.improbe(source, tag).recv() == acp.mprobe(source, tag).recv() == "x"
    assert acp.sendrecv("x", right(), 3, None, source, tag) == "x"


def test_from_nobody_nothing_comes_though_a_message_waits():
    acp.send("x", acp.rank(), 3)
    status, room = acp.Status(), np.full(3, 7.0)
    assert acp.recv(None, MPI.PROC_NULL) is None
    assert acp.recv(room, MPI.PROC_NULL, 3, status) is room
    assert acp.recv(room[::2], MPI.PROC_NULL).sum() == 14
    assert acp.recv(room, np.int32(MPI.PROC_NULL), timeout=0) is room
    assert (status.source, status.tag, status.size) == (MPI.PROC_NULL, acp.ANY_TAG, 0)
    request = acp.irecv(room, MPI.PROC_NULL)
    assert request.done
    assert request.test()
    assert request.wait() is room
    assert request.status.source == MPI.PROC_NULL
    assert (room == 7).all()
    assert acp.recv(source=acp.rank()) == "x"


def test_to_nobody_nothing_is_sent():
    assert acp.send("x", MPI.PROC_NULL) is None
    assert acp.isend(np.zeros(3), MPI.PROC_NULL, 3).wait() is None
    acp.send("x", acp.rank(), 3)
    assert acp.sendrecv("y", MPI.PROC_NULL, 3, None, acp.rank(), 3) == "x"
    assert acp.sendrecv("y", acp.rank(), 3, None, MPI.PROC_NULL) is None
    assert acp.recv(None, acp.rank(), 3) == "y"
    acp.sync()
    assert acp.iprobe() is None


def test_a_look_for_what_nobody_sends_is_over_at_once():
    acp.send("x", acp.rank(), 3)
    for look in (acp.probe, acp.iprobe):
        assert look(MPI.PROC_NULL).source == MPI.PROC_NULL
    for look in (acp.mprobe, acp.improbe):
        message, room = look(MPI.PROC_NULL), np.full(3, 7.0)
        assert (message.status.source, message.status.size) == (MPI.PROC_NULL, 0)
        assert message.recv(room) is message.irecv(room).wait() is room
        assert message.recv() is None
    assert acp.recv() == "x"


def test_a_ring_with_open_ends_needs_no_conditions():
    """The idiom of halo exchanges."""
    r, n = acp.rank(), acp.procs()
    before, after = r - 1 if r else MPI.PROC_NULL, r + 1 if r + 1 < n else MPI.PROC_NULL
    halo = np.full(1, -1.0)
    acp.sendrecv(np.array([float(r)]), after, 0, halo, before)
    assert halo[0] == r - 1 if r else -1


def test_other_negative_numbers_are_errors():
    for number in (-7, -1003, -(2**70)):
        with refused(acp.RankError, "recv", number, "ranks are 0 to"):
            acp.recv(source=number)
        with refused(acp.RankError, "send", number):
            acp.send("x", number)
        with refused(ValueError, "recv", number, "ANY_TAG"):
            acp.recv(tag=number)
    with refused(acp.RankError, "send", "ranks are 0 to"):
        acp.send("x", acp.ANY_SOURCE)
    with refused(ValueError, "send", "is no tag"):
        acp.send("x", acp.rank(), acp.ANY_TAG)


def test_without_mpi4py_its_numbers_are_errors(monkeypatch):
    monkeypatch.delitem(sys.modules, "mpi4py.MPI")
    if alone():
        for number in {MPI.ANY_SOURCE, MPI.PROC_NULL}:
            with refused(acp.RankError, "recv", number):
                acp.recv(source=number)
        with refused(ValueError, "recv", MPI.ANY_TAG):
            acp.recv(tag=MPI.ANY_TAG)
