"""The authenticated opening of every connection of a job, as `engine/handshake.h` defines it.

The exchange itself is written as generators that do no input or output: each `yield` hands out
bytes to send and the number of bytes to read, and is answered by these. Blocking sockets are
driven here, those of the rendezvous in `visitor`.
"""

from __future__ import annotations

import os
import struct
import time

from acp_mpi.engine import _engine
from acp_mpi.errors import Error
from acp_mpi.util.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Generator
    from typing import TypeAlias

    Steps: TypeAlias = Generator[tuple[bytes, int], bytes, "Peer | None"]

VERSION = 2  # of the protocol
OLDEST = 2  # that is understood, too: a side that speaks a later one says which is its oldest
NO_SLOT = 0xFFFFFFFF  # of the rendezvous, and of a member before it joined

_HELLO = struct.Struct("<4sBBBxIIQ16s32s")
_CHALLENGE = struct.Struct("<4sBBBxI32s32s")
_PROOF = struct.Struct("<4s4x32s")
_MAC_SIZE = 32
_GLANCE = 0.001  # s
_BEGIN = struct.Struct("<4sBBB")  # magic, version, a byte of each, oldest version: in all to come


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


_MEANING = {
    Refusal.BAD_MAGIC: "the other side is no ACP process",
    Refusal.BAD_JOB: "the other side belongs to another job or has another secret "
    "(compare ACP_SECRET_FILE of both)",
    Refusal.BAD_ROLE: "a rank was taken for the rendezvous or the reverse",
    Refusal.WRONG_SLOT: "another rank answers at this address",
    Refusal.BAD_MAC: "the other side does not know the job's secret",
    Refusal.OTHER: "the other side refused",
}


class Broken(Error, ConnectionError):
    """The connection ended before both sides had proved themselves."""


class Peer(Record):
    """A client that has proved itself, as the server knows it."""

    __slots__ = ("role", "slot", "process_nonce")  # noqa: RUF023

    def __init__(self, role: int, slot: int, process_nonce: int) -> None:
        self.role, self.slot, self.process_nonce = role, slot, process_nonce


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
) -> None:
    """Open a connected blocking socket as the side that connected.

    `want` is the slot that must answer, `deadline` a reading of `time.monotonic`. Raises
    PermissionError if the sides do not share a secret, TimeoutError, Broken, Error otherwise; the
    caller closes the socket. Reads no byte beyond the handshake.
    """
    _drive(sock, client_steps(secret, job, role, slot, want, process_nonce), deadline)


def server(
    sock: socket, secret: bytes, job: bytes, *, slot: int = NO_SLOT, deadline: float
) -> Peer:
    """Open a connected blocking socket as the side that was connected to.

    With a slot it serves links, without one it is the rendezvous and serves members. Raises as
    `client` does; garbage is refused at its first wrong byte.
    """
    peer = _drive(sock, server_steps(secret, job, slot), deadline)
    assert peer is not None
    return peer


def client_steps(
    secret: bytes, job: bytes, role: int, slot: int, want: int, process_nonce: int
) -> Steps:
    """Yield (bytes to send, size to read) as the side that connected."""
    hello = _HELLO.pack(
        b"ACPH", VERSION, role, OLDEST, slot, want, process_nonce, job, os.urandom(32)
    )
    yield hello, 0
    challenge = yield from _magic(b"ACPC")
    theirs, begin = yield from _versions()
    challenge += begin
    if not _understood(theirs) or begin[1] == Refusal.BAD_VERSION:
        raise failure(Refusal.BAD_VERSION, theirs)
    challenge += yield b"", _CHALLENGE.size - _BEGIN.size
    _, _, status, _, server_slot, _, mac = _CHALLENGE.unpack(challenge)
    # This one, and another version, come without a MAC, for want of a common secret or format.
    # Believing a forged one costs no more than the cut its forger could make.
    if status == Refusal.BAD_JOB:
        raise failure(status)
    if not _engine.same_digest(mac, _server_mac(secret, hello, challenge)):
        raise failure(Refusal.BAD_MAC)
    if status in (Refusal.BAD_ROLE, Refusal.WRONG_SLOT):
        raise failure(status)
    if status:
        raise failure(Refusal.OTHER)
    if server_slot != want:
        raise failure(Refusal.WRONG_SLOT)
    yield _PROOF.pack(b"ACPP", _client_mac(secret, hello, challenge)), 0
    return None


def server_steps(secret: bytes, job: bytes, slot: int) -> Steps:
    """Yield (bytes to send, size to read) as the side that was connected to."""
    hello = yield from _magic(b"ACPH")
    theirs, begin = yield from _versions()
    hello += begin
    verdict = 0 if _understood(theirs) else Refusal.BAD_VERSION
    if not verdict:
        hello += yield b"", _HELLO.size - _BEGIN.size
        _, _, role, _, client_slot, want, process_nonce, their_job, _ = _HELLO.unpack(hello)
        served = Role.MEMBER if slot == NO_SLOT else Role.LINK
        verdict = (
            Refusal.BAD_JOB
            if their_job != job
            else Refusal.BAD_ROLE
            if role != served
            else Refusal.WRONG_SLOT
            if want != slot
            else 0
        )
    # A slot and a MAC go only to a client that knows the job; any other one learns the reason.
    trusted = verdict not in (Refusal.BAD_JOB, Refusal.BAD_VERSION)
    challenge = _CHALLENGE.pack(
        b"ACPC",
        VERSION,
        verdict,
        OLDEST,
        slot if trusted else 0,
        os.urandom(32) if trusted else bytes(32),
        bytes(_MAC_SIZE),
    )
    if trusted:
        challenge = challenge[:-_MAC_SIZE] + _server_mac(secret, hello, challenge)
    yield challenge, 0
    if verdict:
        raise failure(verdict, theirs)
    proof = yield from _magic(b"ACPP")
    proof += yield b"", _PROOF.size - len(proof)
    if not _engine.same_digest(proof[-_MAC_SIZE:], _client_mac(secret, hello, challenge)):
        raise failure(Refusal.BAD_MAC)
    return Peer(role, client_slot, process_nonce)


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


def _understood(theirs: tuple[int, int]) -> bool:
    newest, oldest = theirs
    return newest >= OLDEST and oldest <= VERSION


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


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:  # and 0 would make the socket non-blocking
        raise TimeoutError("timed out")
    return left


def _drive(sock: socket, steps: Steps, deadline: float) -> Peer | None:
    answer: bytes | None = None
    try:
        while True:
            out, size = steps.send(answer) if answer is not None else next(steps)
            if out:
                send(sock, out, deadline)
            answer = bytes(receive(sock, size, deadline))
    except StopIteration as stop:
        peer: Peer | None = stop.value
        return peer
    except TimeoutError as reason:
        raise TimeoutError("the handshake took too long") from reason
    except ConnectionError as reason:
        raise Broken(f"the connection broke during the handshake: {reason}") from reason


def _magic(expected: bytes) -> Generator[tuple[bytes, int], bytes, bytes]:
    # byte by byte, so that a port scanner is dropped at once and not at the deadline
    for byte in expected:
        if (yield b"", 1)[0] != byte:
            raise failure(Refusal.BAD_MAGIC)
    return expected


def _versions() -> Generator[tuple[bytes, int], bytes, tuple[tuple[int, int], bytes]]:
    """Read on to the end of what is alike in all versions; return those of the other side, too."""
    begin = yield b"", 1
    newest = begin[0]
    if newest < OLDEST:  # nothing more is waited for
        return (newest, newest), begin
    begin += yield b"", 2
    return (newest, begin[2]), begin


def _server_mac(secret: bytes, hello: bytes, challenge: bytes) -> bytes:
    return _engine.hmac_sha256(secret, b"acp server" + hello + challenge[:-_MAC_SIZE])


def _client_mac(secret: bytes, hello: bytes, challenge: bytes) -> bytes:
    return _engine.hmac_sha256(secret, b"acp client" + hello + challenge)
