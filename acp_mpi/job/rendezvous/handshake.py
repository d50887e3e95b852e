"""The authenticated opening of every connection of a job, by the engine (`transport/handshake.h`).

It is driven by generators that do no input or output: each `yield` hands out bytes to send and the
number of bytes to read, and is answered by these. Blocking sockets are driven here, those of the
rendezvous in `visitor`.
"""

from __future__ import annotations

import time

from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.job.rendezvous.messages import CODE_SIZE, HEADER_SIZE, check, message, parse_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Generator
    from typing import TypeAlias

    Steps: TypeAlias = Generator[tuple[bytes, int], bytes, None]

VERSION, OLDEST = _engine.PROTOCOL, _engine.OLDEST_PROTOCOL
NO_SLOT = 0xFFFFFFFF  # of the rendezvous, and of a member before it joined
ANY, MAC = 0, 2  # how the connection is protected: as the server wants, by codes

_GLANCE = 0.001  # s


class Role:
    """The purpose of a connection."""

    LINK = 1  # between two ranks
    MEMBER = 2  # from a member to the rendezvous


class Refusal:
    """Why a handshake failed; on the wire the status of a CHALLENGE."""

    BAD_MAGIC = 1
    BAD_VERSION = 2
    BAD_JOB = 3
    BAD_ROLE = 4
    WRONG_SLOT = 5
    BAD_MAC = 6
    OTHER = 7
    NO_RANDOM = 8
    BAD_LINKS = 9


_MEANING = {
    Refusal.BAD_MAGIC: "the other side is no ACP process",
    Refusal.BAD_JOB: "the other side belongs to another job or has another secret "
    "(compare ACP_SECRET_FILE of both)",
    Refusal.BAD_ROLE: "a rank was taken for the rendezvous or the reverse",
    Refusal.WRONG_SLOT: "another rank answers at this address",
    Refusal.BAD_MAC: "the other side does not know the job's secret",
    Refusal.OTHER: "the other side refused",
    Refusal.NO_RANDOM: "no random numbers from the system (getrandom)",
    Refusal.BAD_LINKS: "the other side protects its connections in another way; set ACP_LINKS "
    "alike for all processes of the job",
}


class Broken(Error, ConnectionError):
    """The connection ended before both sides had proved themselves."""


def client(
    sock: socket,
    secret: bytes,
    job: bytes,
    *,
    role: int,
    slot: int = NO_SLOT,
    want: int = NO_SLOT,
    process_nonce: int = 0,
    deadline: float,
) -> _engine.Handshake:
    """Open a connected blocking socket as the side that connected.

    `want` is the slot that must answer, `deadline` a reading of `time.monotonic`. Raises
    PermissionError if the sides do not share a secret, TimeoutError, Broken, Error otherwise; the
    caller closes the socket. Reads no byte beyond the handshake. Returns this side, which has the
    connection's keys.
    """
    side = calling(secret, job, role, slot, want, process_nonce)
    drive(sock, steps(side), deadline)
    return side


def calling(
    secret: bytes, job: bytes, role: int, slot: int, want: int, process_nonce: int
) -> _engine.Handshake:
    """Return the side that has connected."""
    return _engine.Handshake(secret, job, slot, MAC, role=role, want=want, nonce=process_nonce)


def called(secret: bytes, job: bytes, slot: int = NO_SLOT) -> _engine.Handshake:
    """Return the side that was connected to."""
    return _engine.Handshake(secret, job, slot, MAC)


def steps(side: _engine.Handshake) -> Steps:
    """Yield (bytes to send, size to read); the last of them has nothing to read.

    Raises the exception for a refusal.
    """
    while wanted := side.wants():
        side.feed((yield side.out(), wanted))
    if out := side.out():
        yield out, 0
    if side.refusal:
        raise failure(side.refusal, side.versions)


def failure(refusal: int, theirs: tuple[int, int] = (VERSION, OLDEST)) -> Exception:
    """Return the exception for a refusal: PermissionError where secrets differ, else Error.

    `theirs`: the versions that the other side understands, the newest first.
    """
    if refusal == Refusal.BAD_VERSION:
        return Error(
            f"the other side has another version of acp_mpi: it speaks protocol {_range(*theirs)}, "
            f"and this one {_range(VERSION, OLDEST)}: install the same in the environments of both"
        )
    kind = PermissionError if refusal in (Refusal.BAD_JOB, Refusal.BAD_MAC) else Error
    return kind(_MEANING[refusal])


def _range(newest: int, oldest: int) -> str:
    return f"{newest}" if oldest == newest else f"{oldest} to {newest}"


def receive(sock: socket, size: int, deadline: float) -> bytearray:
    """Read exactly `size` bytes, which have come before the deadline.

    Tables are large, so nothing is copied.
    """
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        # what is there counts also if this process was stopped meanwhile
        sock.settimeout(max(deadline - time.monotonic(), _GLANCE))
        n = sock.recv_into(view[got:])
        if n == 0:
            raise ConnectionResetError("the other side closed the connection")
        got += n
    return data


def send(sock: socket, data: bytes, deadline: float) -> None:
    """Write all bytes before the deadline."""
    sock.settimeout(_left(deadline))
    sock.sendall(data)


def send_message(
    sock: socket, side: _engine.Handshake, kind: int, payload: bytes, deadline: float
) -> None:
    """Write a message before the deadline."""
    send(sock, b"".join(message(side, kind, payload)), deadline)


def receive_message(
    sock: socket, side: _engine.Handshake, deadline: float
) -> tuple[int, bytearray]:
    """Read the kind and the payload of a message that the other side has made."""
    header = receive(sock, HEADER_SIZE, deadline)
    kind, length = parse_header(header)
    payload = receive(sock, length, deadline)
    check(side, header, payload, receive(sock, CODE_SIZE, deadline))
    return kind, payload


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:  # and 0 would make the socket non-blocking
        raise TimeoutError("timed out")
    return left


def drive(sock: socket, steps: Steps, deadline: float) -> None:
    """Go through the steps on a connected blocking socket; raises as `client` does."""
    answer: bytes | None = None
    try:
        while True:
            out, size = steps.send(answer) if answer is not None else next(steps)
            if out:
                send(sock, out, deadline)
            answer = bytes(receive(sock, size, deadline))
    except StopIteration:
        return
    except TimeoutError as reason:
        raise TimeoutError("the handshake took too long") from reason
    except ConnectionError as reason:
        raise Broken(f"the connection broke during the handshake: {reason}") from reason
