"""A process that makes others for the one that has started it: by forking, for all is loaded here.

Its standard input is a socket. A request there is a letter and descriptors; the new process reads
its orders from the first of them. The server ends with the process that started it; its children
live on.
"""

from __future__ import annotations

import _socket
import gc
import os
import select

from acp_mpi.launch.macprun import family
from acp_mpi.spawn.groups import group_supervisor
from acp_mpi.spawn.groups.wire_format import MINDER, REGISTRY
from acp_mpi.util import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from collections.abc import Sequence
else:
    import _signal as signal  # what signal makes of it takes time to load

_NAMES = {MINDER: b"acp_mpi minder", REGISTRY: b"acp_mpi registry"}  # as ps and top show them

_FEW = 4  # descriptors of a request
_SIZE = 4  # bytes of a descriptor's number
_IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


def main() -> None:
    """Run as a process, and as each one that is forked from it."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    line = _socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    starter = processes.end_of(os.getppid())
    ready = select.poll()
    ready.register(line, select.POLLIN)
    ready.register(starter, select.POLLIN)  # a child that it forks may hold the line
    gc.freeze()  # looking for garbage here would copy pages, too
    while line.fileno() in dict(ready.poll()):
        kind, given = _request(line)
        if not kind:
            return
        if not os.fork():
            line.close()
            os.close(starter)
            _become(kind, given)
            os._exit(0)  # taking Python apart would copy the pages that it shares with the others
        for descriptor in given:
            os.close(descriptor)


def _request(line: _socket.socket) -> tuple[bytes, list[int]]:
    """Return a request: its letter, "" at the end, and its descriptors."""
    room = _socket.CMSG_SPACE(_FEW * _SIZE)
    try:
        kind, notes, _, _ = line.recvmsg(1, room, _socket.MSG_CMSG_CLOEXEC)
    except ConnectionResetError:
        return b"", []
    given = b"".join(data for _, _, data in notes)
    numbers = memoryview(given).cast("i").tolist() if given else []
    return kind, numbers


def _become(kind: bytes, given: Sequence[int]) -> None:
    os.setsid()
    family.rename(_NAMES[kind])
    if kind == MINDER:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        group_supervisor.run(*given)
    elif kind == REGISTRY:
        from acp_mpi.spawn.groups import registry_server  # one of all that it makes loads that

        registry_server.run(*given)
