"""What a rank and its delegate say to each other: pickles, in frames of at most 256 bytes."""

from __future__ import annotations

import pickle
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

SIZE = 256
SLOTS = 64
TAG = 0x64656C6567  # of the message by which a rank makes itself known
MORE, CUT, COMMAND, COPIED, DONE, FAILED, SHORT_FOLD, FOLDED = range(8)  # bytes, from SHORT_FOLD on
MOST = 2**20  # bytes of a pickle
FIRED = 1 << 63  # in the number of a command that a kernel has begun
RING_BITS = 40  # of that number: which firing of the ring, which the bits above tell
_HEAD = struct.Struct("<QBB")
_ROOM = SIZE - _HEAD.size


def frames(number: int, kind: int, x: Any) -> Sequence[bytes]:
    """Return the frames of what is said about command `number`."""
    data = x if kind >= SHORT_FOLD else b"" if x is None else pickle.dumps(x, 5)
    if len(data) <= _ROOM:
        return (_HEAD.pack(number, kind, len(data)) + data,)
    if len(data) > MOST:
        raise ValueError(
            f"a command or a result of {len(data)} bytes; {MOST} at most: give the address of an "
            "array in its place"
        )
    pieces = [data[at : at + _ROOM] for at in range(0, len(data), _ROOM)]
    kinds = [*(MORE for _ in pieces[1:]), kind]
    return [
        _HEAD.pack(number, kind, len(piece)) + piece
        for kind, piece in zip(kinds, pieces, strict=True)
    ]


def cut(number: int) -> bytes:
    """Return the frame after which the pieces of command `number` are dropped."""
    return _HEAD.pack(number, CUT, 0)


def plan_of(call: tuple[object, ...], nbytes: int) -> bytes:
    """Return a call for SHORT_FOLD; empty: it does not go into one frame with so many bytes."""
    plan = pickle.dumps(call, 5)
    return bytes((len(plan),)) + plan if 1 + len(plan) + nbytes <= _ROOM else b""


class Listener:
    """Puts frames together; those of several threads may come in turns."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[bytes | bytearray]] = {}  # by the number

    def hear(self, frame: bytes | bytearray) -> tuple[int, int, Any] | None:
        """Return (number, kind, what was said) with its last frame; FAILED and why it is none."""
        number, kind, size = _HEAD.unpack_from(frame)
        data = frame[_HEAD.size : _HEAD.size + size]
        if kind >= SHORT_FOLD:
            return number, kind, bytes(data)
        if kind == MORE:
            self._pieces.setdefault(number, []).append(data)
            return None
        if kind == CUT:
            self._pieces.pop(number, None)
            return None
        if self._pieces:
            data = b"".join([*self._pieces.pop(number, ()), data])
        try:
            return number, kind, pickle.loads(data) if data else None
        except Exception as error:  # of a class of the program
            return number, FAILED, error


def portable(error: BaseException) -> BaseException:
    """Return an error as another process can have it."""
    try:
        found = pickle.loads(pickle.dumps(error, 5))
        if type(found) is type(error) and str(found) == str(error):
            return error
    except Exception:
        pass
    return RuntimeError(f"{type(error).__name__}: {error}")
