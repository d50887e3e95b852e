"""What a rank does itself where it has no delegate: the same commands, done when they return."""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib import format

import acp_mpi as acp

from .device import Device


class Done:
    """The request of what is done already."""

    def __init__(self, result: Any = None) -> None:
        self._result = result

    def copied(self) -> None:
        """Return."""

    def wait(self) -> Any:
        """Return the result."""
        return self._result


class Itself:
    """The rank in place of a delegate."""

    def __init__(self, device: Device, ranks: list[int]) -> None:
        self._device, self._ranks = device, ranks

    def load(self, path: Path, out: Any, *, at: int) -> Done:
        """Read elements from `at` on."""
        values = np.load(path, mmap_mode="r").reshape(-1)
        part = values[at : at + out.shape[0] * out.shape[1]]
        self._device.write(out, np.array(part).reshape(out.shape))
        return Done()

    def save(self, path: Path, x: Any, *, at: int, shape: tuple[int, ...], parts: int) -> Done:
        """Write a part of a file; all ranks do."""
        values = self._device.read(x)
        head = {"descr": values.dtype.str, "fortran_order": False, "shape": shape}
        beside = path.with_name(f"{path.name}.part")
        descriptor = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
        with os.fdopen(descriptor, "r+b") as file:
            format.write_array_header_2_0(file, head)  # all write the same
            file.seek(at * values.itemsize, os.SEEK_CUR)
            file.write(values.data)
            file.flush()
            os.fsync(descriptor)
        acp.barrier(self._ranks)
        if acp.rank() == self._ranks[0]:
            beside.rename(path)
        return Done()

    def allreduce(self, x: Any, op: Literal["max"]) -> Done:
        """Fold what all ranks have."""
        return Done(acp.allreduce(x, op, ranks=self._ranks))

    def close(self) -> None:
        """Meet: the last file has its place."""
        acp.barrier(self._ranks)
