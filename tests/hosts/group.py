"""A group without MPI, with one process on each host of a network."""

import sys
from pathlib import Path

from hosts.network import Network

from acp_mpi.spawn import secret

PORT = 7700  # free at every switch: it is a host of its own


def apart(network: Network, folder: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Return the command line of the rendezvous, and the environment of each host's process.

    The secret lies in the folder.
    """
    path, size = folder / "secret", len(network.hosts)
    secret.create(path)
    address = f"{network.switch.address}:{PORT}"
    serve = [sys.executable, "-m", "acp_mpi.spawn.serve", "--listen", address,
             "--groups", f"apart={size}", "--secret-file", str(path)]  # fmt: skip
    place = {
        "ACP_RENDEZVOUS": address, "ACP_SECRET_FILE": str(path), "ACP_MPI": "0",
        "ACP_GROUP": "apart", "ACP_GROUP_SIZE": str(size),
    }  # fmt: skip
    return network.switch.command(serve), [
        place | {"ACP_GROUP_RANK": str(rank)} for rank in range(size)
    ]
