"""Where the registry of a job is: a word of the first of its founders that lives."""

from __future__ import annotations

import contextlib

from acp_mpi.engine import _engine
from acp_mpi.errors import PeerLostError
from acp_mpi.spawn.rendezvous.address import format_address, parse_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def find(founders: int) -> str | None:
    """Return the address of the registry; None: there is none that can be found."""
    with contextlib.suppress(PeerLostError):
        return address_of(_first_living(founders, _engine.fetch_add8, 0))
    return None


def announce(founders: int, address: str) -> str | None:
    """Say where the registry is; return where the one is that somebody else has announced."""
    return address_of(_first_living(founders, _engine.fetch_cas8, 0, _word(address)))


def take_back(founders: int, address: str) -> None:
    """Say that there is none at an address that was announced: whoever wants one makes it."""
    _first_living(founders, _engine.fetch_cas8, _word(address), 0)


def _word(address: str) -> int:
    host, port = parse_address(address)
    return int.from_bytes(map(int, host.split(".")), "big") << 16 | port


def address_of(word: int) -> str | None:
    """Return the address that a founder's word says; None: it says nothing."""
    if not word:
        return None
    return format_address(".".join(map(str, (word >> 16).to_bytes(4, "big"))), word & 0xFFFF)


def _first_living(founders: int, fetch: Callable[..., int], *values: int) -> int:
    lost = PeerLostError("spawn_group: all ranks that this job began with have ended")
    for rank in range(founders):
        try:
            return fetch(_engine.post_ga(rank) + _engine.NOTICE, *values)
        except PeerLostError as reason:
            lost = reason
    raise lost
