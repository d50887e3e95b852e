"""How far a calculation is: a bar on a terminal, else a line now and then."""

import sys
import time
from typing import TextIO

_WIDTH = 30
_EVERY = 5.0  # seconds between lines where there is no terminal


class Progress:
    """Told of the jobs done, it estimates the time that the phase still takes."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._title = ""
        self._begin = self._shown = time.monotonic()
        self._already = 0

    def phase(self, title: str) -> None:
        """Begin a phase."""
        self._title = title
        self._begin = self._shown = time.monotonic()
        self._already = -1

    def show(self, done: int, total: int) -> None:
        """Show that `done` of `total` jobs are done."""
        now = time.monotonic()
        if self._already < 0:
            self._already = done - 1  # the first one has just been done
        if not self._terminal and now - self._shown < _EVERY:
            return
        self._shown = now
        pace = (now - self._begin) / max(done - self._already, 1)
        left = f"{pace * (total - done):.0f} s left"
        full = _WIDTH * done // total
        bar = f"{self._title:20} [{'#' * full}{'.' * (_WIDTH - full)}] {done}/{total}, {left}"
        self._stream.write(f"\r{bar}\x1b[K" if self._terminal else f"{bar}\n")
        self._stream.flush()

    def clear(self) -> None:
        """Take the bar away, before something else is printed."""
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
