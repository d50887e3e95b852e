"""The member's side of the registry: questions."""

from __future__ import annotations

import struct
import time

from acp_mpi.errors import Error
from acp_mpi.spawn.rendezvous import handshake
from acp_mpi.spawn.rendezvous.address import parse_address
from acp_mpi.spawn.rendezvous.connection import Connection, dial
from acp_mpi.spawn.rendezvous.membership import Membership
from acp_mpi.spawn.rendezvous.messages import (
    HEADER_SIZE,
    Kind,
    check_payload,
    message,
    parse_header,
)
from acp_mpi.spawn.rendezvous.packing import pack_text
from acp_mpi.spawn.rendezvous.secret import job_id

_PATIENCE = 20.0  # s for an answer that waits for nobody


class NoRegistryError(Error):
    """The registry has ended, or cannot be reached."""


class Question:
    """A question to the registry that is answered when the groups of these names have come."""

    def __init__(self, address: str, secret: bytes, names: tuple[str, ...] = ()) -> None:
        self._address = address
        try:
            self._connection = _asked(address, secret, names)
        except OSError as reason:
            raise NoRegistryError(
                f"the registry of this job at {address} cannot be reached: {reason}; it runs on "
                "the host of whoever first started a group, as long as a process of the job lives"
            ) from reason

    def fileno(self) -> int:
        """Return the descriptor that is readable when the answer comes."""
        return self._connection.fileno()

    def answer(self, timeout: float = _PATIENCE) -> Membership:
        """Return the table."""
        deadline = time.monotonic() + timeout
        try:
            header = handshake.receive(self._connection, HEADER_SIZE, deadline)
            kind, length, check = parse_header(header)
            payload = handshake.receive(self._connection, length, deadline)
        except OSError as reason:
            raise NoRegistryError(
                f"the registry of this job at {self._address} ended: {reason}"
            ) from reason
        check_payload(payload, check)
        if kind == Kind.REFUSED:
            raise Error(f"spawn_group: {payload.decode(errors='replace')}")
        if kind != Kind.TABLE:
            raise Error(f"the registry of this job at {self._address} answered with {kind}")
        return Membership.unpack(payload)

    def close(self) -> None:
        """Ask no longer."""
        self._connection.close()

    def __enter__(self) -> Question:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()


def _asked(address: str, secret: bytes, names: tuple[str, ...]) -> Connection:
    deadline = time.monotonic() + _PATIENCE
    connection = dial(parse_address(address), _PATIENCE)
    try:
        job = job_id(secret)
        handshake.client(connection, secret, job, role=handshake.Role.MEMBER, deadline=deadline)
        payload = struct.pack("<I", len(names)) + b"".join(map(pack_text, names))
        handshake.send(connection, message(Kind.AWAIT, payload), deadline)
    except BaseException:
        connection.close()
        raise
    return connection
