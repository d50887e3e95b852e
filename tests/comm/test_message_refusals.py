"""What is no rank, tag or buffer is refused by name, and nothing is sent."""

import numpy as np
import pytest
from support import refused

import acp_mpi as acp

pytestmark = pytest.mark.mpi

SENDS = {
    "send": lambda *args: acp.send(b"x", *args),
    "isend": lambda *args: acp.isend(b"x", *args),
    "sendrecv": lambda *args: acp.sendrecv(b"x", *args),
}
RECEIVES = {
    "recv": lambda *args: acp.recv(None, *args),
    "irecv": lambda *args: acp.irecv(None, *args),
    "probe": acp.probe,
    "iprobe": acp.iprobe,
    "mprobe": acp.mprobe,
    "improbe": acp.improbe,
}


@pytest.fixture(autouse=True)
def nothing_was_sent():
    yield
    acp.sync()
    assert acp.iprobe() is None


@pytest.mark.parametrize("name", [*SENDS, *RECEIVES])
def test_ranks_that_do_not_exist(name):
    call = SENDS.get(name) or RECEIVES[name]
    for rank in (acp.procs(), 10**6, -7, 2**70, *([acp.ANY_SOURCE] if name in SENDS else [])):
        with refused(acp.RankError, name, rank, f"0 to {acp.procs() - 1}"):
            call(rank)
    for rank in (0.0, "0", None):
        with pytest.raises(TypeError, match=f"{name}: a rank must be an integer"):
            call(rank)


@pytest.mark.parametrize("name", [*SENDS, *RECEIVES])
def test_tags_that_are_none(name):
    call = SENDS.get(name) or RECEIVES[name]
    for tag in (-7, 2**62 + 1, 2**64, -(2**70), *([acp.ANY_TAG] if name in SENDS else [])):
        with refused(ValueError, name, tag, "2**62"):
            call(0, tag)
    for tag in (1.0, "1", None, np.float64(1)):
        with pytest.raises(TypeError, match=f"{name}: a tag must be an integer"):
            call(0, tag)


def test_integers_of_numpy_are_ranks_and_tags():
    acp.send("x", np.int64(acp.rank()), np.uint8(3))
    assert acp.recv(source=np.int32(acp.rank()), tag=np.int64(3)) == "x"


def test_a_destination_that_is_read_only():
    array = np.zeros(3)
    array.flags.writeable = False
    for room in (b"abc", array, memoryview(b"abc")):
        with refused(ValueError, "recv", "read-only"):
            acp.recv(room)
        with refused(ValueError, "irecv", "read-only"):
            acp.irecv(room)


def test_a_destination_that_is_no_buffer():
    for room in (3, "text", [1, 2], object()):
        with pytest.raises(TypeError, match=r"recv: .* is not a buffer: "):
            acp.recv(room)
    with pytest.raises(TypeError, match="recv: an array of Python objects"):
        acp.recv(np.zeros(3, object))


class OnNoDevice:
    def __init__(self):
        self.__cuda_array_interface__ = {"shape": (1,), "typestr": "|u1", "data": (0, False)}


def test_memory_of_a_device_that_there_is_not():
    with pytest.raises(acp.DeviceError, match=r"^send: "):
        acp.send(OnNoDevice(), 0)
    with pytest.raises(acp.DeviceError, match=r"^recv: "):
        acp.recv(OnNoDevice())


def test_timeouts_that_are_none():
    for call in (acp.recv, acp.probe, acp.mprobe, lambda timeout: acp.send(1, 0, timeout=timeout)):
        with pytest.raises(ValueError, match="the timeout -1 is not"):
            call(timeout=-1)
        with pytest.raises(ValueError, match="the timeout '1' is not"):
            call(timeout="1")


@pytest.mark.parametrize("timeout", [-1, "1", float("nan"), [], 1j])
def test_timeouts_of_many_requests_that_are_none(timeout):
    for function in (acp.waitall, acp.waitany):
        with pytest.raises(ValueError, match=f"{function.__name__}: the timeout .* not a number"):
            function([], timeout)


def test_a_status_is_a_status():
    acp.send(1, acp.rank())
    with refused(TypeError, "recv", "{}", "acp.Status()"):
        acp.recv(status={})
    with refused(TypeError, "sendrecv", "{}", "acp.Status()"):
        acp.sendrecv(1, acp.rank(), status={})
    assert acp.recv() == 1
