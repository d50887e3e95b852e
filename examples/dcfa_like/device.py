"""Devices: arrays with global addresses, and the two kernels."""

import importlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from stencil import DIFFUSION, relax

import acp_mpi as acp

from . import kernels


class NumPy:
    """The processor."""

    name = "numpy"

    def __init__(self, place: int) -> None:
        pass

    def array(self, shape: tuple[int, ...]) -> Any:
        """Return an array that other ranks can reach."""
        return acp.zeros(shape)

    def relax(self, old: Any, new: Any, first: int, last: int) -> None:
        """Begin to advance rows `first` to `last` - 1 by one step, from `old` into `new`."""
        relax(old, new, first, last)

    def finish(self) -> None:
        """Wait until all is done that was begun."""

    def change(self, old: Any, new: Any) -> float:
        """Return the largest difference between two arrays, in all rows but the first and last."""
        return float(np.abs(new[1:-1] - old[1:-1]).max())

    def read(self, row: Any) -> np.ndarray:
        """Return a copy in the host's memory."""
        return np.array(row)

    def write(self, row: Any, values: np.ndarray) -> None:
        """Copy from the host's memory."""
        row[:] = values


class _Accelerator:
    def read(self, row: Any) -> np.ndarray:
        """Return a copy in the host's memory."""
        values: np.ndarray = row.get()
        return values

    def write(self, row: Any, values: np.ndarray) -> None:
        """Copy from the host's memory."""
        row.set(values)


class OpenCL(_Accelerator):
    """A device of OpenCL; several of a platform are dealt out."""

    def __init__(self, place: int) -> None:
        self._cl = cl = importlib.import_module("pyopencl")
        devices = [each for where in cl.get_platforms() for each in where.get_devices()]
        self._device = devices[place % len(devices)]
        self.name = f"opencl: {self._device.name}"
        context = cl.Context([self._device])
        self._queue = cl.CommandQueue(context)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the compiler
            program = cl.Program(context, kernels.OPENCL + kernels.TEXT).build()
        self._relax, self._change = cl.Kernel(program, "relax"), cl.Kernel(program, "change")

    def array(self, shape: tuple[int, ...]) -> Any:
        """Return an array in the device's memory that other ranks can reach."""
        return acp.zeros(shape, device=self._queue)

    def relax(self, old: Any, new: Any, first: int, last: int) -> None:
        """Begin to advance rows, as `NumPy.relax`."""
        if first < last:
            columns = old.shape[1]
            self._relax(
                self._queue, (columns, last - first), None, old.buffer, new.buffer,
                np.int32(columns), np.int32(first), np.float64(DIFFUSION),
            )  # fmt: skip

    def finish(self) -> None:
        """Wait until all is done that was begun."""
        self._queue.finish()

    def change(self, old: Any, new: Any) -> float:
        """Return the largest difference, as `NumPy.change`."""
        rows, columns = old.shape[0] - 2, old.shape[1]
        with self.array((rows,)) as most:
            self._change(
                self._queue, (rows,), None, old.buffer, new.buffer, most.buffer,
                np.int32(columns), np.int32(rows),
            )  # fmt: skip
            return float(most.get().max())


class Cuda(_Accelerator):
    """A device of CUDA, by CuPy."""

    _WIDE = 128  # threads of a block

    def __init__(self, place: int) -> None:
        self._cupy = cupy = importlib.import_module("cupy")
        number = place % cupy.cuda.runtime.getDeviceCount()
        self._device = cupy.cuda.Device(number)
        self._device.use()
        self.name = f"cuda:{number}"
        module = cupy.RawModule(code=kernels.CUDA + kernels.TEXT, options=("-fmad=false",))
        self._relax, self._change = module.get_function("relax"), module.get_function("change")

    def array(self, shape: tuple[int, ...]) -> Any:
        """Return an array in the device's memory that other ranks can reach."""
        return acp.zeros(shape, device=self.name)

    def relax(self, old: Any, new: Any, first: int, last: int) -> None:
        """Begin to advance rows, as `NumPy.relax`."""
        if first < last:
            columns, as_cupy = old.shape[1], self._cupy.asarray
            self._relax(
                (-(-columns // self._WIDE), last - first), (self._WIDE,),
                (as_cupy(old), as_cupy(new), np.int32(columns), np.int32(first), DIFFUSION),
            )  # fmt: skip

    def finish(self) -> None:
        """Wait until all is done that was begun."""
        self._device.synchronize()

    def change(self, old: Any, new: Any) -> float:
        """Return the largest difference, as `NumPy.change`."""
        rows, columns = old.shape[0] - 2, old.shape[1]
        most, as_cupy = self._cupy.zeros(rows), self._cupy.asarray
        self._change(
            (-(-rows // self._WIDE),), (self._WIDE,),
            (as_cupy(old), as_cupy(new), most, np.int32(columns), np.int32(rows)),
        )  # fmt: skip
        return float(most.max())


Device = NumPy | OpenCL | Cuda
KINDS: dict[str, Callable[[int], Device]] = {"cuda": Cuda, "opencl": OpenCL, "numpy": NumPy}


def choose(kind: str, place: int) -> tuple[Device | None, list[str]]:
    """Return a device for the rank at that place, or None, and why others are not used.

    With "auto" it is the first kind that is here.
    """
    reasons: list[str] = []
    for name in KINDS if kind == "auto" else [kind]:
        try:
            return KINDS[name](place), reasons
        except Exception as error:  # of a library that is not here, or finds no device
            words = str(error).splitlines() or [""]
            reasons.append(f"{name}: {type(error).__name__}: {words[0]}")
    return None, reasons
