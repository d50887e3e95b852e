"""Groups that meet at a rendezvous on the switch of a network."""

import os
import sys
from pathlib import Path

from hosts.network import Network

import acp_mpi as acp
from acp_mpi.job.rendezvous import secret

PORT = 7700  # free at every switch: it is a host of its own


def meet(
    network: Network, folder: Path, groups: dict[str, int]
) -> tuple[list[str], dict[str, str]]:
    """Return the command line of the rendezvous for groups of these sizes, and what they need.

    The secret lies in the folder.
    """
    path, address = folder / "secret", f"{network.switch.address}:{PORT}"
    secret.create(path)
    sizes = ",".join(f"{name}={size}" for name, size in groups.items())
    serve = [sys.executable, "-m", "acp_mpi.launch.macprun", "serve", "--listen", address,
             "--groups", sizes, "--secret-file", str(path)]  # fmt: skip
    place = {"ACP_RENDEZVOUS": address, "ACP_SECRET_FILE": str(path)}
    return network.switch.command(serve), place


def apart(network: Network, folder: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the command line of the rendezvous, and the environment of each host's process.

    They are one group without MPI, one process on each host of the network.
    """
    size = len(network.hosts)
    serve, place = meet(network, folder, {"apart": size})
    place |= {"ACP_MPI": "0", "ACP_GROUP": "apart", "ACP_GROUP_SIZE": str(size)}
    return serve, [place | {"ACP_GROUP_RANK": str(rank)} for rank in range(size)]


def join() -> None:
    """Join, write into every rank of every host, and say where this one is."""
    with acp.init():
        rank, procs = acp.rank(), acp.procs()
        for other in range(procs):
            acp.put(acp.query_starter_ga(other) + 8 * rank, (rank + 1).to_bytes(8, "little"))
        acp.sync()
        mine = acp.get(acp.query_starter_ga(rank), bytearray(8 * procs))
        assert [mine[8 * r] for r in range(procs)] == [r + 1 for r in range(procs)]
        acp.sync()
        print(f"rank {rank} of {procs} on {os.uname().nodename}", flush=True)
