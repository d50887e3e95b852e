"""What travels: buffers as bytes, arrays as arrays, anything else pickled."""

import array
import ctypes
import datetime
import decimal
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support import case, refused, right, tries

import acp_mpi as acp

pytestmark = pytest.mark.mpi

TYPES = [*np.typecodes["All"].replace("O", ""), ">i4", ">f8", ">i8", ">c16", ">g", ">G"]
TYPES += ["S5", "U3", "V7", "M8[ns]", "m8[D]"]
TYPES += [[("a", "i4"), ("b", "f8", (2, 3))], np.dtype("i4,f8", align=True)]
SHAPES = [(), (0,), (7,), (3, 4), (2, 3, 4), (0, 5), (5, 0), (1, 2, 1, 3, 1, 2, 1), (1,) * 9]


def left():
    return (acp.rank() - 1) % acp.procs()


def travels(x):
    """Send `x` around by one; return what came."""
    acp.send(x, right())
    return acp.recv(source=left(), timeout=600)


def filled(shape, dtype):
    dtype = np.dtype(dtype)
    result = np.zeros(shape, dtype)
    if dtype.kind in "biufcmM" and result.nbytes:
        raw = result.reshape(-1).view("u1")
        raw[:] = np.arange(raw.size) % 2
    return result


def test_an_array_of_every_type_arrives_equal():
    for dtype, shape in itertools.product(TYPES, SHAPES):
        with case(dtype, shape):
            x = filled(shape, dtype)
            y = travels(x)
            assert type(y) is np.ndarray
            assert (y.dtype, y.shape) == (x.dtype, x.shape)
            assert y.tobytes() == x.tobytes()
            assert y.flags.writeable


def test_an_array_of_every_type_fills_a_buffer():
    for dtype in TYPES:
        with case(dtype):
            x = filled(11, dtype)
            room = np.zeros(11, dtype)
            acp.send(x, right())
            assert acp.recv(room, left()) is room
            assert room.tobytes() == x.tobytes()


def test_arrays_that_are_not_contiguous_are_packed():
    base = np.arange(600.0).reshape(20, 30)
    for x in (base[::2], base[:, ::3], base.T, base[::-1], np.broadcast_to(base[0], (4, 30))):
        assert (travels(x) == x).all()


def test_large_arrays_of_unusual_shape():
    for x in (np.arange(70_000).reshape(-1, 1, 7), np.zeros((1, 1 << 20), "u1"),
              np.zeros((2, 2, 2, 2, 2, 2, 300), "u1"), np.zeros(100_000, "M8[s]")):  # fmt: skip
        y = travels(x)
        assert y.shape == x.shape
        assert (y == x).all()


def test_read_only_arrays_are_sent():
    x = np.arange(10)
    x.flags.writeable = False
    assert (travels(x) == x).all()


def test_buffers_without_a_type_arrive_as_bytes():
    for x in (b"abc", bytearray(b"abc"), memoryview(b"abc"), array.array("b", b"abc"),
              (ctypes.c_char * 3)(*b"abc"), memoryview(b"aXbXc")[::2]):  # fmt: skip
        assert travels(x) == b"abc"
        assert type(travels(x)) is bytes
    assert travels(b"") == b""


def test_an_array_of_global_memory_arrives_as_an_array():
    x = acp.zeros((3, 4), np.float32)
    x[:] = acp.rank()
    assert (travels(x) == left()).all()


class Interface:
    """Has NumPy's interface and nothing else."""

    def __init__(self, x):
        self.x = x
        self.__array_interface__ = x.__array_interface__


def test_whatever_has_the_array_interface_is_an_array():
    assert (travels(Interface(np.arange(4))) == np.arange(4)).all()


OBJECTS = [
    None, True, 0, -1, 2**100, 1.5, 1j, "", "text ü", (1, "a"), [1, [2]], {"a": {1, 2}}, range(3),
    datetime.date(2020, 2, 29), decimal.Decimal("1.10"), Ellipsis, slice(1, 2), int,
]  # fmt: skip


@pytest.mark.parametrize("x", OBJECTS, ids=repr)
def test_objects_are_pickled(x):
    y = travels(x)
    assert (type(y), y) == (type(x), x)


def test_numpy_scalars_and_arrays_of_objects_stay_what_they_are():
    y = travels(np.float32(2.5))
    assert (type(y), y) == (np.float32, 2.5)
    y = travels(np.array([1, "two", None], object))
    assert y.dtype == object
    assert y.tolist() == [1, "two", None]


def test_the_mask_of_an_array_is_not_lost():
    y = travels(np.ma.array([1, 2, 3], mask=[False, True, False]))
    assert y.mask.tolist() == [False, True, False]


def test_a_long_object():
    x = {rank: np.arange(300_000) + rank for rank in range(3)}
    y = travels(x)
    assert all((x[key] == y[key]).all() for key in x)


def test_an_object_that_cannot_be_pickled_is_not_sent():
    with pytest.raises((TypeError, AttributeError)) as caught:
        acp.send(lambda: 1, right())
    assert "send: this function cannot be pickled" in caught.value.__notes__[0]
    acp.sync()
    assert acp.iprobe() is None


class Refuses:
    def __reduce__(self):
        return _refuse, ()


def _refuse():
    raise ArithmeticError("not here")


def test_an_object_that_cannot_be_unpickled_is_an_error_of_its_receive():
    acp.send(Refuses(), right())
    acp.send("next", right())
    with pytest.raises(ArithmeticError, match="not here") as caught:
        acp.recv(source=left())
    assert f"rank {left()} of the job has sent a pickled object" in caught.value.__notes__[0]
    assert acp.recv(source=left()) == "next"


def test_an_object_does_not_go_into_a_buffer():
    acp.send({"a": 1}, right(), 9)
    with refused(TypeError, "recv", f"rank {left()}", "tag 9"):
        acp.recv(bytearray(1000), left())
    assert acp.recv(source=left(), tag=9) == {"a": 1}


def test_an_array_whose_header_travels_beside_it_leaves_nothing_behind():
    x = np.zeros(5, "M8[s]")
    for _ in range(3):
        acp.send(x, right())
        acp.recv(np.ones(5, "M8[s]"), left())
        acp.send(x, right())
        assert (acp.mprobe(left()).recv() == x).all()
    acp.sync()
    assert acp.iprobe() is None


arrays = hnp.arrays(
    hnp.scalar_dtypes() | hnp.array_dtypes(), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0)
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary() | st.floats(),
    lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=3), x, max_size=3),
    max_leaves=5,
)


@settings(max_examples=tries(180))
@given(x=arrays)
def test_any_array(x):
    y = travels(x)
    assert (y.dtype, y.shape, y.tobytes()) == (x.dtype, x.shape, x.tobytes())


@settings(max_examples=tries(180))
@given(x=values)
def test_any_object(x):
    assert repr(travels(x)) == repr(x)
