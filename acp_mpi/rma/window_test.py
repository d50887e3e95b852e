"""The self-test of an MPI window: puts are there after a flush, without calls at the target."""

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from acp_mpi.engine import _engine
from acp_mpi.errors import Error

_FLUSH = 0.1  # seconds that a flush may take if the target need not help
EARLY = "a put was not there when its flush had returned"
_ARRIVAL = 10.0  # seconds for a put to arrive when the target drives MPI


def run(process: Any, nodes: Sequence[int], slots: range, probe: int) -> str:
    """Return "" if puts between nodes need no calls at the target, else which one did.

    The first rank of each node puts a word to the first of the next one, in rounds: a putting rank
    calls MPI, so it is not a target at that time. All others wait without MPI, and the thread of
    `acp.progress` rests: the program may end it later.
    """
    progress = sys.modules.get("acp_mpi.rma.progress")
    if progress is None:
        return _rounds(process, nodes, slots, probe)
    progress.pause()
    try:
        return _rounds(process, nodes, slots, probe)
    finally:
        progress.resume()


def _rounds(process: Any, nodes: Sequence[int], slots: range, probe: int) -> str:
    firsts = [nodes.index(node) for node in dict.fromkeys(nodes)]
    ranks = list(slots)  # no reset has permuted them yet
    probes = process.exchange(probe)
    if not all(probes):
        return "the window part is smaller than starter memory and a page"
    count = len(firsts)
    for turn in range(2 + count % 2):
        failed = ""
        _engine.barrier(ranks)
        for place, first in enumerate(firsts):
            alone = count % 2 == 1 and place == count - 1  # its next is the first: a third round
            if first == process.rank and turn == (2 if alone else place % 2):
                target = firsts[(place + 1) % count]
                failed = _try(ranks[target], probes[target])
                if failed:
                    failed += f", rank {ranks[first]} to rank {ranks[target]}"
        _engine.barrier(ranks)
        failed = next(filter(None, process.exchange(failed)), "")
        if failed:
            return failed
    return ""


def _try(target: int, place: int) -> str:
    """Put a fresh word to `target` and look for it by link; leave the word zero again."""
    ga = _engine.query_starter_ga(target) + place
    value = int.from_bytes(os.urandom(8), "little") | 1
    errors: list[Exception] = []

    def put() -> None:
        try:
            _engine.window_put(target, place, value)
        except Error as error:
            errors.append(error)

    def there() -> bool:
        word = bytearray(8)
        _engine.get(ga, word)
        return int.from_bytes(word, "little") == value

    thread = threading.Thread(target=put, daemon=True)
    thread.start()
    thread.join(_FLUSH)
    reason = ""
    if errors:
        return str(errors[0])
    if thread.is_alive():
        reason = "a flush waited for MPI calls at its target"
    elif not there():
        reason = EARLY
    if reason:  # what is still on its way must not arrive later
        _engine.window_visit(target, True)
        _until(lambda: not thread.is_alive() and there())
        _engine.window_visit(target, False)
    _engine.put(ga, bytes(8))
    return reason


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _ARRIVAL
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
