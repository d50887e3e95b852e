"""The messages of members and the rendezvous, once they trust each other."""

import struct
from binascii import crc32

from acp_mpi.errors import Error

_HEADER = struct.Struct("<B3xII")  # kind, length of the payload, its CRC-32
HEADER_SIZE = _HEADER.size
_PAYLOAD_MAX = 2**28  # a table of all possible ranks fits


class Kind:
    """The kinds of messages."""

    ANNOUNCE = 1  # member: an Announcement
    TABLE = 2  # rendezvous: the packed Membership
    REFUSED = 3  # rendezvous: why this member cannot join, as text
    EXPIRED = 4  # rendezvous: the missing members when time is up, as text
    FAILED = 5  # rendezvous: why the job will never be complete, as text
    AWAIT = 6  # member: the names of groups, for a table in which they are


def message(kind: int, payload: bytes) -> bytes:
    """Return a message as it goes over the wire."""
    return _HEADER.pack(kind, len(payload), crc32(payload)) + payload


def parse_header(header: bytes | bytearray) -> tuple[int, int, int]:
    """Return kind, length and check sum of the payload that follows this header."""
    kind, length, check = _HEADER.unpack(header)
    if not Kind.ANNOUNCE <= kind <= Kind.AWAIT or length > _PAYLOAD_MAX:
        raise Error(f"no message of this program: kind {kind}, {length} bytes")
    return kind, length, check


def check_payload(payload: bytes | bytearray, check: int) -> None:
    """Raise Error if a payload was damaged on the way."""
    if crc32(payload) != check:
        raise Error("a message was damaged on the way: its check sum is wrong")
