"""The member's side of the rendezvous: announce rows, wait, receive the table.

Here too, because both sides need them: messages and addresses.
"""

import dataclasses
import logging
import os
import socket
import struct
import time
import zlib
from collections.abc import Iterable
from enum import IntEnum

from acp_mpi.errors import Error
from acp_mpi.spawn import handshake
from acp_mpi.spawn.membership import Announcement, Membership

_log = logging.getLogger("acp_mpi.spawn")

_HEADER = struct.Struct("<B3xII")  # kind, length of the payload, its CRC-32
HEADER_SIZE = _HEADER.size
_PAYLOAD_MAX = 2**28  # a table of all possible ranks fits

# The rendezvous knows who is missing, so it is let to speak first when a member's time is up.
_LAST_WORD = 2.0


class Kind(IntEnum):
    """What a message between a member and the rendezvous says."""

    ANNOUNCE = 1  # member: an Announcement
    TABLE = 2  # rendezvous: the packed Membership
    REFUSED = 3  # rendezvous: why this member cannot join, as text
    EXPIRED = 4  # rendezvous: who is missing when time is up, as text


def join(
    address: str,
    secret: bytes,
    group_name: str,
    size: int,
    has_mpi: bool,
    rows: Iterable[tuple[int, bytes]],
    timeout: float = 60.0,
) -> Membership:
    """Join a job with one's group, or with one's part of it, and return the whole table.

    `address` is "host:port" of the rendezvous, `rows` are the (group rank, 64 bytes) that the
    caller answers for: all of them if the group has MPI, and usually its own only if not. Returns
    when all groups of the job are complete; all callers receive the same table. A rendezvous that
    is not there yet is waited for.

    Raises PermissionError if its secret is another, TimeoutError after `timeout` seconds with who
    is missing, Error if it refuses, which includes that somebody else has this rank already.
    """
    deadline = time.monotonic() + timeout
    origin = f"{socket.gethostname()} pid {os.getpid()}"
    announcement = Announcement(group_name, size, has_mpi, tuple(rows), timeout, origin)
    with _connect(address, deadline) as sock:
        try:
            handshake.client(
                sock,
                secret,
                handshake.job_id(secret),
                role=handshake.Role.MEMBER,
                deadline=deadline,
            )
            patience = max(deadline - time.monotonic(), 0.0)
            announcement = dataclasses.replace(announcement, patience=patience)
            handshake.send(sock, message(Kind.ANNOUNCE, announcement.pack()), deadline)
            kind, payload = _receive(sock, deadline + _LAST_WORD)
        except TimeoutError as reason:
            raise TimeoutError(
                f"the rendezvous at {address} did not answer group {group_name!r} "
                f"within {timeout:g} s: {reason}"
            ) from reason
        except PermissionError as reason:
            raise PermissionError(f"the rendezvous at {address}: {reason}") from reason
        except (Error, OSError) as reason:
            raise Error(
                f"group {group_name!r} could not join through the rendezvous at {address}: {reason}"
            ) from reason
    if kind == Kind.TABLE:
        return Membership.unpack(payload)
    text = payload.decode(errors="replace")
    if kind == Kind.EXPIRED:
        raise TimeoutError(f"the rendezvous at {address} gave up: {text}")
    raise Error(f"the rendezvous at {address} refused group {group_name!r}: {text}")


def message(kind: Kind, payload: bytes) -> bytes:
    """Return a message as it goes over the wire."""
    return _HEADER.pack(kind, len(payload), zlib.crc32(payload)) + payload


def parse_header(header: bytes) -> tuple[Kind, int, int]:
    """Return kind, length and check sum of the payload that follows this header."""
    kind, length, check = _HEADER.unpack(header)
    if kind not in iter(Kind) or length > _PAYLOAD_MAX:
        raise Error(f"no message of this program: kind {kind}, {length} bytes")
    return Kind(kind), length, check


def check_payload(payload: bytes, check: int) -> bytes:
    """Return the payload, or raise Error if it was damaged on the way."""
    if zlib.crc32(payload) != check:
        raise Error("a message was damaged on the way: its check sum is wrong")
    return payload


def parse_address(address: str) -> tuple[str, int]:
    """Return host and port of "host:port" or "[IPv6]:port"."""
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not host or not colon or not (port.isascii() and port.isdigit() and int(port) < 2**16):
        raise Error(f"address {address!r}: expected HOST:PORT, or [ADDRESS]:PORT for IPv6")
    return host, int(port)


def may_span_hosts(rendezvous: str | None) -> bool:
    """Return whether processes of other hosts can come to this rendezvous."""
    if rendezvous is None:
        return False
    host = parse_address(rendezvous)[0]
    return host != "localhost" and host != "::1" and not host.startswith("127.")


def format_address(host: str, port: int) -> str:
    """Return what `parse_address` takes apart."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _connect(address: str, deadline: float) -> socket.socket:
    where = parse_address(address)
    pause = 0.02
    while True:
        try:
            sock = socket.create_connection(where, max(deadline - time.monotonic(), 0.01))
            if sock.getsockname() != sock.getpeername():
                return sock
            # Nobody listens, and the system gave this end the very port that it called.
            sock.close()
            refusal = "connection refused"
        except ConnectionRefusedError:
            refusal = "connection refused"
        except TimeoutError:
            refusal = "no answer"
        except OSError as reason:
            raise Error(
                f"the rendezvous at {address} cannot be reached: "
                f"{reason.strerror or reason}; is ACP_RENDEZVOUS right?"
            ) from reason
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError(
                f"the rendezvous at {address} cannot be reached: {refusal}; is it "
                "running, and is ACP_RENDEZVOUS right?"
            )
        if pause == 0.02:
            _log.info("no rendezvous at %s yet (%s): trying on for %.0f s", address, refusal, left)
        time.sleep(min(pause, left))
        pause = min(2 * pause, 1.0)


def _receive(sock: socket.socket, deadline: float) -> tuple[Kind, bytes]:
    kind, length, check = parse_header(handshake.receive(sock, HEADER_SIZE, deadline))
    return kind, check_payload(handshake.receive(sock, length, deadline), check)
