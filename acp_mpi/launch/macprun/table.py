"""The table on the terminal while the groups of a job come together."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from acp_mpi.job.rendezvous.arrival import Arrival

_AFTER = 1.0  # s: a job that starts as it should shows nothing


class Table:
    """Lines at the end of a terminal that are drawn over; nothing where there is no terminal.

    Any thread may call its methods. Whether it is read makes no difference to the job.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._on = stream.isatty()
        self._lines = 0
        self._lock = threading.RLock()

    def show(self, arrivals: Callable[[], "Sequence[Arrival]"]) -> bool:
        """Draw the arrivals; False without a terminal, or anything to be watched."""
        if not self._on:
            return False
        came = arrivals()
        if all(arrival.complete for arrival in came):
            self.hide()
            return False
        if (waited := time.monotonic() - self._began) >= _AFTER:
            self._draw(rows(came, waited))
        return True

    def hide(self) -> None:
        """Take the table away: something else is to be written."""
        with self._lock:
            if self._lines:
                self._write(f"\x1b[{self._lines}A\x1b[J")
                self._lines = 0

    def say(self, line: str) -> None:
        """Write a line that stays, in place of the table, which is drawn again below it."""
        with self._lock:
            self.hide()
            self._write(f"{line}\n")

    def _draw(self, lines: list[str]) -> None:
        with self._lock, contextlib.suppress(OSError):
            self.hide()
            width, height = os.get_terminal_size(self._stream.fileno())
            del lines[max((height or 24) - 2, 1) :]  # 0: it does not know
            self._write("".join(f"{line[: (width or 80) - 1]}\n" for line in lines))
            self._lines = len(lines)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._stream.write(text)
            self._stream.flush()


def rows(arrivals: "Sequence[Arrival]", waited: float) -> list[str]:
    """Return the lines of the table: groups, how many ranks came, from where."""
    width = max(len(arrival.name) for arrival in arrivals)  # "" is a group not known yet
    lines = [f"macprun: waiting for {waited:.0f} s"]
    for arrival in arrivals:
        count = f"{len(arrival.ranks)} of {'?' if arrival.size is None else arrival.size}"
        where = ", ".join(dict.fromkeys(arrival.origins))
        state = arrival.failure or where or "nobody yet"
        lines.append(f"  {arrival.name:<{width}}  {count:>13}  {state}")
    return lines
