"""How the ranks go on when their delegate has died: from the last file, by threads of their own."""

import contextlib
from pathlib import Path
from typing import Any, Literal

import numpy as np

import acp_mpi as acp

from .device import Device
from .itself import Done, Itself


class Lost(Exception):
    """The delegate has died: all ranks raise this, after the same step."""


class Hoped:
    """A request of a delegate that may have died: `Mortal` tells all ranks of that."""

    def __init__(self, request: acp.DelegateRequest | None) -> None:
        self._request = request

    def copied(self) -> None:
        """Return when the array may change."""
        with contextlib.suppress(acp.PeerLostError):
            if self._request is not None:
                self._request.copied()

    def wait(self) -> Any:
        """Return the result, or what is not a number."""
        with contextlib.suppress(acp.PeerLostError):
            if self._request is not None:
                return self._request.wait()
        return [np.nan]


class Mortal:
    """A delegate whose death no rank learns of alone, as each waits for rows of the others."""

    def __init__(self, d: acp.Delegate, ranks: list[int]) -> None:
        self._d, self._ranks = d, ranks

    def load(self, path: Path, out: Any, *, at: int) -> Any:
        """Read elements from `at` on."""
        return self._d.load(path, out, at=at)

    def save(self, path: Path, x: Any, **part: Any) -> Hoped:
        """Write a part of a file."""
        with contextlib.suppress(acp.PeerLostError):
            return Hoped(self._d.save(path, x, **part))
        return Hoped(None)

    def allreduce(self, x: Any, op: Literal["max"]) -> Hoped:
        """Fold what all ranks have; Lost on all if one of them has no delegate."""
        self._look()
        with contextlib.suppress(acp.PeerLostError):
            return Hoped(self._d.allreduce(x, op))
        return Hoped(None)

    def _look(self) -> None:
        if acp.allreduce(int(self._d.lost), "max", ranks=self._ranks):
            with contextlib.suppress(acp.PeerLostError):  # of what it had still to do
                self._d.close()
            raise Lost

    def statistics(self) -> acp.DelegateStatistics | None:
        """Return what it has done."""
        with contextlib.suppress(acp.PeerLostError):
            return self._d.statistics()
        return None

    def close(self) -> None:
        """Say that nothing comes any more; Lost if the last file may not be there."""
        self._look()
        self._d.close()


class Threads(Itself):
    """Threads of each rank; a file is written by those of the first rank."""

    def __init__(self, device: Device, ranks: list[int]) -> None:
        super().__init__(device, ranks)
        self._d = acp.delegate(local=True)
        self._plate: Any = None  # of the first rank, in global memory
        self._address = 0

    def load(self, path: Path, out: Any, *, at: int) -> Any:
        """Read elements from `at` on."""
        return self._d.load(path, out, at=at)

    def save(self, path: Path, x: Any, *, at: int, shape: tuple[int, ...], parts: int) -> Any:
        """Write a part of a file; all ranks do."""
        first = acp.rank() == self._ranks[0]
        if not self._address:
            if first:
                self._plate = acp.empty(shape)
            where = acp.query_ga(self._plate) if first else 0
            self._address = acp.bcast(where, root=self._ranks[0], ranks=self._ranks)
        acp.barrier(self._ranks)  # the last file is written
        values = np.ascontiguousarray(self._device.read(x))
        acp.put(self._address + at * values.itemsize, values)
        acp.barrier(self._ranks)
        return self._d.save(path, self._plate) if first else Done()

    def close(self) -> None:
        """End the threads when all is written."""
        super().close()
        self._d.close()
