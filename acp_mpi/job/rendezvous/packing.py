"""How numbers and texts become bytes: little-endian, lengths first, nothing unpickled."""

from __future__ import annotations

import struct

from acp_mpi.errors import Error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def pack_text(text: str) -> bytes:
    """Return a text of at most 65,535 bytes, preceded by its length."""
    data = text.encode()[:0xFFFF]
    return struct.pack("<H", len(data)) + data


class Reader:
    """Takes apart bytes that may be damaged or hostile: an error, never a wrong value."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data, self._at = memoryview(data), 0

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes; they are not copied."""
        if size > len(self._data) - self._at:
            raise Error(f"a message ends {size - len(self._data) + self._at} bytes too early")
        self._at += size
        return self._data[self._at - size : self._at]

    def numbers(self, form: str) -> tuple[Any, ...]:
        """Return the next numbers of a format of `struct`."""
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def text(self) -> str:
        """Return the next text."""
        (size,) = self.numbers("<H")
        try:
            return bytes(self.take(size)).decode()
        except UnicodeDecodeError:
            raise Error("a message holds text that is not UTF-8") from None

    def end(self) -> None:
        """Raise Error if there is more."""
        if self._at != len(self._data):
            raise Error(f"a message is {len(self._data) - self._at} bytes too long")
