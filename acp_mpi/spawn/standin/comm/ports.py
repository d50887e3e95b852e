"""Ports and services by name: how two groups of one job meet that share no communicator."""

from __future__ import annotations

import _socket
import contextlib
import itertools
import os
import re
import struct
from time import monotonic

import acp_mpi as acp
from acp_mpi.errors import FinalizingError, PeerLostError
from acp_mpi.job import membership
from acp_mpi.job.rendezvous.secret import job_id
from acp_mpi.spawn.standin.comm.bodies import new_context, ranks_in
from acp_mpi.spawn.standin.comm.intercommunicators import connected
from acp_mpi.spawn.standin.comm.strangers import hear, heard, tell
from acp_mpi.spawn.standin.family import MPI
from acp_mpi.spawn.standin.p2p.transport import derived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_REQUESTS, _ANSWERS = derived(0, "port"), derived(0, "port, answer")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 2.0  # s between two looks at a port that does not answer
_ANSWER = 2.0  # s for an answer to arrive that was given before the port was closed
_serials = itertools.count(1)
_tickets = itertools.count(1)  # of connects: several threads may wait, each for its own answer
_SIGN = struct.Struct("=Q")  # the port's number, while it is open
_open: dict[str, Any] = {}  # of this process: its ports, and their signs, which others look at


def _refusal(kind: int, text: str) -> Exception:
    error: Exception = MPI.Exception(kind)
    error.add_note(text)
    return error


def _job() -> bytes:
    """Return the begin of the public name of this job: those of others have another."""
    return job_id(membership.job().place.secret)[:8]


_OTHER_JOB = (
    "belongs to another job: start both by one macprun, or have them meet by ACP_RENDEZVOUS"
)


def _take_apart(port: str) -> tuple[int, int, int]:
    """Return its owner, its number, and the address of its sign."""
    port = os.fsdecode(port or "")
    match = re.fullmatch(r"acp-port:([0-9a-f]{16}):(\d+):(\d+):([0-9a-f]+)", port)
    if match is None:
        raise _refusal(MPI.ERR_PORT, f"{port!r} is not a port of this job; Open_port returns one")
    if match[1] != _job().hex():
        raise _refusal(MPI.ERR_PORT, f"{port!r} {_OTHER_JOB}")
    return int(match[2]), int(match[3]), int(match[4], 16)


def open_port(info: Any = MPI.INFO_NULL) -> str:
    """Return a new port, at which this process can accept."""
    serial = next(_serials)
    sign = acp.register_memory(bytearray(_SIGN.pack(serial)))
    port = f"acp-port:{_job().hex()}:{acp.rank()}:{serial}:{acp.query_ga(sign):x}"
    _open[port] = sign
    return port


def close_port(port_name: str) -> None:
    """Accept no more at a port; groups that wait there to be accepted are refused."""
    _, serial, _ = _take_apart(port_name)
    sign = _open.pop(port_name, None)
    if sign is None:
        return
    sign.close()
    while True:
        with contextlib.suppress(PeerLostError):  # the next one may live
            asked = heard(_REQUESTS, serial)
            if asked is None:
                return
            (_, ticket), asker = asked
            tell(_ANSWERS, asker, ticket, None)


def _is_open(serial: int, sign: int) -> bool:
    try:
        return bool(acp.get(sign, bytearray(_SIGN.size)) == _SIGN.pack(serial))
    except (acp.AddressError, acp.RankError):
        return False


class _Look:
    """Looks at a port while its answer is awaited: it may close before the question is there."""

    def __init__(self, serial: int, sign: int) -> None:
        self._port = serial, sign
        self._pause = _FIRST_PAUSE
        self._next = monotonic() + self._pause
        self._closed = False

    def is_vain(self) -> bool:
        """Return whether it is closed, and what it had answered before has had time to arrive."""
        if monotonic() < self._next:
            return False
        if self._closed:
            return True
        self._closed = not _is_open(*self._port)
        self._pause = _ANSWER if self._closed else min(2 * self._pause, _LONGEST_PAUSE)
        self._next = monotonic() + self._pause
        return False


def _together(comm: Any, root: int, talk: Any) -> Any:
    """Have `root` find out the context and the ranks of the other side, and tell all."""
    ranks = ranks_in(comm)
    found, failed = None, None
    if comm.Get_rank() == root:
        try:
            found = talk(ranks)
        except Exception as error:  # whatever it is, the others wait for it
            failed = error
    notes = [*getattr(failed, "__notes__", ()), str(failed)]
    found, text = comm.bcast((found, None if failed is None else notes[0]), root=root)
    if found is None:
        raise failed or _refusal(MPI.ERR_PORT, text)
    context, peers = found
    return connected(context, ranks, tuple(peers))


def accept(comm: Any, port_name: str, info: Any = MPI.INFO_NULL, root: int = 0) -> Any:
    """Wait for a group that connects, at a port that `root` has opened."""

    def talk(ranks: tuple[int, ...]) -> tuple[int, Any]:
        owner, serial, _ = _take_apart(port_name)
        if owner != acp.rank() or port_name not in _open:
            text = f"Accept: {port_name!r} is not open here; open it at the rank `root`"
            raise _refusal(MPI.ERR_PORT, text)
        context = new_context("port")
        while True:
            with contextlib.suppress(PeerLostError):  # it has died since; the next one may live
                (peers, ticket), asker = hear(_REQUESTS, acp.ANY_SOURCE, serial)
                tell(_ANSWERS, asker, ticket, (context, ranks))
                return context, peers

    return _together(comm, root, talk)


def connect(comm: Any, port_name: str, info: Any = MPI.INFO_NULL, root: int = 0) -> Any:
    """Meet the group that accepts at a port."""

    def talk(ranks: tuple[int, ...]) -> Any:
        owner, serial, sign = _take_apart(port_name)
        if not _is_open(serial, sign):
            text = f"Connect: {port_name!r} is closed; Open_port returns another"
            raise _refusal(MPI.ERR_PORT, text)
        ticket = next(_tickets)
        tell(_REQUESTS, owner, serial, (ranks, ticket))
        answer, _ = hear(_ANSWERS, owner, ticket, _Look(serial, sign).is_vain)
        if answer is None:
            text = f"Connect: {port_name!r} was closed before anybody was accepted there"
            raise _refusal(MPI.ERR_PORT, text)
        return answer

    return _together(comm, root, talk)


_INTRODUCTION = struct.Struct("!8sQQ")


def join(fd: int) -> Any:
    """Meet the process at the other end of a socket, which is of this job, too."""
    line, blocking = _socket.socket(fileno=os.dup(fd)), os.get_blocking(fd)
    try:
        line.setblocking(True)  # which is of the socket, not of the descriptor
        own = acp.rank(), new_context("socket")
        line.sendall(_INTRODUCTION.pack(_job(), *own))
        heard = b""
        while len(heard) < _INTRODUCTION.size:
            data = line.recv(_INTRODUCTION.size - len(heard))
            if not data:
                raise _refusal(MPI.ERR_COMM, "Join: the other side has closed the socket")
            heard += data
    finally:
        os.set_blocking(fd, blocking)
        line.close()
    job, rank, context = _INTRODUCTION.unpack(heard)
    if job != _job():
        raise _refusal(MPI.ERR_COMM, f"Join: the process at the other end {_OTHER_JOB}")
    return connected(max(context, own[1]), (own[0],), (rank,))


_LOOKUP = 0.5  # s for the rank that keeps a name to answer: for one that is not there it waits
_own: set[str] = set()  # services of this process


def _key(service: str) -> str:
    return f"mpi service {service}"


def _fail(code: int, text: str) -> None:
    error = MPI.Exception(code)
    error.add_note(text)
    raise error


def _find(service: str) -> str | None:
    try:
        port: str | None = acp.lookup(_key(service), timeout=_LOOKUP)
    except (TimeoutError, FinalizingError):  # not there, and perhaps no rank is left to publish it
        return None
    return port


def publish_name(service_name: str, port_name: str, info: Any = MPI.INFO_NULL) -> None:
    """Make a port known by the name of a service."""
    if service_name in _own:
        _fail(MPI.ERR_SERVICE, f"Publish_name: {service_name!r} is published here already")
    try:
        acp.publish(_key(service_name), port_name)
    except ValueError as reason:
        _fail(MPI.ERR_SERVICE, f"Publish_name: {reason}")
    _own.add(service_name)


def unpublish_name(service_name: str, port_name: str, info: Any = MPI.INFO_NULL) -> None:
    """Take the name of a service back."""
    try:
        _own.discard(service_name)
        acp.withdraw(_key(service_name))
    except (KeyError, ValueError):
        _fail(MPI.ERR_SERVICE, f"Unpublish_name: {service_name!r} was not published here")


def lookup_name(service_name: str, info: Any = MPI.INFO_NULL) -> str:
    """Return the port of a service."""
    port = _find(service_name)
    if port is None:
        _fail(MPI.ERR_NAME, f"Lookup_name: nobody in this job has published {service_name!r}")
    assert port is not None
    return port
