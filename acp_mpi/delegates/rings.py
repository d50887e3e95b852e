"""Rings at a delegate: a number that a kernel stores in a slot begins a command.

One thread looks at the armed rings, and sleeps where none is.
"""

from __future__ import annotations

import threading
from array import array

from acp_mpi.delegates.frames import DONE, FAILED, portable
from acp_mpi.engine import _engine
from acp_mpi.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from acp_mpi.delegates.job import Client


class _Ring:
    """Slots of a rank, and what may be stored there."""

    def __init__(self, client: Client, base: int, ga: int, slots: int) -> None:
        self.client, self.base, self.ga = client, base, ga
        self.commands: dict[int, tuple[Any, ...]] = {}
        self.taken = [0] * slots  # how often something was taken from each

    def take(self) -> list[tuple[int, int]]:
        """Empty the slots; return (number of the firing, what was stored), in order."""
        words = memoryview(_engine.get(self.ga, bytearray(8 * len(self.taken)))).cast("Q")
        found = []
        for slot, word in enumerate(words):
            if word:
                number = self.taken[slot] * len(self.taken) + slot
                self.taken[slot] += 1
                found.append((number, _engine.fetch_swap8(self.ga + 8 * slot, 0)))
        return sorted(found)


class Rings:
    """All of a delegate."""

    def __init__(self, command: Callable[..., None]) -> None:
        self._command = command
        self._rings: dict[tuple[Client, int], _Ring] = {}
        self._armed: list[_Ring] = []
        self._changed = threading.Condition()
        self._watch = _engine.Watch()
        self._thread: threading.Thread | None = None
        self._ending = False

    def do(self, client: Client, what: str, *arguments: Any) -> tuple[int, Any]:
        """Do what a rank asks, one of the methods below; return the answer."""
        try:
            return DONE, getattr(self, what)(client, *arguments)
        except Exception as error:
            return FAILED, portable(error)

    def open(self, client: Client, base: int, ga: int, slots: int) -> None:
        """Take in a ring, whose firings have numbers from `base` on."""
        self._rings[client, base] = _Ring(client, base, ga, slots)

    def prepare(self, client: Client, base: int, k: int, command: tuple[Any, ...]) -> None:
        """Have `k` stand for a command."""
        self._rings[client, base].commands[k] = command

    def arm(self, client: Client, base: int) -> None:
        """Look at a ring."""
        with self._changed:
            self._arm([*self._armed, self._rings[client, base]])
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._look, name="delegate-rings", daemon=True
                )
                self._thread.start()

    def disarm(self, client: Client, base: int) -> list[int]:
        """Look a last time; return how often something was taken from each slot."""
        ring = self._rings[client, base]
        with self._changed:
            if ring in self._armed:
                self._fire(ring)
                self._arm([one for one in self._armed if one is not ring])
        return list(ring.taken)

    def close(self, client: Client, base: int) -> None:
        """Forget a ring that is not armed."""
        del self._rings[client, base]

    def forget(self, client: Client) -> None:
        """Forget those of a rank that has gone."""
        with self._changed:
            for key in [key for key in self._rings if key[0] is client]:
                del self._rings[key]
            self._arm([ring for ring in self._armed if ring.client is not client])

    def end(self) -> None:
        """End the thread."""
        with self._changed:
            self._ending = True
            self._arm([])
        if self._thread is not None:
            self._thread.join()

    def _arm(self, rings: list[_Ring]) -> None:
        if rings != self._armed or self._ending:
            self._armed = rings
            self._watch.stop()
            self._changed.notify()

    def _look(self) -> None:
        while True:
            with self._changed:
                while not self._armed and not self._ending:
                    self._changed.wait()
                if self._ending:
                    return
                armed = self._armed
            places = array("Q", [n for ring in armed for n in (ring.ga, len(ring.taken))])
            try:
                if self._watch.look(places.tobytes()):
                    with self._changed:
                        if (ring := armed[self._watch.at]) in self._armed:
                            self._fire(ring)
            except Error:  # its rank has died, and is forgotten soon
                with self._changed:
                    self._arm([one for one in self._armed if one is not armed[self._watch.at]])

    def _fire(self, ring: _Ring) -> None:
        for number, k in ring.take():
            if k in ring.commands:
                try:
                    self._command(ring.client, ring.base + number, ring.commands[k], k)
                except Exception as error:  # which nobody else would tell the rank
                    ring.client.answer(ring.base + number, FAILED, portable(error))
                continue
            known = ", ".join(map(str, sorted(ring.commands))) or "none"
            text = (
                f"ring: firing {number}, in slot {number % len(ring.taken)}, stored {k}, which is "
                f"not the number of a command; those of this ring are: {known}"
            )
            ring.client.answer(ring.base + number, FAILED, Error(text))
