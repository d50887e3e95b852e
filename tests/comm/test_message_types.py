"""A receive takes no elements of another type: it ends untouched, and the message stays."""

import array
from typing import Any

import numpy as np
import pytest
from support import pattern, refused, right

import acp_mpi as acp

pytestmark = pytest.mark.mpi

RECORD, OTHER = np.dtype("f4,i4"), np.dtype([("a", "f4"), ("b", "i4")])
PAIRS = [
    ("f8", "f4"),
    ("f8", "i8"),
    ("i8", "u8"),
    ("f8", ">f8"),
    ("?", "i1"),
    ("f4", "i4"),
    (RECORD, OTHER),
    (RECORD, "f8"),
    ("f8", RECORD),
    ("M8[s]", "M8[ms]"),
    ("U2", "S8"),
]
SIZES = [1, 8, 100, 20_000]  # in a box, in an entry, in a block, copied by both


def left() -> int:
    return (acp.rank() - 1) % acp.procs()


def room_of(n: int, dtype: Any) -> np.ndarray:
    return pattern(n * np.dtype(dtype).itemsize, 5).view(dtype)


def untouched(room: np.ndarray) -> bool:
    return room.tobytes() == room_of(len(room), room.dtype).tobytes()


def given(n: int, dtype: Any) -> np.ndarray:
    return np.arange(n).astype("i4").astype(dtype)


def name(dtype: Any) -> str:
    return str(np.dtype(dtype))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("sent", "wanted"), PAIRS, ids=str)
def test_a_message_that_has_come(sent: Any, wanted: Any, size: int) -> None:
    x, room = given(size, sent), room_of(3 * size, wanted)
    acp.send(x, right(), 3)
    acp.probe(left(), 3)
    for function, receive in {
        "recv": lambda: acp.recv(room, left(), 3),
        "irecv": lambda: acp.irecv(room, left(), 3).wait(),
        "sendrecv": lambda: acp.sendrecv(b"", right(), 4, room, left(), 3),
    }.items():
        with refused(TypeError, function, f"from rank {left()}, tag 3", name(sent), name(wanted)):
            receive()
        assert untouched(room)
    assert acp.iprobe(left(), 3) is not None
    got = acp.recv(source=left(), tag=3)
    assert got.dtype == x.dtype
    assert (got == x).all()
    assert acp.recv(source=left(), tag=4) == b""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("sent", "wanted"), PAIRS[:8:3], ids=str)
def test_receives_that_wait_already(sent: Any, wanted: Any, size: int) -> None:
    """Those before the first that fits end; that one gets it, those behind it go on waiting."""
    x, rooms = given(size, sent), [room_of(3 * size, wanted) for _ in range(3)]
    requests = [acp.irecv(rooms[0], left(), 3), acp.irecv(rooms[1], tag=3)]
    fitting = acp.irecv(np.zeros(size, sent), left(), 3)
    behind = acp.irecv(rooms[2], left(), 3)
    acp.sync()
    acp.send(x, right(), 3)
    assert (fitting.wait() == x).all()
    for request in requests:
        theirs = [] if sent is RECORD else [name(sent)]  # who has received it knows what it was
        with refused(TypeError, "irecv", name(wanted), *theirs):
            request.wait(timeout=60)
        with pytest.raises(TypeError):
            request.test()
    assert not behind.done
    assert behind.cancel()
    assert all(map(untouched, rooms))
    acp.sync()
    assert acp.iprobe() is None


@pytest.mark.parametrize("size", SIZES)
def test_one_that_waits_asleep_is_woken(size: int) -> None:
    x, room = given(size, "f8"), room_of(size, "f4")
    if acp.procs() > 1 and acp.rank() == 0:
        with refused(TypeError, "recv", "float64", "float32"):
            acp.recv(room, 1, 3)
        assert untouched(room)
        assert (acp.recv(np.zeros(size), 1, 3) == x).all()
    elif acp.rank() == 1:
        acp.probe(1, 9, timeout=60) if acp.send(b"", 1, 9) else acp.recv(source=1, tag=9)
        acp.send(x, 0, 3)


def test_a_message_that_a_probe_has_taken() -> None:
    acp.send(given(3, "f8"), right(), 3)
    message, room = acp.mprobe(left(), 3), room_of(3, "f4")
    with refused(TypeError, "Message.recv", "float64", "float32"):
        message.recv(room)
    with refused(TypeError, "Message.irecv", "float64", "float32"):
        message.irecv(room)
    assert untouched(room)
    assert (message.recv(np.zeros(3)) == range(3)).all()


def test_an_object_is_for_no_buffer() -> None:
    room = bytearray(b"12345678")
    acp.send({"a": 1}, right(), 3)
    for receive in (acp.recv, lambda *args: acp.irecv(*args).wait()):
        with refused(TypeError, "recv|irecv", "pickled object", "receive it without one"):
            receive(room, left(), 3)
    assert room == b"12345678"
    assert acp.recv(source=left(), tag=3) == {"a": 1}


@pytest.mark.parametrize("size", [1, 100])
def test_bytes_go_with_any_type(size: int) -> None:
    x = given(size, "f8")
    for sent, room in (
        (x, np.zeros(8 * size, "u1")),
        (x, bytearray(8 * size)),
        (x.view("u1"), np.zeros(size)),
        (x.tobytes(), np.zeros(size)),
        (bytearray(x.tobytes()), np.zeros(size, RECORD)),
        (x.view(RECORD), memoryview(bytearray(8 * size))),
    ):
        acp.send(sent, right(), 3)
        acp.recv(room, left(), 3)
        assert bytes(room) == x.tobytes()


@pytest.mark.parametrize(
    ("sent", "wanted"),
    [
        (np.arange(3, dtype="l"), np.zeros(3, "q")),
        (np.arange(3, dtype="q"), np.zeros((1, 3), "l")),
        (array.array("d", [0, 1, 2]), np.zeros(3)),
        (np.arange(3.0), array.array("d", bytes(24))),
        (memoryview(np.arange(3, dtype="i4")), np.zeros(6, "i4")[::2]),
        (np.zeros(3, RECORD), np.zeros(3, RECORD)),
        (np.zeros(3, "M8[s]"), np.zeros(3, "M8[s]")),
    ],
    ids=range(7),
)
def test_equal_types_by_other_names_are_one(sent: Any, wanted: Any) -> None:
    acp.send(sent, right(), 3)
    acp.recv(wanted, left(), 3)
    assert np.asarray(wanted).reshape(-1).tolist() == np.asarray(sent).tolist()


def test_what_is_no_array_has_a_type_too() -> None:
    acp.send(array.array("d", [1.0]), right(), 3)
    with refused(TypeError, "recv", "float64", "int64"):
        acp.recv(array.array("q", [0]), left(), 3)
    assert acp.recv(array.array("d", [0.0]), left(), 3)[0] == 1
    acp.send(np.arange(4.0), right(), 3)
    with refused(TypeError, "recv", "float64", "float32"):
        acp.recv(np.zeros(8, "f4")[::2], left(), 3)
    assert len(acp.recv(source=left(), tag=3)) == 4
