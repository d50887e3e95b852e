"""CUDA memory for tests without a device: the stand-in for the driver (tests/device/standin.h)."""

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import launch
import numpy as np
import pytest

_SOURCES = ("standin.c", "streams.c", "memory.c", "sharing.c")


def build(folder):
    """Return the path of the stand-in, made in a folder."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is missing")
    target = folder / "libcuda.so.1"
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-fvisibility=hidden", "-O1"]
    command += ["-iquote", str(launch.ROOT / "acp_mpi" / "engine"), f"-Wl,-soname,{target.name}"]
    sources = [str(launch.TESTS / "device" / name) for name in _SOURCES]
    subprocess.run([*command, *sources, "-o", str(target), "-pthread"], check=True)
    return target


@functools.cache
def driver():
    """Build the stand-in, load it before the engine looks for a driver, and make a context."""
    os.environ["FAKE_LEAKS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.CDLL(str(build(Path(folder))))
    address, pointer = ctypes.c_uint64, ctypes.c_void_p
    library.standin_bytes.argtypes = library.cuMemFree_v2.argtypes = [address]
    library.standin_bytes.restype = pointer
    library.cuMemcpyAsync.argtypes = [address, address, ctypes.c_size_t, pointer]
    library.standin_hold.argtypes = library.standin_go_on.argtypes = [pointer]
    context = ctypes.c_void_p()
    call(library.cuInit, 0)
    call(library.cuDevicePrimaryCtxRetain, ctypes.byref(context), 0)
    call(library.cuCtxPushCurrent_v2, context)
    return library


def call(function, *arguments):
    status = function(*arguments)
    assert status == 0, f"{function.__name__}: {status}"


def stream():
    """Return a new stream that does not wait for the default one."""
    made = ctypes.c_void_p()
    call(driver().cuStreamCreateWithPriority, ctypes.byref(made), 1, 0)
    return made.value


class Array:
    """An array of a library with the CUDA array interface, in the middle of an allocation."""

    BEFORE = 4096

    def __init__(self, values, stream=None):
        values = np.ascontiguousarray(values)
        self.values, self.stream = values, stream
        memory = ctypes.c_uint64()
        call(
            driver().cuMemAlloc_v2,
            ctypes.byref(memory),
            ctypes.c_size_t(self.BEFORE + values.nbytes),
        )
        self.memory = memory.value
        ctypes.memmove(driver().standin_bytes(self.address), values.ctypes.data, values.nbytes)

    @property
    def address(self):
        return self.memory + self.BEFORE

    @property
    def __cuda_array_interface__(self):
        shown = {"shape": self.values.shape, "typestr": self.values.dtype.str, "version": 3}
        return {**shown, "data": (self.address, False), "strides": None, "stream": self.stream}

    def fill(self, values):
        """Have the array's stream copy values into it, some time from now; they must stay."""
        size = values.nbytes
        call(driver().cuMemcpyAsync, self.address, values.ctypes.data, size, self.stream)

    def numpy(self):
        values = np.empty_like(self.values)
        ctypes.memmove(values.ctypes.data, driver().standin_bytes(self.address), values.nbytes)
        return values

    def free(self):
        """Give the memory back; the process ends if another one has it open."""
        call(driver().cuMemFree_v2, self.memory)
