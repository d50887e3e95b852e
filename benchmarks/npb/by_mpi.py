"""MPI held to TCP: by its environment, and by a look at what passed the network interfaces."""

from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

PROOF = 1 << 22


class ByMpi:
    """mpi4py's calls on buffers and MPI's own collectives."""

    name = MPI.get_vendor()[0]

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._comm = comm.Dup()
        self.rank, self.size = comm.rank, comm.size
        self._assert_tcp()

    def _assert_tcp(self) -> None:
        network = Path("/proc/self/ns/net").readlink()
        expected = PROOF * self._comm.allgather(network).count(network)  # of the ranks on this host
        data, before = np.ones(PROOF, np.uint8), _bytes_received()
        right, left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        self._comm.Barrier()
        if self.size > 1:
            self._comm.Sendrecv(data, right, 0, np.empty_like(data), left, 0)
        self._comm.Barrier()
        passed = _bytes_received() - before
        if self.size > 1 and passed < expected:
            raise RuntimeError(
                f"{self.name} moved {expected} bytes, but only {passed} passed the network "
                "interfaces: it does not use TCP"
            )

    def send(self, array: np.ndarray, dest: int, tag: int) -> None:
        """Send an array, which is free again on return."""
        self._comm.Send(array, dest, tag)

    def irecv(self, array: np.ndarray, source: int, tag: int) -> Any:
        """Begin to receive into an array."""
        return self._comm.Irecv(array, source, tag)

    def wait(self, request: Any) -> None:
        """Wait until it has come."""
        request.Wait()

    def allreduce(self, array: np.ndarray) -> np.ndarray:
        """Return the sums over all ranks."""
        total = np.empty_like(array)
        self._comm.Allreduce(array, total)
        return total

    def alltoallv(self, array: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Send `counts[r]` elements to each rank r; return what comes, and how many from each."""
        here = np.empty(self.size, np.int64)
        self._comm.Alltoall(counts, here)
        result = np.empty(int(here.sum()), array.dtype)
        self._comm.Alltoallv([array, counts], [result, here])
        return result, here

    def close(self) -> None:
        """End it. Collective."""
        self._comm.Free()


def _bytes_received() -> int:
    """Return what the interfaces of this host have received, the loopback interface among them."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]  # below two of headings
    return sum(int(line.partition(":")[2].split()[0]) for line in lines)
