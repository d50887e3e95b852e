"""A command that does nothing, there and back, beside a message through a pair of sockets."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any

from harness import MS, US, Body, Effort, Goal, Row, interleave, singles

import acp_mpi as acp

MESSAGE = bytes(64)
TOGETHER = 32  # commands that are handed over before the first is waited for


@contextmanager
def echoing() -> Iterator[socket.socket]:
    """Give one end of a pair whose other end, in another process, sends back what comes."""
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        here.close()
        while data := there.recv(len(MESSAGE)):
            there.sendall(data)
        os._exit(0)
    there.close()
    with here:
        yield here
    os.waitpid(child, 0)


def handing_over(begin: Callable[[], acp.Request[Any]]) -> Body:
    """Return a body of which only handing commands over counts, in groups that are waited for."""

    def body(count: int) -> float:
        seconds, left = 0.0, count
        while left:
            group = min(left, TOGETHER)
            start = time.perf_counter()
            requests = [begin() for _ in repeat(None, group)]
            seconds += time.perf_counter() - start
            acp.waitall(requests)
            left -= group
        return seconds

    return body


def measure(quick: bool) -> list[Row]:
    """Measure as the one rank of the job."""
    effort, seconds = Effort.of(quick), 1.0 if quick else 5.0
    with echoing() as peer, acp.init():
        d = acp.delegate()

        def command(count: int) -> None:
            for _ in repeat(None, count):
                d.ping().wait()

        def by_socket(count: int) -> None:
            for _ in repeat(None, count):
                peer.sendall(MESSAGE)
                peer.recv(len(MESSAGE))

        mine, theirs = singles(effort, command, by_socket)
        (submit,) = interleave(effort, handing_over(d.ping))
        before = d.statistics().processor
        time.sleep(seconds)
        used = d.statistics().processor - before
    return [
        Row("a command that does nothing, waited for", "µs", mine.median / US, "socket pair",
            theirs.median / US, Goal(times=1.3)),
        Row("handing it over", "µs", submit.median / US, goal=Goal(at_most=1.5)),
        Row(f"processor time of {seconds:g} s without commands, and one statistics()", "ms",
            used / MS, goal=Goal(at_most=seconds)),
    ]  # fmt: skip
