"""Guards against hangs that a busy machine does not set off."""

import os
import time

PROCESSORS = len(os.sched_getaffinity(0))


class Guard:
    """A limit in seconds of a quiet machine: it runs slower while threads queue for processors.

    `over` must be asked again and again: each time it looks how many threads are running.
    """

    def __init__(self, limit: float) -> None:
        self.limit, self._left, self._looked = limit, limit, time.monotonic()

    @property
    def over(self) -> bool:
        """Whether the limit is reached."""
        now = time.monotonic()
        self._left -= (now - self._looked) * min(1.0, PROCESSORS / _running())
        self._looked = now
        return self._left < 0.0


def _running() -> int:
    """Return how many threads of the machine run or could run now (proc_loadavg)."""
    with open("/proc/loadavg") as file:
        return max(int(file.read().split()[3].partition("/")[0]), 1)
