"""What the processes of a job need to find each other."""

from __future__ import annotations

from acp_mpi.record import Record


class Meeting(Record):
    """Where the rendezvous is, or the registry, and what proves that one belongs there."""

    __slots__ = ("address", "secret")

    def __init__(self, address: str, secret: bytes) -> None:
        self.address, self.secret = address, secret
