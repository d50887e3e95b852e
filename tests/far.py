"""Far memory for tests: device memory without a device (tests/engine/support/far.h)."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

import launch
import numpy as np
import pytest

import acp_mpi as acp
from acp_mpi.comm.collectives import choice
from acp_mpi.engine import _engine

NUMBER = 12  # DLPack's, for devices of extensions


@functools.cache
def library():
    if not shutil.which("gcc"):
        pytest.skip("gcc is missing")
    engine = launch.ROOT / "acp_mpi" / "engine"
    tests = launch.TESTS / "engine"
    folder = tempfile.mkdtemp()
    target = Path(folder) / "libfar.so"
    command = [
        "gcc",
        "-std=c11",
        "-D_GNU_SOURCE",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        "-O1",
        "-pthread",
    ]
    command += [
        "-iquote",
        str(engine),
        "-iquote",
        str(tests),
        str(tests / "support" / "far_library.c"),
    ]
    subprocess.run([*command, "-o", str(target)], check=True)
    far = ctypes.CDLL(str(target))
    shutil.rmtree(folder)
    far.far_kind.restype = far.far_malloc.restype = ctypes.c_void_p
    far.far_malloc.argtypes = [ctypes.c_int, ctypes.c_uint64]
    far.far_free.argtypes = [ctypes.c_void_p]
    far.far_peek.argtypes = far.far_poke.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint64,
    ]
    far.far_fill.argtypes = [
        ctypes.c_int,
        ctypes.c_uint,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_uint64,
        ctypes.c_uint64,
    ]
    far.far_copies.restype = ctypes.c_uint64
    return far


def begin():
    """Have this process know the kind."""
    _engine.device_kind(library().far_kind())


def array_of(values):
    """Return a new array on the first device with these elements."""
    values = np.asarray(values)
    array = acp.empty(values.shape, values.dtype, device=(NUMBER, 0))
    array.set(values)
    return array


class Tensor:
    """An array of a library that gives its memory by DLPack."""

    def __init__(self, values, device=0):
        values = np.ascontiguousarray(values)
        self.shape, self.dtype, self.device = values.shape, values.dtype, device
        self.address = library().far_malloc(device, max(values.nbytes, 1))
        library().far_poke(self.address, values.ctypes.data, values.nbytes)

    def __dlpack_device__(self):
        return NUMBER, self.device

    def __dlpack__(self):
        code = {"i": 0, "u": 1, "f": 2}[self.dtype.kind]
        return _engine.dlpack_capsule(
            self.address, NUMBER, self.device, self.shape, code, self.dtype.itemsize, self
        )

    def numpy(self):
        values = np.empty(self.shape, self.dtype)
        library().far_peek(self.address, values.ctypes.data, values.nbytes)
        return values

    def free(self):
        """Give the memory back; the process ends if anybody still uses it."""
        library().far_free(self.address)


def short_windows(monkeypatch, window):
    """Have collectives take memory in units of so many bytes, on all ranks."""
    begin()
    acp.sync()  # all or none
    monkeypatch.setattr(choice, "WINDOW", window)
    monkeypatch.setattr(choice, "MEMBER_WINDOW", window // 4)
    monkeypatch.setattr(choice, "BCAST_TREE", 1000)
    monkeypatch.setattr(choice, "BCAST_CHAIN", 1000)
    monkeypatch.setattr(choice, "CHAIN_PIECE", window)


def count_moved(monkeypatch):
    """Return a list that gets the bytes of each copy between a device and host memory."""
    start, sizes = _engine.device_start, []

    def count(function, ga, side, out):
        sizes.append(side[2])
        return start(function, ga, side, out)

    monkeypatch.setattr(_engine, "device_start", count)
    return sizes
