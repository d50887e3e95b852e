"""Messages of acp_mpi, every rank on a node of its own, so that all of them go by link."""

import os
from typing import Any

import numpy as np
from mpi4py import MPI

from npb.transport import Pairwise


class ByAcp(Pairwise):
    """Messages of acp_mpi by link, over loopback."""

    name = "acp_mpi"

    def __init__(self, comm: MPI.Intracomm) -> None:
        os.environ["ACP_NODE"] = f"npb{comm.rank}"  # before init reads it
        import acp_mpi as acp

        self._acp = acp
        acp.init(comm)
        self.rank, self.size = acp.rank(), acp.procs()
        self.send = acp.send
        acp.sync()

    def irecv(self, array: np.ndarray, source: int, tag: int) -> Any:
        """Begin to receive into an array."""
        return self._acp.irecv(array, source, tag)

    def wait(self, request: Any) -> None:
        """Wait until it has come."""
        request.wait()

    def close(self) -> None:
        """End it. Collective."""
        self._acp.finalize()
