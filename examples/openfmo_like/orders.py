"""What master, groups and members tell each other: words in everyone's starter memory.

A process sleeps until its flag is raised; behind the flag stands the order. The master gives
orders to the leaders of groups, a leader to its members. The master's own words count events.
"""

import pickle
import struct
from collections.abc import Collection
from typing import Any, NamedTuple

import acp_mpi as acp

BEGIN, STOP = 1, 6  # beside the kinds of jobs

_WORD = 8
_FLAG = 0  # offsets in starter memory
_ORDER = _WORD
_EVENTS = 128
_SIZES = _EVENTS + _WORD
_IDLE = _SIZES + 2 * _WORD
_FORM = struct.Struct("<8q")


class Lost(RuntimeError):
    """A process without which the calculation cannot go on has died."""


class Order(NamedTuple):
    """A round of jobs to leaders, or one job to members; addresses are global."""

    kind: int
    sweep: int  # whose densities are read: those of the copy sweep % 2; -1 before the first
    number: int  # how many jobs the round has, or which job it is
    counter: int
    sequence: int  # the numbers of the jobs, in the order in which they are given out
    rows: int  # where results go
    pairs: int  # the table of pairs, two numbers each; of BEGIN a pickled object
    length: int  # how many pairs there are; how many bytes


def give(order: Order, rank: int, serial: int) -> None:
    """Give a process its `serial`-th order."""
    place = acp.query_starter_ga(rank)
    acp.put(place + _ORDER, _FORM.pack(*order), flag=(place + _FLAG, serial))


def take(serial: int, needed: Collection[int]) -> Order:
    """Sleep until this process has got its `serial`-th order, and return it."""
    place = acp.query_starter_ga(acp.rank())
    sleep_until(place + _FLAG, serial, needed)
    return Order(*_FORM.unpack(acp.get(place + _ORDER, bytearray(_FORM.size))))


def sleep_until(ga: int, value: int, needed: Collection[int]) -> None:
    """Wait for a word of this process to reach `value`, whoever dies but the `needed` ranks."""
    while True:
        try:
            acp.wait_until(ga, ">=", value)
            return
        except acp.PeerLostError:
            check_living(needed)


def check_living(needed: Collection[int]) -> list[int]:
    """Accept all losses and return the ranks that live; Lost if one of `needed` does not."""
    living = acp.refresh()
    check_present(needed)
    return living


def check_present(needed: Collection[int]) -> None:
    """Raise Lost if one of `needed` has died."""
    living = acp.ranks()
    dead = [rank for rank in needed if rank not in living]
    if dead:
        raise Lost(_obituary(dead[0]))


def reason(error: Exception) -> str:
    """Return why the calculation ends, for its user."""
    if isinstance(error, acp.PeerLostError) and error.rank is not None:
        return _obituary(error.rank)
    return str(error)


def _obituary(rank: int) -> str:
    group = next(group.name for group in acp.groups() if rank in group.ranks)
    return f"rank {rank} (group {group}) has died"


def keep(x: Any, rank: int) -> tuple[int, int]:
    """Put an object into the memory of a rank; return its address and length."""
    data = pickle.dumps(x)
    ga = acp.malloc(len(data), rank=rank)
    acp.put(ga, data)
    return ga, len(data)


def kept(ga: int, length: int) -> Any:
    """Return the object that lies at an address."""
    return pickle.loads(acp.get(ga, bytearray(length)))


def report_sizes(master: int, sizes: Any) -> None:
    """Tell the master how large fragments are; what several leaders say is the same."""
    ga, length = keep(sizes, master)
    place = acp.query_starter_ga(master) + _SIZES
    acp.put(place + _WORD, _word(length), flag=(place, ga))
    count_event(master)


def reported_sizes() -> Any:
    """Return what leaders say of the sizes; None if none has said it yet."""
    ga = _mine(_SIZES)
    return kept(ga, _mine(_SIZES + _WORD)) if ga else None


def report(master: int, place: int, value: int) -> None:
    """Tell the master a number, not 0: a group its last round, a server what it took."""
    acp.put(acp.query_starter_ga(master) + _IDLE + _WORD * place, _word(value))
    count_event(master)


def reported(place: int) -> int:
    """Return the last number from there, 0 before."""
    return _mine(_IDLE + _WORD * place)


def _word(value: int) -> bytes:
    return value.to_bytes(_WORD, "little")


def _mine(offset: int) -> int:
    place = acp.query_starter_ga(acp.rank()) + offset
    return int.from_bytes(acp.get(place, bytearray(_WORD)), "little")


def count_event(master: int) -> None:
    """Wake the master: something has happened."""
    acp.fetch_add8(acp.query_starter_ga(master) + _EVENTS, 1)


def next_event(seen: int) -> int:
    """Sleep until more than `seen` events have happened; return how many.

    Raises PeerLostError when a process has died.
    """
    place = acp.query_starter_ga(acp.rank()) + _EVENTS
    acp.wait_until(place, ">=", seen + 1)
    return acp.fetch_add8(place, 0)
