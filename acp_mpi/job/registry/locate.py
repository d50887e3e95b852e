"""Where the registry of a job is: a word of some of its founders, for each of them may end."""

from __future__ import annotations

import itertools

from acp_mpi.engine import _engine
from acp_mpi.errors import PeerLostError
from acp_mpi.job.rendezvous.address import format_address, parse_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_KEEPERS = 3


def find(founders: int) -> str | None:
    """Return the address of the registry; None: there is none that can be found."""
    for slot, word in _words(founders, _engine.fetch_add8, 0):
        if word or slot == 0:  # as long as the first lives, no other makes one without its word
            return address_of(word)
    return None


def announce(founders: int, address: str) -> str | None:
    """Publish where the registry is; return the address that another process has announced."""
    own, said = _word(address), 0
    for _, word in _words(founders, _engine.fetch_cas8, 0, own):
        if word and word != own:
            if said:
                take_back(founders, address)
            return address_of(word)
        said += 1
    if not said:
        raise PeerLostError("spawn_group: all ranks that this job began with have ended")
    return None


def take_back(founders: int, address: str) -> None:
    """Forget an announced address without a registry: the next process that wants one makes it."""
    for _ in _words(founders, _engine.fetch_cas8, _word(address), 0):
        pass


def _words(founders: int, fetch: Callable[..., int], *values: int) -> Iterator[tuple[int, int]]:
    """Fetch the word of one keeper after the other; yield its slot and what it was.

    They are the first that live in an order in which the ranks of a group, which may end together,
    do not follow each other.
    """
    far = dict.fromkeys((0, founders - 1, founders // 2))
    living = 0
    for slot in itertools.chain(far, (slot for slot in range(founders) if slot not in far)):
        (rank,) = _engine.ranks_of(range(slot, slot + 1))
        try:
            word = fetch(_engine.post_ga(rank) + _engine.NOTICE, *values)
        except PeerLostError:
            continue
        yield slot, word
        living += 1
        if living == _KEEPERS:
            return


def _word(address: str) -> int:
    host, port = parse_address(address)
    return int.from_bytes(map(int, host.split(".")), "big") << 16 | port


def address_of(word: int) -> str | None:
    """Return the address that a founder's word says; None: it says nothing."""
    if not word:
        return None
    return format_address(".".join(map(str, (word >> 16).to_bytes(4, "big"))), word & 0xFFFF)
