"""Keep the processors from halting, and look at the processor time that something takes."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

ASLEEP = 0.002  # seconds after which a core that has nothing to do is halted

_SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
parent = os.getppid()
print(flush=True)
while os.getppid() == parent:
    for _ in range(100000):
        pass
"""


def all_cores() -> list[int]:
    """Return the cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def keep_apart(host: int, hosts: int) -> None:
    """Keep this process to its host's share of the cores, one at least.

    Hosts do not share cores: where the scheduler puts both ends of a link on one, now and then, a
    round trip takes a third of the time.
    """
    cores = all_cores()
    os.sched_setaffinity(0, cores[host::hosts] or {cores[host % len(cores)]})


@contextlib.contextmanager
def busy_cores(cores: Sequence[int] | None = None) -> Iterator[None]:
    """Occupy every core with a process that gives way to any other at once.

    A core that computes is woken for a thread in a few microseconds; a halted one, in a virtual
    machine, in tens.
    """
    spinners = [
        subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _SPIN, str(core)], stdout=subprocess.PIPE
        )
        for core in cores or all_cores()
    ]
    try:
        for spinner in spinners:
            assert spinner.stdout is not None
            spinner.stdout.readline()
        yield
    finally:
        for spinner in spinners:
            spinner.kill()
            spinner.communicate()


class ProcessorTime:
    """Seconds that all threads of this process have computed since the object was made."""

    def __init__(self) -> None:
        self._start = time.process_time_ns()

    def seconds(self) -> float:
        """Return user and system time together."""
        return (time.process_time_ns() - self._start) * 1e-9
