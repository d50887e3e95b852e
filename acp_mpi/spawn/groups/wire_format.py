"""What a process says to its starter, and to the supervisor that this makes.

Messages of the latter are things of plain types, as bytes. All are the same Python, and trust each
other.
"""

from __future__ import annotations

import marshal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MINDER, REGISTRY = b"m", b"r"  # what a starter is to make

_HEAD = 8  # bytes before a thing: how many it takes


def framed(thing: Any) -> bytes:
    """Return a thing as bytes, with their number in front."""
    data = marshal.dumps(thing)
    return len(data).to_bytes(_HEAD, "little") + data


def parted(data: bytes) -> tuple[list[Any], bytes]:
    """Return the things that are complete in bytes, and the bytes after them."""
    things = []
    while len(data) >= _HEAD:
        end = _HEAD + int.from_bytes(data[:_HEAD], "little")
        if len(data) < end:
            break
        things.append(marshal.loads(data[_HEAD:end]))
        data = data[end:]
    return things, data
