"""The rows beside those of a rank, which its neighbours compute.

There are two arrays of rows, for odd and for even steps. A neighbour writes the halo of a step only
after this rank has sent its row of the step before, for which it had read the halo of the step
before that, in the same array.
"""

import sys
from typing import Any, Protocol

import numpy as np

import acp_mpi as acp

from .device import Device

_ABOVE, _BELOW = 0, 1


class Halo(Protocol):
    """How edge rows come to the neighbours."""

    def send(self, step: int) -> None:
        """Send the edge rows of a step, which are computed."""

    def receive(self, step: int) -> None:
        """Wait for those of the neighbours."""


def neighbours(ranks: list[int]) -> list[tuple[int, int]]:
    """Return (side, rank) of those that this rank has."""
    place = ranks.index(acp.rank())
    found = [(_ABOVE, place - 1), (_BELOW, place + 1)]
    return [(side, ranks[other]) for side, other in found if 0 <= other < len(ranks)]


class Direct:
    """One copy from a device's memory into that of the neighbour's, and a flag for its host."""

    def __init__(self, arrays: list[Any], ranks: list[int]) -> None:
        self._flags = acp.zeros(2, np.int64)
        flags = acp.query_ga(self._flags)
        # Rows of either array: the first, that behind it, that before the last, the last.
        rows = [[acp.query_ga(array[at]) for array in arrays] for at in (0, 1, -2, -1)]
        self._bytes = arrays[0][0].nbytes
        places = dict(zip(ranks, acp.allgather((rows, flags), ranks=ranks), strict=True))
        self._wanted = []
        self._targets = []
        for side, rank in neighbours(ranks):
            theirs, flag = places[rank]  # what I send is on their other side
            self._targets.append((rows[(1, 2)[side]], theirs[(3, 0)[side]], flag + 8 * (1 - side)))
            self._wanted.append(flags + 8 * side)

    def send(self, step: int) -> None:
        """Send the edge rows; a flag says of which step they are."""
        which, word = step % 2, step.to_bytes(8, sys.byteorder)
        for mine, theirs, flag in self._targets:
            # The device has finished: there is nothing in its stream to wait for.
            acp.wait(acp.copy(theirs[which], mine[which], self._bytes, stream=False))
            acp.put(flag, word)

    def receive(self, step: int) -> None:
        """Sleep until the flags of all neighbours say so."""
        for flag in self._wanted:
            acp.wait_until(flag, ">=", step)


class Staged:
    """A copy from the device, a message, and a copy to the device."""

    def __init__(self, arrays: list[Any], ranks: list[int], device: Device) -> None:
        self._arrays, self._device = arrays, device
        self._neighbours = neighbours(ranks)
        self._buffer = np.empty(arrays[0].shape[1])

    def send(self, step: int) -> None:
        """Send the edge rows; the tag says from which side they come."""
        for side, rank in self._neighbours:
            row = self._device.read(self._arrays[step % 2][(1, -2)[side]])
            acp.send(row, rank, tag=1 - side)

    def receive(self, step: int) -> None:
        """Take in what the neighbours send."""
        for side, rank in self._neighbours:
            acp.recv(self._buffer, rank, tag=side)
            self._device.write(self._arrays[step % 2][(0, -1)[side]], self._buffer)
