"""What is said to a data server, and how its memory looks from afar."""

import struct
import time
from collections.abc import Sequence
from typing import Any

from mpi4py import MPI

MALLOC, GET, PUT, STOP = range(4)
HEAD = struct.Struct("<3q")  # what is asked for, where, how many bytes
ASK, ANSWER = 1, 2  # tags
_OFFSET_BITS = 40  # an address is the number of a server and an offset in its memory


class Servers:
    """The memory of the data servers, by messages that they answer: a `places.Memory`.

    `servers` are ranks of communicators, one for each server.
    """

    def __init__(self, servers: Sequence[tuple[MPI.Comm, int]] = ()) -> None:
        self._servers = servers

    def are(self, servers: Sequence[tuple[MPI.Comm, int]]) -> None:
        """Say who the servers are, now that they have been started."""
        self._servers = servers

    def malloc(self, size: int, server: int, /) -> int:
        """Return the address of so many new bytes of a server."""
        self._ask(server, MALLOC, 0, size)
        offset = bytearray(8)
        self._receive(server, offset)
        return server << _OFFSET_BITS | int.from_bytes(offset, "little")

    def get(self, ga: int, buffer: Any, /) -> Any:
        """Fill a buffer from an address and return it."""
        server, offset = _split(ga)
        data = memoryview(buffer).cast("B")
        self._ask(server, GET, offset, len(data))
        self._receive(server, data)
        return buffer

    def put(self, ga: int, buffer: Any, /) -> None:
        """Write a buffer to an address; who asks after the return finds it there."""
        server, offset = _split(ga)
        data = memoryview(buffer).cast("B")
        self._ask(server, PUT, offset, len(data))
        comm, rank = self._servers[server]
        comm.Send([data, MPI.BYTE], rank, ASK)
        self._receive(server, bytearray())

    def stop(self) -> None:
        """Let the servers end."""
        for server in range(len(self._servers)):
            self._ask(server, STOP, 0, 0)

    def _ask(self, server: int, what: int, offset: int, size: int) -> None:
        comm, rank = self._servers[server]
        comm.Send(HEAD.pack(what, offset, size), rank, ASK)

    def _receive(self, server: int, data: Any) -> None:
        comm, rank = self._servers[server]
        comm.Recv([data, MPI.BYTE], rank, ANSWER)


def _split(ga: int) -> tuple[int, int]:
    return ga >> _OFFSET_BITS, ga & ((1 << _OFFSET_BITS) - 1)


def wait_any(requests: list[MPI.Request], nap: float) -> int:
    """Return which request is complete: wait in MPI, or sleep `nap` seconds between two looks."""
    if not nap:
        return MPI.Request.Waitany(requests)
    while True:
        number, complete = MPI.Request.Testany(requests)
        if complete:
            return number
        time.sleep(nap)
