"""The kinds of device memory that benchmarks find, and what a program does with each by itself."""

import importlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from harness import progress


class Kind:
    """Arrays of bytes on the first device."""

    name: str
    device: Any  # as `acp.empty(device=)` takes it

    def own(self, size: int) -> Any:
        """Return an array of the library's own."""
        raise NotImplementedError

    def read(self, array: Any, host: np.ndarray) -> None:
        """Copy it to the host, and wait."""
        raise NotImplementedError

    def write(self, array: Any, host: np.ndarray) -> None:
        """Copy it from the host, and wait."""
        raise NotImplementedError

    def compute(self) -> None:
        """Have a kernel run for some milliseconds, and wait."""
        raise NotImplementedError


_LONG_KERNEL = """kernel void turn(global float *a) {
    float x = a[0];
    for (int i = 0; i < 5000000; i++)
        x = x * 0.999f + 1;
    a[0] = x;
}"""


class _OpenCL(Kind):
    name = "OpenCL"

    def __init__(self) -> None:
        self._cl = importlib.import_module("pyopencl")
        context = self._cl.Context(self._cl.get_platforms()[0].get_devices()[:1])
        self._queue, self.device = self._cl.CommandQueue(context), context
        self._turn: Any = None

    def own(self, size: int) -> Any:
        return self._cl.Buffer(self.device, self._cl.mem_flags.READ_WRITE, size)

    def read(self, array: Any, host: np.ndarray) -> None:
        self._cl.enqueue_copy(self._queue, host, array)

    def write(self, array: Any, host: np.ndarray) -> None:
        self._cl.enqueue_copy(self._queue, array, host)

    def compute(self) -> None:
        if self._turn is None:
            self._turn = self._cl.Program(self.device, _LONG_KERNEL).build().turn
            self._one = self.own(4)
        self._turn(self._queue, (1,), None, self._one).wait()  # one thread: the other rank has one


class _Cuda(Kind):
    name, device = "CUDA", "cuda"

    def __init__(self) -> None:
        self._cupy = importlib.import_module("cupy")
        self._cupy.zeros(1)

    def own(self, size: int) -> Any:
        return self._cupy.empty(size, np.uint8)

    def read(self, array: Any, host: np.ndarray) -> None:
        array.get(out=host)

    def write(self, array: Any, host: np.ndarray) -> None:
        array.set(host)

    def compute(self) -> None:
        x = self._cupy.ones(1 << 22)
        for _ in range(100):
            x = x * 0.999 + 1
        self._cupy.cuda.Device().synchronize()


def kinds() -> Iterator[Kind]:
    """Yield each kind that works here; the same ones on all ranks of a machine."""
    found = 0
    for kind in (_OpenCL, _Cuda):
        try:
            made = kind()
        except Exception as reason:  # of a library that is missing, or that has no device
            progress(f"no {kind.name}: {reason}")
            continue
        found += 1
        yield made
    if not found:
        raise SystemExit("no device here: install pyopencl and a driver such as PoCL, or CuPy")


def freed(array: Any) -> None:
    """Give an array of OpenCL back now."""
    with suppress(AttributeError):
        array.release()
