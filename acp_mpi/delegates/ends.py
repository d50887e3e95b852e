"""The channels between a rank and its delegate, as either of them has them."""

from __future__ import annotations

from typing import Any

import acp_mpi as acp
from acp_mpi.delegates.frames import SIZE, SLOTS, Listener, cut, frames
from acp_mpi.engine import _engine


class Ends:
    """One channel there, and one back."""

    def __init__(self, rank: int) -> None:
        here = _engine.rank()
        self.rank = rank
        self.there = acp.Channel(here, rank, size=SIZE, slots=SLOTS)
        self.back = acp.Channel(rank, here, size=SIZE, slots=SLOTS)
        self._frame = bytearray(SIZE)
        self.coming: acp.Request[Any] | None = None  # of the next frame, where others wait for it
        self._listener = Listener()

    def say(self, number: int, kind: int, x: Any) -> None:
        """Send what is said about command `number`; wait for nobody."""
        data = frames(number, kind, x)
        try:
            for frame in data:
                try:
                    self.there.send(frame, timeout=0)
                except TimeoutError:  # no room: the other end is busy, or stopped
                    self.there.isend(frame)
        except KeyboardInterrupt:
            if len(data) > 1:
                self.there.isend(cut(number))
            raise

    def expect(self) -> acp.Request[Any]:
        """Return a request of the next frame."""
        if self.coming is None:
            self.coming = self.back.irecv(bytearray(SIZE))
        return self.coming

    def hear(self, timeout: float | None = None) -> tuple[int, int, Any] | None:
        """Take in the next frame; None: more belong to it."""
        if self.coming is None:
            return self._listener.hear(self.back.recv(self._frame, timeout))
        frame, self.coming = self.coming.wait(timeout), None
        return self._listener.hear(frame)

    def close(self) -> None:
        """Close both."""
        self.there.close()
        self.back.close()
