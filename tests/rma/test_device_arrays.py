"""Arrays of other libraries in device memory, as they show themselves."""

import sys
import types

import pytest

import acp_mpi as acp
from acp_mpi.engine import _engine
from acp_mpi.rma import device_memory

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("far_kind")]


class Shown:
    """What has the CUDA array interface."""

    def __init__(self, **shown):
        self.__cuda_array_interface__ = {
            "shape": (4, 4), "typestr": "<f8", "data": (1 << 40, False), "version": 3, **shown
        }  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "error"),
    [
        ({"strides": (8, 32)}, "contiguous"),
        ({"strides": (64, 8)}, "contiguous"),
        ({"data": (1 << 40, True)}, "read-only"),
        ({"shape": (0, 4), "data": (0, False)}, "no elements"),
        ({"mask": object()}, "mask"),
    ],
)
def test_the_array_interface_is_read_with_care(shown, error):
    with pytest.raises((ValueError, TypeError), match=error):
        acp.register_memory(Shown(**shown))


def test_contiguous_strides_and_streams_are_understood(monkeypatch):
    monkeypatch.setattr(_engine, "device_adopt", lambda *given: (given[:5], 3))
    block, offset, size, stream = device_memory.found(Shown(strides=(32, 8), stream=5), "put")
    assert block == ("put", 2, -1, 1 << 40, 128)
    assert (offset, size, stream) == (3, 128, 5)
    assert device_memory.found(Shown(shape=(1, 4), strides=(99, 8)), "put")[2:] == (32, None)
    assert device_memory.found(Shown(data=(1 << 40, True)), "put")[2] == 128


class Capsules:
    """What gives its memory by DLPack alone."""

    def __init__(self, shape=(4, 4), place=(2, 1), **given):
        self.place, self.given, self.asked = place, {"shape": shape, **given}, []

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        return self


@pytest.fixture
def memory_of_the_driver(monkeypatch):
    """No driver is asked; a capsule shows what its exporter was given."""

    def place(capsule):
        shown = {"address": 1 << 40, "strides": None, "read_only": False, **capsule.given}
        of_device = (shown["address"], *capsule.place)
        return *of_device, shown["shape"], shown["strides"], 8, shown["read_only"], 0, 2

    monkeypatch.setattr(_engine, "device_adopt", lambda *given: (given[:5], 3))
    monkeypatch.setattr(_engine, "dlpack_place", place)


@pytest.mark.usefixtures("memory_of_the_driver")
@pytest.mark.parametrize("place", [(2, 1), (13, 0), (4, 0)])
def test_memory_is_found_by_dlpack(place):
    array = Capsules(place=place)
    kind = 2 if place[0] == 13 else place[0]  # CUDA's driver knows managed memory by its address
    assert device_memory.found(array, "put") == (
        ("put", kind, place[1], 1 << 40, 128),
        3,
        128,
        None,
    )
    assert array.asked == [{} if kind == 4 else {"stream": -1}]  # no order is asked for
    assert device_memory.found(Capsules(read_only=True), "put")[2] == 128
    for wrong, error in (({"strides": (1, 4)}, "contiguous"), ({"shape": (0,)}, "no elements")):
        with pytest.raises(ValueError, match=error):
            device_memory.found(Capsules(**wrong), "put")
    for function in ("get", "iget", "register_memory"):
        with pytest.raises(ValueError, match="read-only"):
            device_memory.found(Capsules(read_only=True), function)


@pytest.mark.usefixtures("memory_of_the_driver")
def test_a_tensor_of_pytorch_is_behind_its_current_stream(monkeypatch):
    class Tensor(Shown):
        device = "cuda:1"

    torch, asked = types.ModuleType("torch"), []
    torch.Tensor, torch.cuda = Tensor, types.SimpleNamespace()
    current = types.SimpleNamespace(cuda_stream=77)
    torch.cuda.current_stream = lambda device: asked.append(device) or current
    tensor = Tensor(version=2)
    assert device_memory.found(tensor, "put")[3] is None  # PyTorch has not been loaded
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert device_memory.found(tensor, "put")[3] == 77
    assert asked == ["cuda:1"]
    assert device_memory.found(Shown(), "put")[3] is None
    assert device_memory.found(Tensor(stream=5), "put")[3] == 5
