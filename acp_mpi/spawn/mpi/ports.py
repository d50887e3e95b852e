"""Ports: how two groups of one job meet that have no communicator in common."""

from __future__ import annotations

import _socket
import itertools
import os
import re
import struct

import acp_mpi as acp
from acp_mpi.errors import Error
from acp_mpi.spawn.mpi.bodies import new_context, ranks_in
from acp_mpi.spawn.mpi.intercommunicators import connected
from acp_mpi.spawn.mpi.original import MPI
from acp_mpi.spawn.mpi.ranks import derived
from acp_mpi.spawn.mpi.strangers import hear, tell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_REQUESTS, _ANSWERS = derived(0, "port"), derived(0, "port, answer")
_serials = itertools.count(1)
_open: set[str] = set()


def _take_apart(port: str) -> tuple[int, int]:
    match = re.fullmatch(r"acp-port:(\d+):(\d+)", port or "")
    if match is None:
        error = MPI.Exception(MPI.ERR_PORT)
        error.add_note(f"{port!r} is no port of this job; Open_port returns one")
        raise error
    return int(match[1]), int(match[2])


def open_port(info: Any = MPI.INFO_NULL) -> str:
    """Return a new port, at which this process can accept."""
    port = f"acp-port:{acp.rank()}:{next(_serials)}"
    _open.add(port)
    return port


def close_port(port_name: str) -> None:
    """Accept no more at a port."""
    _take_apart(port_name)
    _open.discard(port_name)


def _together(comm: Any, root: int, talk: Any) -> Any:
    """Have `root` find out the context and the ranks of the other side, and tell all."""
    ranks = ranks_in(comm)
    found, failed = None, None
    if comm.Get_rank() == root:
        try:
            found = talk(ranks)
        except (MPI.Exception, Error, ValueError) as error:
            failed = error
    found = comm.bcast(found, root=root)
    if found is None:
        raise failed or MPI.Exception(MPI.ERR_PORT)
    context, peers = found
    return connected(context, ranks, tuple(peers))


def accept(comm: Any, port_name: str, info: Any = MPI.INFO_NULL, root: int = 0) -> Any:
    """Wait for one who connects, at a port that `root` has opened."""

    def talk(ranks: tuple[int, ...]) -> tuple[int, Any]:
        owner, serial = _take_apart(port_name)
        if owner != acp.rank() or port_name not in _open:
            error = MPI.Exception(MPI.ERR_PORT)
            error.add_note(f"Accept: {port_name!r} is not open here; open it at the rank `root`")
            raise error
        peers, asker = hear(_REQUESTS, -1, serial)
        context = new_context("port")
        tell(_ANSWERS, asker, serial, (context, ranks))
        return context, peers

    return _together(comm, root, talk)


def connect(comm: Any, port_name: str, info: Any = MPI.INFO_NULL, root: int = 0) -> Any:
    """Meet whoever accepts at a port."""

    def talk(ranks: tuple[int, ...]) -> Any:
        owner, serial = _take_apart(port_name)
        tell(_REQUESTS, owner, serial, ranks)
        return hear(_ANSWERS, owner, serial)[0]

    return _together(comm, root, talk)


_PAIR = struct.Struct("!QQ")


def join(fd: int) -> Any:
    """Meet the process at the other end of a socket, which is of this job, too."""
    line = _socket.socket(fileno=os.dup(fd))
    try:
        line.setblocking(True)
        own = acp.rank(), new_context("socket")
        line.sendall(_PAIR.pack(*own))
        heard = b""
        while len(heard) < _PAIR.size:
            data = line.recv(_PAIR.size - len(heard))
            if not data:
                raise MPI.Exception(MPI.ERR_COMM)
            heard += data
    finally:
        line.close()
    rank, context = _PAIR.unpack(heard)
    return connected(max(context, own[1]), (own[0],), (rank,))
