"""The messages of members and the rendezvous, once they trust each other.

Each ends with a code that only the two sides of its connection can make: what somebody between them
has changed, left out, repeated or taken from another connection is refused.
"""

from __future__ import annotations

import struct

from acp_mpi.engine import _engine
from acp_mpi.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    Pieces: TypeAlias = tuple[bytes, bytes, bytes]

_HEADER = struct.Struct("<B3xI")  # kind, length of the payload
HEADER_SIZE, CODE_SIZE = _HEADER.size, _engine.CODE_SIZE
_PAYLOAD_MAX = 2**28  # a table of all possible ranks fits


class Kind:
    """The kinds of messages."""

    ANNOUNCE = 1  # member: an Announcement
    TABLE = 2  # rendezvous: the packed Membership
    REFUSED = 3  # rendezvous: why this member cannot join, as text
    EXPIRED = 4  # rendezvous: the missing members when time is up, as text
    FAILED = 5  # rendezvous: why the job will never be complete, as text
    AWAIT = 6  # member: the names of groups, for a table in which they are


def message(side: _engine.Handshake, kind: int, payload: bytes) -> Pieces:
    """Return the pieces of a message, which goes out next on the connection of `side`.

    The payload is not copied: many may get the same.
    """
    header = _HEADER.pack(kind, len(payload))
    return header, payload, side.code(header, payload)


def parse_header(header: bytes | bytearray) -> tuple[int, int]:
    """Return kind and length of the payload that follows this header, with a code behind it."""
    kind, length = _HEADER.unpack(header)
    if not Kind.ANNOUNCE <= kind <= Kind.AWAIT or length > _PAYLOAD_MAX:
        raise Error(f"no message of this program: kind {kind}, {length} bytes")
    return kind, length


def check(
    side: _engine.Handshake,
    header: bytes | bytearray,
    payload: bytes | bytearray,
    code: bytes | bytearray,
) -> None:
    """Raise Error unless the other side has made this message, next on the connection."""
    if not side.is_right(bytes(header), payload, bytes(code)):
        raise Error("a message was damaged, or changed, on the way: its code is wrong")
