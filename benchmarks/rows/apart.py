"""Every rank of one mpiexec as a group of its own: ACP joins them, and MPI is there to compare."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from mpi4py import MPI

import acp_mpi as acp
from acp_mpi.job.rendezvous import secret
from acp_mpi.job.rendezvous.server import Server


@contextlib.contextmanager
def groups_of_one(comm: MPI.Intracomm) -> Iterator[None]:
    """Initialize ACP so that the ranks are those of `comm`, in as many groups. Collective."""
    with contextlib.ExitStack() as stack:
        place = None
        if comm.rank == 0:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="acp-bench-"))
            path = Path(folder, "secret")
            names = {f"group{rank}": 1 for rank in range(comm.size)}
            server = stack.enter_context(Server(secret.create(path), names))
            place = (server.address, str(path))
        os.environ["ACP_RENDEZVOUS"], os.environ["ACP_SECRET_FILE"] = comm.bcast(place)
        os.environ["ACP_GROUP"] = f"group{comm.rank}"
        acp.init(MPI.COMM_SELF)
        if comm.allgather(acp.rank()) != list(range(comm.size)):
            raise RuntimeError("the groups did not join in the order of their ranks")
        yield
        acp.finalize()
