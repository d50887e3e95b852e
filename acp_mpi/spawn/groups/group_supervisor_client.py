"""The supervisor of the groups of one call, as the process that has it made sees it."""

from __future__ import annotations

import _socket
import contextlib
import errno
import os
import select
import time

from acp_mpi.errors import Error
from acp_mpi.spawn.groups import fork_server_client, wire_format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from acp_mpi.job.registry.client import Question
    from acp_mpi.spawn.groups.founding import Registry

_ENDING = 10.0  # s for a minder to end what it has started
_WHO_JOINS = (
    "Each process must be a Python with acp_mpi that calls acp.init(), as a child of Comm.Spawn "
    "does when it imports mpi4py.MPI; one that only knows MPI is MPI's if Info says acp_mpi=off"
)
_NOT_THERE = os.strerror(errno.ENOENT)  # of the program, or of the folder that it runs in
_LONGEST = 86400.0  # s of one look: poll takes no more than 24 days


class Minding:
    """Groups that are being started, and ended if this block does not come to its end."""

    def __init__(self, names: Sequence[str], orders: Sequence[Any], registry: Registry) -> None:
        self._names, self._registry = names, registry
        self._heard = b""
        with fork_server_client.output() as output:
            self._line = fork_server_client.make(wire_format.MINDER, *output)
        self._line.sendall(wire_format.framed(orders))

    def await_groups(self, question: Question, deadline: float, timeout: float) -> None:
        """Return when the answer is there; raise what has become of a group instead."""
        answer, line = question.fileno(), self._line.fileno()
        either = select.poll()  # `select` takes no descriptor from 1,024 on
        for descriptor in (answer, line):
            either.register(descriptor, select.POLLIN)
        while True:
            left = max(deadline - time.monotonic(), 0.0)
            ready = dict(either.poll(min(left, _LONGEST) * 1000))
            if answer in ready:
                return
            if line in ready:
                self._hear()
            elif left <= _LONGEST:
                names = ", ".join(map(repr, self._names))
                raise TimeoutError(
                    f"spawn_group: not all of {names} have called acp.init() within {timeout:g} s; "
                    "they have been ended. Give more time by timeout= or ACP_JOIN_TIMEOUT"
                )

    def _hear(self) -> None:
        data = self._line.recv(1 << 16)
        if not data and not all(map(self._has_joined, self._names)):
            raise Error("spawn_group: the process that starts groups for this one was killed")
        told, self._heard = wire_format.parted(self._heard + data)
        for word in told:
            name, said = self._names[word["group"]], word["output"]
            if self._has_joined(name):
                continue
            text = f"spawn_group: group {name!r} ended before it had joined: {word['reason']}"
            if said or not word["reason"].endswith(_NOT_THERE):
                text += f"; its last lines:\n{said}" if said else "; it said nothing"
                text += f"\n{_WHO_JOINS}"
            raise Error(text)

    def _has_joined(self, name: str) -> bool:
        with self._registry.question() as question:
            return any(group.name == name for group in self._registry.answer(question).groups)

    def release(self) -> None:
        """Let the groups live on without this process."""
        with contextlib.suppress(BrokenPipeError):  # all have ended by now, and it with them
            self._line.sendall(b"joined\n")

    def __enter__(self) -> Minding:
        return self

    def __exit__(self, kind: object, *ignored: object) -> None:
        with self._line:
            if kind is not None:
                self._await_end()

    def _await_end(self) -> None:
        """Have the groups ended; return when the minder has done it."""
        self._line.settimeout(_ENDING)
        with contextlib.suppress(OSError):
            self._line.shutdown(_socket.SHUT_WR)
            while self._line.recv(1 << 16):
                pass
