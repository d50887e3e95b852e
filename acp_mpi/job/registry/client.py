"""The member's side of the registry: questions."""

from __future__ import annotations

import struct
import time

from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.job.rendezvous import handshake
from acp_mpi.job.rendezvous.address import parse_address
from acp_mpi.job.rendezvous.connection import Connection, dial
from acp_mpi.job.rendezvous.membership import Membership
from acp_mpi.job.rendezvous.messages import Kind
from acp_mpi.job.rendezvous.packing import pack_text
from acp_mpi.job.rendezvous.secret import job_id

_PATIENCE = 20.0  # s for an answer that depends on no other process
_PAUSE = 0.02  # between tries


class NoRegistryError(Error):
    """The registry has ended, or cannot be reached."""


class Question:
    """A question to the registry that is answered when the groups of these names have come.

    `maker`: the process that has had it made; names are promised to it.
    """

    def __init__(
        self, address: str, secret: bytes, names: tuple[str, ...] = (), *, maker: bool = False
    ) -> None:
        self._address, self._secret = address, secret
        payload = struct.pack("<I?", len(names), maker) + b"".join(map(pack_text, names))
        self._question = payload
        self._ask()

    def _ask(self) -> None:
        try:
            self._connection, self._side = _asked(self._address, self._secret, self._question)
        except OSError as reason:
            raise NoRegistryError(
                f"the registry of this job at {self._address} cannot be reached: {reason}; it "
                "runs on the host of the process that first started a group, as long as a "
                "process of the job lives"
            ) from reason

    def fileno(self) -> int:
        """Return the descriptor that is readable when the answer comes."""
        return self._connection.fileno()

    def answer(self, timeout: float = _PATIENCE) -> Membership:
        """Return the table."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                kind, payload = handshake.receive_message(self._connection, self._side, deadline)
                break
            except OSError as reason:
                if not isinstance(reason, ConnectionError) or time.monotonic() >= deadline:
                    raise NoRegistryError(
                        f"the registry of this job at {self._address} ended: {reason}"
                    ) from reason
            # a member that was slow to prove itself has been dropped, and learns it only now
            self._connection.close()
            time.sleep(_PAUSE)
            self._ask()
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


def _asked(address: str, secret: bytes, question: bytes) -> tuple[Connection, _engine.Handshake]:
    deadline, job = time.monotonic() + _PATIENCE, job_id(secret)
    while True:
        connection = dial(parse_address(address), max(deadline - time.monotonic(), _PAUSE))
        try:
            role = handshake.Role.MEMBER
            side = handshake.client(connection, secret, job, role=role, deadline=deadline)
            handshake.send_message(connection, side, Kind.AWAIT, question, deadline)
            return connection, side
        except handshake.Broken:  # in a crowd it lets the slow go; its end is seen by the next try
            connection.close()
            time.sleep(_PAUSE)
            if time.monotonic() >= deadline:
                raise
        except BaseException:
            connection.close()
            raise
