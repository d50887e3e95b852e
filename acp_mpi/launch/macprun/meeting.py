"""The place where the processes of a job find each other."""

from __future__ import annotations

from acp_mpi.util.record import Record


class Meeting(Record):
    """Where the rendezvous is, or the registry, and what proves that one belongs there.

    `maker` tells the file with the secret from those that others of the job make.
    """

    __slots__ = ("address", "secret", "maker")  # noqa: RUF023

    def __init__(self, address: str, secret: bytes, maker: str = "") -> None:
        self.address, self.secret, self.maker = address, secret, maker
