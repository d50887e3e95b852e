"""Memory of a rank by its address: as an array, or as what stands for one."""

import pickle

import numpy as np
import pytest
from support import CAN_LOAD, registered, right, shared

import acp_mpi as acp

pytestmark = pytest.mark.mpi


def test_own_memory_can_be_viewed_and_has_a_machine_address():
    array, _ = shared((4, 4), np.int32)
    ga = acp.query_ga(array)
    view = acp.view(ga + 16, (3, 4), np.int32)
    view[0, 0] = 4711
    assert array[1, 0] == 4711
    assert acp.query_address(ga + 4) == array.ctypes.data + 4


def test_a_peer_s_global_memory_can_be_viewed_on_the_same_node():
    array, places = shared(100, np.int64)
    ga = places[right()]
    if not CAN_LOAD and acp.procs() > 1:
        for call in (acp.query_address, lambda ga: acp.view(ga, 100, np.int64)):
            with pytest.raises(acp.AddressError, match=f"rank {right()}"):
                call(ga)
    else:
        assert acp.query_address(ga)
        acp.view(ga, 100, np.int64)[7] = acp.rank() + 1
        acp.sync()
        assert array[7] == (acp.rank() - 1) % acp.procs() + 1


def test_a_peer_s_registered_memory_cannot_be_viewed_and_the_error_names_empty():
    _, _, places = registered(100)
    if acp.procs() > 1:
        with pytest.raises(acp.AddressError, match=r"acp\.empty"):
            acp.view(places[right()], (100,), np.uint8)


def test_remote_arrays_get_and_put_by_slices():
    array, places = shared((6, 5), np.float64)
    array[:] = np.arange(30).reshape(6, 5) + 100 * acp.rank()
    expected = np.arange(30).reshape(6, 5) + 100.0 * right()
    acp.sync()
    there = acp.remote(places[right()], (6, 5), np.float64)
    assert (there.shape, there.dtype) == ((6, 5), np.float64)
    for index in (
        np.s_[:],
        np.s_[2],
        np.s_[-1],
        np.s_[1:4],
        np.s_[2, 3],
        np.s_[:, 1],
        np.s_[::2, ::3],
        np.s_[4:1:-1],
        np.s_[..., 0],
    ):
        assert np.array_equal(there[index], expected[index]), index
    with pytest.raises(IndexError):
        there[6]
    acp.sync()
    for value, index in enumerate((np.s_[-1], np.s_[1:3, 2], np.s_[0, 0], np.s_[::2, 4])):
        there[index] = value
        expected[index] = value
    acp.sync()
    back = acp.remote(acp.query_ga(array), (6, 5), np.float64)
    assert np.array_equal(back[:], array)
    assert np.array_equal(there[:], expected)


def test_assignment_to_a_remote_array_drops_leading_dimensions_of_one_as_numpy_does():
    array, places = shared((3, 4), np.float64)
    acp.sync()
    there, expected = acp.remote(places[right()], (3, 4)), np.zeros((3, 4))
    for key, value in (
        (1, np.arange(4)[None]),
        ((0, ...), np.ones((1, 1, 4))),
        ((slice(1, 3), 0), np.array([[[5, 6]]])),
    ):
        there[key] = value
        expected[key] = value
    assert np.array_equal(there[:], expected)
    for value in (np.zeros((2, 4)), np.zeros((1, 3))):
        with pytest.raises(ValueError, match=r"\(4,\), the part of the remote array"):
            there[1] = value
    acp.sync()
    assert np.array_equal(array, expected)


def test_the_elements_of_arrays_of_arrays_are_those_within():
    of_pairs = np.dtype((np.float64, 2))
    array, places = shared((3, 4), of_pairs)
    array[:] = np.arange(24).reshape(3, 4, 2) + 100 * acp.rank()
    acp.sync()
    there = acp.remote(places[right()], (3, 4), of_pairs)
    assert (there.shape, there.dtype, array.shape) == ((3, 4, 2), np.float64, (3, 4, 2))
    assert np.array_equal(there[1:, ::2], np.arange(24).reshape(3, 4, 2)[1:, ::2] + 100 * right())
    acp.sync()


def test_a_remote_array_takes_no_index_arrays():
    """They would select a copy of nothing, anywhere in this process's memory."""
    array, places = shared(1000, np.float64)
    array[:] = acp.rank() + 1
    there = acp.remote(places[right()], 1000)
    acp.sync()
    for index in (
        np.array([3, 5]),
        [3, 5],
        np.ones(1000, bool),
        np.True_,
        1.0,
        (np.array([1]), None),
    ):
        with pytest.raises(TypeError, match="integers and slices"):
            there[index]
        with pytest.raises(TypeError, match="integers and slices"):
            there[index] = -1
    assert there[np.array(3)] == there[np.uint8(3)] == right() + 1
    acp.sync()
    assert (array == acp.rank() + 1).all()


def test_remote_arrays_travel_by_pickle():
    array, places = shared((3, 4), np.int32)
    array[:] = acp.rank()
    acp.sync()
    for rank, there in enumerate(acp.allgather(acp.remote(places[acp.rank()], (3, 4), np.int32))):
        assert (there.ga, there.shape, there.dtype) == (places[rank], (3, 4), np.int32)
        assert (there[:] == rank).all()
    huge = acp.remote(places[0], (1 << 40,))
    assert len(pickle.dumps(huge)) < 1000
    acp.sync()
