"""The channels between a rank and its delegate, as either of them has them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import acp_mpi as acp
from acp_mpi.delegates.frames import SIZE, SLOTS, Listener
from acp_mpi.engine import _engine

if TYPE_CHECKING:
    from collections.abc import Iterable


class Ends:
    """One channel there, and one back."""

    def __init__(self, rank: int) -> None:
        here = _engine.rank()
        self.rank = rank
        self.there = acp.Channel(here, rank, size=SIZE, slots=SLOTS)
        self._back = acp.Channel(rank, here, size=SIZE, slots=SLOTS)
        self._frame = bytearray(SIZE)
        self._listener = Listener()
        self._turn = threading.Lock()
        self.coming: acp.Request[Any] = self._back.irecv(self._frame)

    def say(self, data: Iterable[bytes]) -> None:
        """Send frames, with none of another thread between them; wait for nobody."""
        with self._turn:
            for frame in data:
                try:
                    self.there.send(frame, timeout=0)
                except TimeoutError:  # no room: the other end is busy, or stopped
                    self.there.isend(frame)

    def hear(self, timeout: float | None = None) -> tuple[int, int, Any] | None:
        """Take in the next frame, and expect another; None: more belong to it."""
        self.coming.wait(timeout)
        said = self._listener.hear(self._frame)
        self.coming = self._back.irecv(self._frame)
        return said

    def close(self) -> None:
        """Close both."""
        self.there.close()
        self._back.close()
